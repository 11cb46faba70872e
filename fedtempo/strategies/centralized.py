"""Centralized training: the server alone, on what clients upload."""

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
    """The baseline of Hybrid-FL (Section V-D): a model trained on the examples of the clients that agreed to upload.

    Rounds have equal length. In each, clients upload examples one after the other while there are any; at its end the
    server trains the model on all that it holds. Nobody else trains.
    """

    upload: Upload = "iid"
    round_s: Annotated[Positive, Doc("seconds from one training at the server to the next")] = 180.0
    lr_decay: LrDecay = 0.99

    async def run(self, fed: Federation) -> None:
        gathering = Gathering(fed, self.upload)
        if not gathering.clients:
            raise ConfigError("data.share_examples: no client agreed to upload examples, and nobody else trains")
        for number in itertools.count():
            end = fed.now + self.round_s
            await gathering.gather(gathering.clients, end, group=number)
            await fed.sleep_until(end)
            if gathering.examples:
                work = Work(lr_scale=self.lr_decay**number)
                fed.commit(await fed.train_on_server(fed.model, gathering.examples, work))
