"""Training on the nodes of a Ray cluster. Models move between actors by reference, without passing this process."""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedtempo.errors import ConfigError, FedtempoError, WorkerError
from fedtempo.parts.import_path import search_path
from fedtempo.runtime.executors import Carried, On, Vector
from fedtempo.runtime.executors.arithmetic import read_only
from fedtempo.runtime.executors.job import Answer, Job, pack
from fedtempo.runtime.executors.ray_actor import Actor, computing_versions
from fedtempo.runtime.executors.ray_models import Location, Parameters, Recipe
from fedtempo.runtime.executors.ray_session import Session
from fedtempo.runtime.executors.scoring import Scoring
from fedtempo.runtime.executors.states import State
from fedtempo.runtime.executors.workers import CarriedTask, Task, Worker, Workers

_MAX_CHAIN = 16
"""Visits in a row after which a model is copied to this process's node: no more visits ever have to be repeated."""

_START_S = 120.0
"""Seconds within which one actor must run."""

_MAX_FAILED_STARTS = 3
"""Number of actors that may die before they are ready."""


class _Actor(Worker):
    """A training process. handle: Ray's actor handle. node: Ray's id of its node, once it is ready."""

    def __init__(self, handle: Any) -> None:
        super().__init__()
        self.handle = handle
        self.node = ""


class _Carrying(NamedTuple):
    """What the task of a visit carries besides the model, and where its results go (`CarriedTask`)."""

    carried: Carried
    state: State
    sent: tuple[Location, ...]

    def message(self) -> list[Any]:
        """Return the last arguments of `Actor.train_carried`."""
        before, carried = self.carried.state, self.carried
        state = None if before is None else before.read()
        payload = [model.parameters.ref for model in carried.payload]
        return [state, carried.procedure, carried.numbers, carried.returns, *payload]


class _Remake(Task):
    """A visit that is repeated because its model was lost. then: called with its error, or None, at its end."""

    __slots__ = ("_then",)

    def __init__(self, name: str, arguments: tuple[Any, ...], models: tuple[Any, ...], then: Any) -> None:
        super().__init__(name, arguments, models)
        self._then = then

    def finish(self, answer: Any = None, error: FedtempoError | None = None) -> None:
        super().finish(answer, error)
        self._then(error)


