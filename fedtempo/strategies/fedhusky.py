"""FedHusky: clients hop between short-lived groups, each planned so that no client is booked twice."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, ClassVar

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation
from fedtempo.parts.fields import STRICT, Doc, Interval, NonNegative, Positive
from fedtempo.strategies.hopping_groups import HoppingGroups, Journey
from fedtempo.strategies.mixing import MemoryShare, Mixer, Steady
from fedtempo.strategies.planning.hopping import Pace

_STUDIES = "fedtempo.studies.papers.beyond_parts"
_TRIED = ("even_speeds", "correct_by", "cool", "clients_at_once", "reach", "min_attempt_gap", "length")

Paced = Annotated[
    Annotated[float, Interval(gt=0, le=1)] | None,
    Doc("form groups in random order at this share of the slowest cluster's capacity (default: exact planner)"),
]


@dataclass(frozen=True, config=STRICT)
class FedHusky(HoppingGroups):
    """Zhou, Shi, Lou and Hou, FedHusky: Accelerating Hybrid Federated Learning with Client Hopping, with our mixing.

    Clients with similar data form clusters (step 1). A group takes one client of each cluster, in an order in which
    every client is free when the model reaches it: the exact optimum of OPT-j for each client j as head at the start
    (step 2), of OPT-k whenever a client is released (step 4). Groups end by the horizon T (step 5).

    Step 3 is ours; the paper's is `fedhusky-paper`. Each hop starts from the current global model w and its change d
    is committed immediately, with weight gain * (1 + gap)^(-exponent), where gap counts the versions that it missed.
    It is corrected for its cluster as in SAGA (Defazio et al., NeurIPS 2014): the mean of all clusters' remembered
    changes replaces the cluster's own. With `pace`, nothing is planned: groups start at regular intervals and visit
    the clusters in random order.
    """

    MOVED: ClassVar[dict[str, str]] = {
        "preset": 'is gone: for "paper" set name = "fedhusky-paper", for "free" name = "async-memory"',
        "order": 'is gone: for "paced" set pace = 0.9, for "free" name = "async-memory"',
        "commit": 'is gone: for "group-model" set name = "fedhusky-paper", '
        f'for "group" name = "{_STUDIES}:FedHuskyGroups"',
        "mixing": 'is gone: for "model" set name = "fedhusky-paper"',
        **dict.fromkeys(_TRIED, f'is gone: delete it, or set name = "{_STUDIES}:FedHuskyHops" to keep it'),
    }

    exponent: Annotated[NonNegative, Doc("how fast a stale change's weight decays; zeta in Eq. 18")] = 1.0
    gain: Annotated[Positive, Doc("weight of a fresh change; weights are capped at 1")] = 2.0
    steady: Steady = True
    correction: Annotated[bool, Doc("correct each hop's change by the remembered changes")] = True
    memory: MemoryShare = 0.5
    pace: Paced = None

    def __post_init__(self) -> None:
        if self.pace is not None and self.max_wait:
            raise ValueError("max_wait is for planned groups: leave out max_wait or pace")

    async def run(self, fed: Federation) -> None:
        cluster = await self.find_clusters(fed)
        mixer = self.mixer(fed, cluster)
        paced = None if self.pace is None else Pace(self.pace, fed.rng("order"))
        schedule = self.schedule(fed, cluster, paced=paced)
        await self.form_groups(fed, schedule, partial(self.live, fed, mixer))

    async def live(self, fed: Federation, mixer: Mixer, group: Journey) -> None:
        """Let the global model hop along a group, and commit each hop's change (step 3)."""
        while group.alive:
            await group.wait_for_turn()
            start = fed.model
            update = await group.train(start)
            if update is not None:
                await mixer.commit(start, update.model, update.client.id)
            group.hop()

    def mixer(self, fed: Federation, memory_of: Sequence[int], *, cool: float = 0.0) -> Mixer:
        """Return what mixes the changes; memory_of: for each client, the number of its remembered change."""
        return Mixer(
            fed,
            memory_of,
            gain=self.gain,
            exponent=self.exponent,
            change=True,
            memory=self.memory if self.correction else None,
            steady=self.steady,
            cool=cool,
        )
