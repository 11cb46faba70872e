"""FedHusky: clients hop between short-lived groups, each planned so that nobody is booked twice."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import ArgsKwargs

from fedtempo.federation import Client, ClientUnavailable, Federation, Update
from fedtempo.parts.fields import STRICT, Count, Doc, Gt, Interval, Le, NonNegative, Positive, Share
from fedtempo.strategies.asynchronous import ClientsAtOnce, train_always
from fedtempo.strategies.grouping import ClusterChoice, CountWarmup, WarmupEpochs, find_clusters
from fedtempo.strategies.mixing import Mixer
from fedtempo.strategies.planning.hopping import Group, HoppingSchedule

PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "free": {"order": "free", "clusters": 1, "correct_by": "client", "exponent": 0.75, "gain": 1.0},
    "paper": {
        "commit": "group",
        "mixing": "model",
        "exponent": 0.9,
        "gain": 1.0,
        "steady": False,
        "correction": False,
        "count_warmup": False,
        "rebook": False,
        "on_loss": "skip",
    },
}


@dataclass(frozen=True, config=STRICT)
class FedHusky:
    """Zhou, Shi, Lou and Hou, FedHusky: Accelerating Hybrid Federated Learning with Client Hopping.

    Clients with similar data form clusters (step 1). A group takes one client of each cluster, in an order such that
    every client is free when the model reaches it: the exact optimum of OPT-j for each client j as head at the start
    (step 2), of OPT-k whenever a client is released (step 4). The model hops along the group, and what comes out is
    mixed into the global model with weight gain * (1 + gap)^(-exponent), gap being the versions since it was taken
    (step 3, Eqs. 17, 18; zeta is `exponent`, tau is `Model.version`). Groups end by the horizon T (step 5).

    preset = "paper" is the paper to the letter. The default keeps its calendars and planner and changes the mixing:
    each hop starts from the fresh global model, its change is committed at once, and it is corrected for its cluster as
    in SAGA (Defazio et al., NeurIPS 2014): the cluster's remembered change is replaced by the mean of all clusters'.
    """

    preset: Annotated[Literal["default", "free", "paper"], Doc("values of the fields that are not given")] = "default"
    clusters: ClusterChoice = "models"
    warmup_epochs: WarmupEpochs = 3
    count_warmup: CountWarmup = True
    even_speeds: Annotated[
        bool, Doc("clients of two clusters change places until all clusters are about as fast: more groups can live")
    ] = False
    commit: Annotated[Literal["hop", "group"], Doc("what is mixed: each client's work, or a whole group's")] = "hop"
    mixing: Annotated[Literal["change", "model"], Doc("w + weight * change, or (1 - weight) * w + weight * model")] = (
        "change"
    )
    exponent: Annotated[NonNegative, Doc("decay of a stale result's weight; zeta in Eq. 18")] = 1.0
    gain: Annotated[Positive, Doc("weight of a result that is not stale, before it is cut off at 1")] = 2.0
    steady: Annotated[bool, Doc("a result fresher than the mean so far counts as stale as the mean")] = True
    correction: Annotated[bool, Doc("correct each hop's change for its cluster, or its client")] = True
    memory: Annotated[float, Interval(gt=0, le=1), Doc("share of a new change in the remembered one")] = 0.5
    correct_by: Annotated[
        Literal["cluster", "client"], Doc("whose changes are remembered: a model's size for each")
    ] = "cluster"
    cool: Annotated[Share, Doc("share of the horizon, at its end, over which the gain falls evenly to nothing")] = 0.0
    order: Annotated[
        Literal["planned", "paced", "free"],
        Doc("exact planner, random order at a steady pace, or groups of one: whoever is free trains"),
    ] = "planned"
    clients_at_once: ClientsAtOnce = None
    reach: Annotated[float, Gt(0), Le(1), Doc("share of each cluster's clients that are visited, the fastest ones")] = (
        1.0
    )
    tick_s: Annotated[Positive, Doc("the calendars' unit, seconds")] = 0.1
    guard: Annotated[NonNegative, Doc("share added to every estimate before booking")] = 0.0
    on_loss: Annotated[
        Literal["abort", "skip"], Doc("a group that loses a client ends and gives back its later bookings, or goes on")
    ] = "abort"
    rebook: Annotated[bool, Doc("move the rest of a group that runs late to where its clients are free")] = True
    min_attempt_gap: Annotated[NonNegative, Doc("seconds between attempts to plan a group")] = 0.0
    max_wait: Annotated[
        NonNegative | None,
        Doc("seconds: planned, that a model may wait before a hop (none by default); paced, in all (any by default)"),
    ] = None
    pace: Annotated[float, Interval(gt=0), Le(1), Doc("paced: share of the slowest cluster's capacity to use")] = 0.9
    length: Annotated[Count | None, Doc("paced: clusters that a group visits; all where not given")] = None

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, values: ArgsKwargs) -> ArgsKwargs:
        given = values.kwargs or {}
        return ArgsKwargs(values.args, {**PRESETS.get(given.get("preset", "default"), {}), **given})

    def __post_init__(self) -> None:
        if self.commit == "group" and self.correction:
            raise ValueError('correction works on hops: set commit = "hop" or correction = false')
        if self.mixing == "model" and self.correction:
            raise ValueError('correction works on changes: set mixing = "change" or correction = false')

    async def run(self, fed: Federation) -> None:
        cluster = await find_clusters(
            fed, self.clusters, self.warmup_epochs, self.count_warmup, even_speeds=self.even_speeds
        )
        mixer = self.mixer(fed, cluster)
        if self.order == "free":
            await self.run_free(fed, cluster, mixer)
        else:
            await self.run_groups(fed, cluster, mixer)

    def mixer(self, fed: Federation, cluster: Sequence[int], kind: type[Mixer] = Mixer) -> Mixer:
        """What results are mixed by; cluster: of each client."""
        return kind(
            fed,
            cluster if self.correct_by == "cluster" else range(len(fed.clients)),
            gain=self.gain,
            exponent=self.exponent,
            change=self.mixing == "change",
            memory=self.memory if self.correction else None,
            steady=self.steady,
            cool=self.cool,
        )

    async def run_free(self, fed: Federation, cluster: Sequence[int], mixer: Mixer) -> None:
        """Groups of one: whoever is free trains, those first whose cluster was visited least, then they themselves."""
        visits_of_cluster, visits = Counter[int](), Counter[int]()

        def fewest(client: Client) -> tuple[int, int]:
            return visits_of_cluster[cluster[client.id]], visits[client.id]

        async def arrived(update: Update) -> None:
            await mixer.commit(update.received, update.model, update.client.id)

        def begins(client: Client) -> None:
            visits_of_cluster[cluster[client.id]] += 1
            visits[client.id] += 1

        reachable = [fed.clients[i] for i in within_reach(fed, cluster, self.reach)]
        await train_always(fed, self.clients_at_once, arrived, among=reachable, prefer=fewest, begins=begins)

    async def run_groups(self, fed: Federation, cluster: Sequence[int], mixer: Mixer) -> None:
        schedule = HoppingSchedule(
            [fed.estimate(client).visit_s for client in fed.clients],
            cluster,
            horizon=fed.horizon,
            tick_s=self.tick_s,
            guard=self.guard,
            max_wait_s=self.max_wait,
            min_attempt_gap_s=self.min_attempt_gap,
            paced=(self.pace, self.length, fed.rng("order")) if self.order == "paced" else None,
        )
        reachable = within_reach(fed, cluster, self.reach)
        schedule.keep(reachable)
        async with asyncio.TaskGroup() as groups:

            def attempt(head: int | None = None) -> None:
                if self.clients_at_once is not None and schedule.alive >= self.clients_at_once:
                    return
                group = schedule.form(fed.now, head)
                if group is not None:
                    name = f"group {group.number}"
                    groups.create_task(self.live(fed, schedule, mixer, group, released), name=name)

            async def attempt_later() -> None:
                while not schedule.alive and (moment := schedule.next_chance(fed.now)) < fed.horizon:
                    await fed.sleep_until(moment)
                    attempt()

            def released() -> None:
                if self.order == "planned":
                    attempt()
                    if not schedule.alive:  # nobody will be released any more
                        groups.create_task(attempt_later(), name="next attempt")

            if self.order == "planned":
                for client in reachable:
                    attempt(head=client)
            while self.order == "paced" and fed.now < fed.horizon:
                attempt()
                await fed.sleep_until(fed.now + schedule.interval_s)

    async def live(
        self, fed: Federation, schedule: HoppingSchedule, mixer: Mixer, group: Group, released: Callable[[], None]
    ) -> None:
        """A group's life: its model hops from client to client and dies with the last."""
        start = model = fed.model
        position, alive = 0, True
        while alive:
            client = fed.clients[group.client(position)]
            await fed.sleep_until(schedule.may_start(group, position, fed.now))
            if self.commit == "hop":
                start = model = fed.model
            last = position + 1 == len(group.stops)
            to = None if last or self.commit == "hop" else fed.clients[group.client(position + 1)]
            abort = False
            try:
                update = await fed.train(client, model, group=group.number, to=to)
            except ClientUnavailable:
                await fed.sleep_until(schedule.ends(group, position))
                abort = self.on_loss == "abort"
            else:
                model = update.model
                if self.commit == "hop":
                    await mixer.commit(start, model, client.id)
            if self.commit == "group" and last and model is not start and not abort:
                await mixer.commit(start, model, client.id)
            schedule.learn(client.id, fed.estimate(client).visit_s)
            alive = schedule.goes_on(group, position, fed.now, rebook=self.rebook, abort=abort)
            position += 1
            released()


def within_reach(fed: Federation, cluster: Sequence[int], share: float) -> list[int]:
    """Ids of the clients with the shortest visits, `share` of each cluster, rounded up."""
    members: dict[int, list[int]] = {}
    for client in sorted(range(len(cluster)), key=lambda i: (fed.estimate(fed.clients[i]).visit_s, i)):
        members.setdefault(cluster[client], []).append(client)
    return sorted(client for own in members.values() for client in own[: math.ceil(share * len(own) - 1e-9)])
