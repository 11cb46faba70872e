"""Hybrid-FL: FedCS plus a server that trains on examples from the few clients that agree to upload theirs."""

from __future__ import annotations

import asyncio
import itertools
from typing import Annotated, Literal

import numpy as np
from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Model, Update, Work
from fedtempo.parts.fields import STRICT, Doc
from fedtempo.strategies.gathering import Gathering, Upload, Uploaders, histogram
from fedtempo.strategies.planning.deadline import Imbalance
from fedtempo.strategies.tdma_round import (
    CandidateShare,
    Deadline,
    LrDecay,
    draw_candidates,
    select,
    train_and_send_in_turn,
)


@dataclass(frozen=True, config=STRICT)
class HybridFL:
    """Yoshida, Nishio, Morikura, Yamamoto and Yonetani, Hybrid-FL for Wireless Networks, ICC 2020, Protocol 2.

    Rounds are those of FedCS. While the chosen clients train, other candidates that agreed to upload raw examples send
    them, until the first model is expected (t^UD). The server keeps all examples of this and earlier rounds and trains
    the global model on them; its model joins the average, which is weighted by examples. A client that trains uploads
    no examples in the same round, since a client does one thing at a time.
    """

    selection: Annotated[
        Literal["min-cv", "max-clients"],
        Doc("choose by the least T_inc times the imbalance of all data trained on so far, or the least T_inc (FedCS)"),
    ] = "min-cv"
    upload: Upload = "iid"
    imbalance: Annotated[
        Imbalance, Doc("CV of min-cv: variance over mean (Eq. 1 as printed), or the true coefficient of variation")
    ] = "printed"
    uploaders: Uploaders = "candidates"
    candidates: CandidateShare = 0.1
    deadline_s: Deadline = 180.0
    lr_decay: LrDecay = 0.99

    async def run(self, fed: Federation) -> None:
        gathering = Gathering(fed, self.upload)
        counts = np.array([histogram(client) for client in fed.clients])
        trained = np.zeros_like(counts[0])
        for number in itertools.count():
            started, work = fed.now, Work(lr_scale=self.lr_decay**number)
            candidates = draw_candidates(fed, self.candidates, number)
            balance = trained if self.selection == "min-cv" else None
            chosen, plan = select(fed, candidates, self.deadline_s, trained=balance, imbalance=self.imbalance)
            visits = await fed.multicast(chosen, fed.model, group=number)
            until = fed.now + (self.deadline_s if plan.window_s is None else plan.window_s)
            uploaders = set(gathering.clients if self.uploaders == "all" else candidates) - set(chosen)
            async with asyncio.TaskGroup() as tasks:
                gathered = tasks.create_task(gathering.gather(uploaders, until, group=number))
                updates = await train_and_send_in_turn(fed, visits, work, after=gathered)
            trained = trained + sum(counts[update.client.id] for update in updates)
            if not updates:
                await fed.sleep_until(started + (plan.round_s if chosen else self.deadline_s))
            await self.aggregate(fed, updates, gathering, work)

    async def aggregate(self, fed: Federation, updates: list[Update], gathering: Gathering, work: Work) -> None:
        """Commit the mean of the clients' models and, if it holds examples, the server's."""
        models: list[Update | Model] = [*updates]
        weights = [update.num_examples for update in updates]
        if gathering.examples:
            models.append(await fed.train_on_server(fed.model, gathering.examples, work))
            weights.append(gathering.num_examples)
        if models:
            fed.commit(await fed.average(models, weights))
