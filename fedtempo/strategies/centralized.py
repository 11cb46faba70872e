"""Centralized training: the server trains alone, on examples that clients upload."""

from __future__ import annotations

import itertools
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.federation import Federation, Work
from fedtempo.parts.fields import STRICT, Doc, Positive
from fedtempo.strategies.gathering import Gathering, Upload
from fedtempo.strategies.tdma_round import LrDecay


@dataclass(frozen=True, config=STRICT)
class Centralized:
    """The baseline of Hybrid-FL (Section V-D): the server trains on the examples of clients that agreed to upload.

    All rounds last equally long. During a round, clients upload their remaining examples one after the other; at its
    end the server trains the model on all the examples that it holds. Clients do not train.
    """

    upload: Upload = "iid"
    round_s: Annotated[Positive, Doc("time between two trainings at the server, seconds")] = 180.0
    lr_decay: LrDecay = 0.99

    async def run(self, fed: Federation) -> None:
        gathering = Gathering(fed, self.upload)
        if not gathering.clients:
            raise ConfigError(
                "data.share_examples: no client agreed to upload examples, and only the server trains; increase it"
            )
        for number in itertools.count():
            end = fed.now + self.round_s
            await gathering.gather(gathering.clients, end, group=number)
            await fed.sleep_until(end)
            if gathering.examples:
                work = Work(lr_scale=self.lr_decay**number)
                fed.commit(await fed.train_on_server(fed.model, gathering.examples, work))
