"""FedCS: choose as many clients as fit into a round with a deadline."""

from __future__ import annotations

import itertools

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Work
from fedtempo.parts.fields import STRICT
from fedtempo.strategies.tdma_round import (
    CandidateShare,
    Deadline,
    LrDecay,
    draw_candidates,
    select,
    train_and_send_in_turn,
)


@dataclass(frozen=True, config=STRICT)
class FedCS:
    """Nishio and Yonetani, Client Selection for Federated Learning with Heterogeneous Resources in Mobile Edge, 2019.

    Each round a random share of the clients reports its resources, and the server chooses greedily, by the time that
    each adds to the round, those that fit within the deadline (Hybrid-FL's Algorithm 1; the server knows estimates,
    which are means if resources fluctuate). The model is multicast to all of them; they train in parallel and upload
    one after the other in the order in which they were chosen. The mean, weighted by examples, is the next global
    model.
    """

    candidates: CandidateShare = 0.1
    deadline_s: Deadline = 180.0
    lr_decay: LrDecay = 0.99

    async def run(self, fed: Federation) -> None:
        for number in itertools.count():
            started = fed.now
            candidates = draw_candidates(fed, self.candidates, number)
            chosen, plan = select(fed, candidates, self.deadline_s)
            visits = await fed.multicast(chosen, fed.model, group=number)
            updates = await train_and_send_in_turn(fed, visits, Work(lr_scale=self.lr_decay**number))
            if updates:
                fed.commit(await fed.average(updates))
            else:
                await fed.sleep_until(started + (plan.round_s if chosen else self.deadline_s))
