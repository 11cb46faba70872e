"""Rounds in a radio cell where one client uploads at a time (FedCS, Hybrid-FL)."""

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
    float,
    Interval(gt=0, le=1),
    Doc("share of the clients that are candidates each round, drawn uniformly; C in the paper"),
]
Deadline = Annotated[Positive, Doc("limit of a round's estimated duration, seconds; T_round in the paper")]
LrDecay = Annotated[
    float,
    Interval(gt=0, le=1),
    Doc("factor on the learning rate from round to round; training.lr is that of the first round"),
]


def draw_candidates(fed: Federation, share: float, number: int) -> list[Client]:
    """Draw the candidates of round `number`: a share of all clients, rounded up."""
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
    """Return the clients that train in a round, in the order of their uploads, and the expected course of the round.

    trained: examples of each class that earlier rounds trained on, if the choice is to balance them.
    """
    estimates = [fed.estimate(client) for client in candidates]
    selection = select_within_deadline(
        [times.download_s for times in estimates],
        [times.compute_s for times in estimates],
        [times.upload_s for times in estimates],
        deadline_s,
        class_counts=None if trained is None else np.array([client.label_histogram for client in candidates]),
        class_counts_before=trained,
        imbalance=imbalance,
    )
    return [candidates[position] for position in selection.chosen], selection


async def train_and_send_in_turn(
    fed: Federation, visits: Sequence[Visit], work: Work, *, after: Awaitable[None] | None = None
) -> list[Update]:
    """Let the clients train in parallel, then upload their models one after the other in the order of `visits`.

    after: what uses the channel before the first upload. Returns the updates in order; lost clients are skipped.
    """

    async def has_trained(visit: Visit) -> bool:
        try:
            await fed.compute(visit, work)
        except ClientUnavailable:
            return False
        return True

    updates = []
    async with asyncio.TaskGroup() as tasks:
        training = [tasks.create_task(has_trained(visit)) for visit in visits]
        if after is not None:
            await after
        for visit, trained in zip(visits, training, strict=True):
            if await trained:
                with contextlib.suppress(ClientUnavailable):
                    updates.append(await fed.upload(visit))
    return updates