class OnRay(Workers[_Actor]):
    """Executor with actors on a Ray cluster.

    A model that only a lost node had is recomputed from its nearest surviving ancestor: each model remembers the visit
    that made it, back to a model on this process's own node.

    workers: number of actors (default: as fit into the cluster). address: of the cluster ("auto", host:port or
    ray://host:port; default: a new local cluster). num_cpus, num_gpus, resources: claims of each actor, in Ray's terms.
    Raises ConfigError if Ray is not installed, or the cluster cannot be reached or has no room.
    """

    location_type = Location
    workers_name = "actors"

    def __init__(
        self,
        job: Job,
        workers: int | None = None,
        *,
        address: str | None = None,
        num_cpus: float = 1.0,
        num_gpus: float = 0.0,
        resources: Mapping[str, float] | None = None,
    ) -> None:
        model = job.model()
        super().__init__(model, Scoring(job))
        self._session = session = Session(address, workers and workers * num_cpus)
        self._ray = session.ray
        self._starting: dict[Any, _Actor] = {}
        self._models: weakref.WeakSet[Parameters] = weakref.WeakSet()
        self._close = weakref.finalize(
            self, _shut_down, os.getpid(), session, self._workers, self._starting, self._models
        )
        self._started = self._failed_starts = self._remade = 0
        self._broken: WorkerError | None = None
        try:
            self._needs = {"CPU": num_cpus, "GPU": num_gpus, **(resources or {})}
            self._count = _fitting(session.room_for(self._needs), workers, self._needs)
            self._packed, arrays = pack(job, model.channels_last)
            # Contiguous: every actor would copy other arrays when it opens them.
            self._arrays = self._ray.put({name: np.ascontiguousarray(array) for name, array in arrays.items()})
            self._actors = self._ray.remote(
                num_cpus=num_cpus,
                num_gpus=num_gpus,
                resources=dict(resources or {}),
                max_restarts=0,
                scheduling_strategy="SPREAD",
            )(Actor)
            self._initial = self._store(model.sent.numpy())
            for _ in range(self._count):
                self._start_actor()
        except BaseException:
            self._close()
            raise

    def facts(self) -> dict[str, int]:
        """Return facts for the records, including the number of models recomputed."""
        return {
            "workers": self._count,
            "workers_replaced": self._started - self._count,
            "models_made_again": self._remade,
        }

    def close(self) -> None:
        super().close()
        self._arrays = None

    def initial(self) -> Location:
        return self._initial

    def _new_visit(self, name: str, location: Location, arguments: tuple[Any, ...]) -> tuple[Task, Location]:
        trained = Parameters(recipe=Recipe(name, location.parameters, arguments))
        self._models.add(trained)
        return Task(name, (location.parameters, trained, *arguments), (location,)), Location(trained)

    def _new_carried(self, location: Location, arguments: tuple[Any, ...], carried: Carried) -> CarriedTask:
        state, sent = self.states.new(), tuple(Location(Parameters()) for _ in range(carried.returns))
        for model in carried.payload:
            self._bring_here(model.parameters)
        more = _Carrying(carried, state, sent)
        task, out = self._new_visit("train_carried", location, (*arguments, more))
        self._models.update(each.parameters for each in sent)
        return CarriedTask(task, out, state, sent)

    def _bring_here(self, model: Parameters) -> None:
        """Make sure that a model is on this process's node, where it cannot be lost."""
        while model.recipe is not None or model.ref is None:
            if model.ref is None:
                self.finish([self._recomputing(model)])
            self._copy_here(model)
            if model.recipe is not None:
                model.ref = None

    def _new_test(self, location: Location, start: int, stop: int, state: State | None, on: On) -> Task:
        return Task("evaluate", (location.parameters, None, start, stop, state, on), (location, state))

    def _store(self, vector: Vector) -> Location:
        parameters = Parameters(self._ray.put(np.asarray(vector, dtype=np.float32)))
        self._models.add(parameters)
        return Location(parameters)

    def _read(self, locations: Sequence[Location]) -> list[Vector]:
        models = [location.parameters for location in locations]
        while True:
            self.finish([self._recomputing(model) for model in models if model.ref is None])
            try:
                return [read_only(vector) for vector in self._ray.get([model.ref for model in models])]
            except self._ray.exceptions.ObjectLostError:
                for model in models:
                    self._forget_if_lost(model)

    # Actors: started -> ready -> dead

    def _start_actor(self) -> None:
        self._started += 1
        handle = self._actors.remote(self._packed, self._arrays, search_path()[::-1])
        self._starting[handle.whereabouts.remote()] = _Actor(handle)

    def _admit(self, ready: Any) -> None:
        """Admit an actor that is ready, or handle its failure to start."""
        actor = self._starting.pop(ready)
        try:
            actor.node, theirs = self._ray.get(ready)
        except self._ray.exceptions.RayActorError as error:
            self._failed_starts += 1
            if error.actor_init_failed or self._failed_starts > _MAX_FAILED_STARTS:
                self._broken = WorkerError(f"an actor could not start: {_reason(error)}")
            else:
                self._start_actor()
            return
        ours = computing_versions()
        if theirs == ours:
            self._workers.append(actor)
        else:
            self._broken = WorkerError(
                f"a node of the cluster has {_listed(theirs)}, this process has {_listed(ours)}: results would depend "
                "on the node; install the same versions on all nodes"
            )

    def _replace(self, worker: _Actor) -> None:
        with contextlib.suppress(Exception):  # it may be gone
            self._ray.kill(worker.handle)
        self._start_actor()

    # Tasks

    def _pump(self, timeout: float | None) -> None:
        if self._broken is not None:
            self._fail_queued(self._broken)
        self._send()
        actors = {answer: actor for actor in self._workers for answer in actor.tasks}
        awaited = [*actors, *self._starting]
        if not awaited:
            return
        if timeout is None and not self._wait(awaited, 1, None if actors else _START_S):
            self._broken = WorkerError(
                f"no actor with {_listed(self._needs)} has started within {_START_S:g} s: see `ray status` for the "
                "cluster's free resources"
            )
        ready = set(self._wait(awaited, len(awaited), 0))
        for answer in awaited:
            if answer not in ready:
                continue
            if answer in self._starting:
                self._admit(answer)
            elif answer in actors[answer].tasks:  # else its actor has just turned out to be dead
                self._receive(actors[answer], answer)
        self._send()

    def _wait(self, awaited: list[Any], count: int, timeout: float | None) -> list[Any]:
        """Return the answers that are ready."""
        ready: list[Any] = self._ray.wait(awaited, num_returns=count, timeout=timeout, fetch_local=False)[0]
        return ready

    def _give(self, worker: _Actor, task: Task) -> None:
        source, trained, *arguments = task.arguments
        if source.ref is None:
            with _its_own_error(task):
                self._recomputing(source)
                source.waiting.append(weakref.ref(task))
            return
        method = getattr(worker.handle, task.name)
        if trained is None:
            start, stop, state, on = arguments
            answer = method.remote(source.ref, start, stop, None if state is None else state.read(), on)
        else:
            if task.name == "train_carried":
                arguments = [*arguments[:-1], *arguments[-1].message()]
            trained.coming, answer = method.options(num_returns=2).remote(source.ref, *arguments)
        worker.tasks[answer] = task

    def _receive(self, actor: _Actor, answer: Any) -> None:
        errors = self._ray.exceptions
        try:
            received = self._ray.get(answer)
        except errors.RayActorError as error:
            self._bury(actor, _reason(error), by_task=self._session.has_node(actor.node))
            return
        except errors.ObjectLostError:
            task = actor.tasks.pop(answer)
            task.arguments[0].ref = None
            self._do_first(task)
            return
        except errors.RayError as error:
            cause = getattr(error, "cause", None)
            raised = cause if isinstance(cause, FedtempoError) else WorkerError(f"a worker failed:\n{error}")
            actor.tasks.pop(answer).finish(error=raised)
            return
        task = actor.tasks.pop(answer)
        trained = task.arguments[1]
        if trained is not None:
            trained.arrive()
            if trained.visits >= _MAX_CHAIN and trained.ref is not None:
                self._copy_here(trained)
        if task.name == "train_carried":
            received = self._unpacked(task.arguments[-1], *received)
        task.finish(received)

    def _unpacked(
        self, carrying: _Carrying, answer: Answer, state: bytes | None, vectors: Sequence[Vector]
    ) -> tuple[Answer, bytes | None]:
        """Store what a client sends along; return the answer of a `CarriedTask`."""
        for location, vector in zip(carrying.sent, vectors, strict=True):
            location.parameters.ref = self._ray.put(vector)
        return answer, state

    # Lost models

    def _recomputing(self, lost: Parameters) -> Task:
        """Return the visit that recomputes a model; it is queued before all others."""
        if lost.remake is None:
            recipe = lost.recipe
            if recipe is None:
                raise WorkerError("this node's object store has lost a model")
            self._remade += 1
            lost.remake = _Remake(
                recipe.name,
                (recipe.source, lost, *recipe.arguments),
                (Location(recipe.source),),
                functools.partial(self._recomputed, lost),
            )
            self._do_first(lost.remake)
        return lost.remake

    def _recomputed(self, model: Parameters, error: FedtempoError | None) -> None:
        waiting, model.waiting, model.remake = model.waiting, [], None
        for reference in reversed(waiting):
            if (task := reference()) is None:
                continue
            if error is None:
                self._do_first(task)
            else:
                task.finish(error=error)

    def _forget_if_lost(self, model: Parameters) -> None:
        try:
            self._ray.get(model.ref)
        except self._ray.exceptions.ObjectLostError:
            model.ref = None

    def _copy_here(self, model: Parameters) -> None:
        """Copy a model to this process's node, which can only be lost together with this process."""
        with contextlib.suppress(self._ray.exceptions.ObjectLostError):  # noticed when it is needed
            model.ref, model.recipe, model.visits = self._ray.put(self._ray.get(model.ref)), None, 0


