"""FedHusky: clients hop between short-lived groups, each planned so that no client is booked twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import ArgsKwargs

from fedtempo.federation import ClientUnavailable, Federation
from fedtempo.parts.fields import STRICT, Count, Doc, Interval, Le, NonNegative, Positive
from fedtempo.strategies.asynchronous import ClientsAtOnce
from fedtempo.strategies.forming import keep_forming
from fedtempo.strategies.grouping import ClusterChoice, CountWarmup, Reach, WarmupEpochs, fastest_clients, find_clusters
from fedtempo.strategies.mixing import Cool, MemoryShare, Mixer, Steady
from fedtempo.strategies.planning.hopping import Group, HoppingSchedule, Pace

PAPER = {"commit": "group-model", "exponent": 0.9, "gain": 1.0, "steady": False, "correction": False}
PAPER |= {"count_warmup": False, "rebook": False, "on_loss": "skip"}
PRESETS: dict[str, dict[str, Any]] = {"default": {}, "paper": PAPER}


@dataclass(frozen=True, config=STRICT)
class FedHusky:
    """Zhou, Shi, Lou and Hou, FedHusky: Accelerating Hybrid Federated Learning with Client Hopping.

    Clients with similar data form clusters (step 1). A group takes one client of each cluster, in an order in which
    every client is free when the model reaches it: the exact optimum of OPT-j for each client j as head at the start
    (step 2), of OPT-k whenever a client is released (step 4). The model hops along the group, and the result is mixed
    into the global model with weight gain * (1 + gap)^(-exponent), where gap counts the versions since the group took
    its model (step 3, Eqs. 17, 18; zeta is `exponent`, tau `Model.version`). Groups end by the horizon T (step 5).

    preset = "paper" is the paper to the letter. The default keeps its calendars and planner and changes the mixing:
    each hop starts from the current global model, its change is committed immediately, and it is corrected for its
    cluster as in SAGA (Defazio et al., NeurIPS 2014): the mean of all clusters' remembered changes replaces the
    cluster's own.
    """

    MOVED: ClassVar[dict[str, str]] = {"mixing": 'is now part of commit: "hop", "group" or "group-model"'}

    preset: Annotated[Literal["default", "paper"], Doc("defaults of the fields that are not given")] = "default"
    clusters: ClusterChoice = "models"
    warmup_epochs: WarmupEpochs = 3
    count_warmup: CountWarmup = True
    even_speeds: Annotated[bool, Doc("swap clients between clusters until all are about equally fast")] = False
    commit: Annotated[
        Literal["hop", "group", "group-model"],
        Doc("mixed in: each hop's change, a group's change, or its model, (1 - weight) * w + weight * model (Eq. 17)"),
    ] = "hop"
    exponent: Annotated[NonNegative, Doc("how fast a stale result's weight decays; zeta in Eq. 18")] = 1.0
    gain: Annotated[Positive, Doc("weight of a fresh result; weights are capped at 1")] = 2.0
    steady: Steady = True
    correction: Annotated[bool, Doc("correct each hop's change by the remembered changes")] = True
    memory: MemoryShare = 0.5
    correct_by: Annotated[
        Literal["cluster", "client"], Doc("remember a change per cluster or per client, each of a model's size")
    ] = "cluster"
    cool: Cool = 0.0
    order: Annotated[Literal["planned", "paced"], Doc("exact planner, or random order at a steady pace")] = "planned"
    clients_at_once: ClientsAtOnce = None
    reach: Reach = 1.0
    tick_s: Annotated[Positive, Doc("time step of the calendars, seconds")] = 0.1
    guard: Annotated[NonNegative, Doc("share added to every estimated visit before it is booked")] = 0.0
    on_loss: Annotated[
        Literal["abort", "skip"], Doc("a group that loses a client ends and frees its later bookings, or skips it")
    ] = "abort"
    rebook: Annotated[bool, Doc("move the rest of a late group to times when its clients are free")] = True
    min_attempt_gap: Annotated[NonNegative, Doc("least time between attempts to plan a group, seconds")] = 0.0
    max_wait: Annotated[NonNegative, Doc("planned: longest wait of a model before a hop, seconds")] = 0.0
    pace: Annotated[float, Interval(gt=0), Le(1), Doc("paced: share of the slowest cluster's capacity to use")] = 0.9
    length: Annotated[Count | None, Doc("paced: clusters that a group visits (default: all)")] = None

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, values: ArgsKwargs) -> ArgsKwargs:
        given = values.kwargs or {}
        for field in ("preset", "order"):
            if given.get(field) == "free":
                raise ValueError(f'{field} = "free" is now a strategy of its own; set name = "async-memory"')
        return ArgsKwargs(values.args, {**PRESETS.get(given.get("preset", "default"), {}), **given})

    def __post_init__(self) -> None:
        if self.commit != "hop" and self.correction:
            raise ValueError('correction works on hops: set commit = "hop" or correction = false')
        if self.order == "paced" and self.max_wait:
            raise ValueError('max_wait works with order = "planned" only: leave it out or change order')

    async def run(self, fed: Federation) -> None:
        cluster = await find_clusters(
            fed, self.clusters, self.warmup_epochs, self.count_warmup, even_speeds=self.even_speeds
        )
        mixer = Mixer(
            fed,
            cluster if self.correct_by == "cluster" else range(len(fed.clients)),
            gain=self.gain,
            exponent=self.exponent,
            change=self.commit != "group-model",
            memory=self.memory if self.correction else None,
            steady=self.steady,
            cool=self.cool,
        )
        schedule = HoppingSchedule(
            [fed.estimate(client).visit_s for client in fed.clients],
            cluster,
            horizon=fed.horizon,
            tick_s=self.tick_s,
            guard=self.guard,
            max_wait_s=self.max_wait,
            min_attempt_gap_s=self.min_attempt_gap,
            paced=Pace(self.pace, self.length, fed.rng("order")) if self.order == "paced" else None,
        )
        clients = fastest_clients(fed, cluster, self.reach)
        schedule.keep(clients)

        life = partial(self.live, fed, schedule, mixer)
        await keep_forming(fed, schedule, clients, life, most_alive=self.clients_at_once)

    async def live(
        self, fed: Federation, schedule: HoppingSchedule, mixer: Mixer, group: Group, released: Callable[[], None]
    ) -> None:
        """Let a group's model hop from client to client, and mix what it learns."""
        start = model = fed.model
        position, alive = 0, True
        while alive:
            client = fed.clients[group.client(position)]
            await fed.sleep_until(schedule.may_start(group, position, fed.now))
            if self.commit == "hop":
                start = model = fed.model
            last = position + 1 == len(group.stops)
            successor = None if last or self.commit == "hop" else fed.clients[group.client(position + 1)]
            abort = False
            try:
                update = await fed.train(client, model, group=group.number, to=successor)
            except ClientUnavailable:
                await fed.sleep_until(schedule.ends(group, position))
                abort = self.on_loss == "abort"
            else:
                model = update.model
                if self.commit == "hop":
                    await mixer.commit(start, model, client.id)
            if self.commit != "hop" and last and model is not start and not abort:
                await mixer.commit(start, model, client.id)
            schedule.learn(client.id, fed.estimate(client).visit_s)
            alive = schedule.goes_on(group, position, fed.now, rebook=self.rebook, abort=abort)
            position += 1
            released()
