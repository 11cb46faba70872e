"""Centralized training: the server trains alone, on examples that clients upload."""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.federation import Federation, Work
from fedtempo.parts.fields import STRICT, Doc, Positive
from fedtempo.strategies.gathering import Gathering, Upload, Uploaders
from fedtempo.strategies.tdma_round import CandidateShare, LrDecay, draw_candidates, select


@dataclass(frozen=True, config=STRICT)
class Centralized:
    """The baseline of Hybrid-FL (Section V-D): the server trains on the examples of clients that agreed to upload.

    All rounds last equally long. During a round, clients upload their remaining examples one after the other; at its
    end the server trains the model on all the examples that it holds. Clients do not train. As in Hybrid-FL, uploads
    last for t^UD, until the first model of a FedCS round with these candidates would be expected.
    """

    upload: Upload = "iid"
    uploaders: Uploaders = "candidates"
    window: Annotated[
        Literal["first-model", "round"],
        Doc("clients upload until a FedCS round would expect its first model (t^UD), or for the whole round"),
    ] = "first-model"
    candidates: CandidateShare = 0.1
    round_s: Annotated[Positive, Doc("time between two trainings at the server, seconds")] = 180.0
    lr_decay: LrDecay = 0.99

    async def run(self, fed: Federation) -> None:
        gathering = Gathering(fed, self.upload)
        if not gathering.clients:
            raise ConfigError(
                "data.share_examples: no client agreed to upload examples, and only the server trains; increase it"
            )
        for number in itertools.count():
            end = until = fed.now + self.round_s
            candidates = draw_candidates(fed, self.candidates, number)
            if self.window == "first-model":
                _, plan = select(fed, candidates, self.round_s)
                until = fed.now + (self.round_s if plan.window_s is None else plan.window_s)
            senders = set(gathering.clients if self.uploaders == "all" else candidates)
            await gathering.gather(senders, until, group=number)
            await fed.sleep_until(end)
            if gathering.examples:
                work = Work(lr_scale=self.lr_decay**number)
                fed.commit(await fed.train_on_server(fed.model, gathering.examples, work))