def _fitting(room: int, workers: int | None, needs: Mapping[str, float]) -> int:
    """Return the number of actors. Raises ConfigError if the cluster has no room for them."""
    if not room or (workers or 1) > room:
        raise ConfigError(
            f"executor.workers = {workers or '(as many as fit)'}: the cluster has room for {room} actors "
            f"with {_listed(needs)} each"
        )
    return workers or room


def _listed(table: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in table.items() if value)


def _reason(error: Exception) -> str:
    """Return the last line of Ray's message, which names the cause, without its advice."""
    return str(error).strip().splitlines()[-1].strip().partition(" Some common causes")[0]


@contextlib.contextmanager
def _its_own_error(task: Task) -> Any:
    """Turn a WorkerError inside the block into the error of the task."""
    try:
        yield
    except WorkerError as error:
        task.finish(error=error)


def _shut_down(
    owner: int,
    session: Session,
    workers: list[_Actor],
    starting: dict[Any, _Actor],
    models: weakref.WeakSet[Parameters],
) -> None:
    """End the actors, release all models, and disconnect.

    No reference of this connection may remain: a later connection uses the same names for other objects.
    """
    if os.getpid() != owner:  # a forked process has a copy of an executor that it does not own
        return
    for actor in [*workers, *starting.values()]:
        with contextlib.suppress(Exception):  # it may be gone, or the connection
            session.ray.kill(actor.handle)
    for model in models:
        model.ref = model.coming = None
    workers.clear()
    starting.clear()
    session.close()
