"""Rounds in a radio cell in which one client sends at a time (FedCS, Hybrid-FL)."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Sequence
from typing import Annotated

import numpy as np

from fedtempo.federation import Client, ClientUnavailable, Federation, Update, Visit, Work
from fedtempo.parts.fields import Doc, Interval, Positive
from fedtempo.strategies.planning.deadline import Imbalance, Selection, select_within_deadline
from fedtempo.strategies.rounds import uniform_sample

CandidateShare = Annotated[
    float, Interval(gt=0, le=1), Doc("share of the clients that are asked each round, drawn uniformly; C in the paper")
]
Deadline = Annotated[Positive, Doc("seconds below which a round must stay by the estimates; T_round in the paper")]
LrDecay = Annotated[
    float, Interval(gt=0, le=1), Doc("factor on the step size from round to round; [training] lr is the first round's")
]


def draw_candidates(fed: Federation, share: float, number: int) -> list[Client]:
    """The clients that are asked in round `number`: the share of all, rounded up."""
    count = math.ceil(share * len(fed.clients) - 1e-9)  # 0.07 * 100 is a little more than 7
    return uniform_sample(fed.clients, count, fed.rng("candidates", number))


def select(
    fed: Federation,
    candidates: Sequence[Client],
    deadline_s: float,
    *,
    trained: np.ndarray | None = None,
    imbalance: Imbalance = "printed",
) -> tuple[list[Client], Selection]:
    """Who trains in a round, in the order of their uploads, and how the round is expected to go.

    trained: examples of each class that all rounds so far trained on, where the choice is to balance them.
    """
    believed = [fed.estimate(client) for client in candidates]
    selection = select_within_deadline(
        [times.download_s for times in believed],
        [times.compute_s for times in believed],
        [times.upload_s for times in believed],
        deadline_s,
        class_counts=None if trained is None else np.array([client.label_histogram for client in candidates]),
        class_counts_before=trained,
        imbalance=imbalance,
    )
    return [candidates[place] for place in selection.chosen], selection


async def train_and_send_in_turn(
    fed: Federation, visits: Sequence[Visit], work: Work, *, after: Awaitable[None] | None = None
) -> list[Update]:
    """The clients train at once, then send their models one after the other, in the order of `visits`.

    after: what has the cell before the first of them. Returns what came, in order; lost clients are passed by.
    """

    async def trains(visit: Visit) -> bool:
        try:
            await fed.compute(visit, work)
        except ClientUnavailable:
            return False
        return True

    updates = []
    async with asyncio.TaskGroup() as tasks:
        training = [tasks.create_task(trains(visit)) for visit in visits]
        if after is not None:
            await after
        for visit, trained in zip(visits, training, strict=True):
            if await trained:
                with contextlib.suppress(ClientUnavailable):
                    updates.append(await fed.upload(visit))
    return updates
