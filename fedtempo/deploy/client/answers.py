"""A client's answers to a server's calls. Only what is installed here runs; a call brings settings and numbers."""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import torch

from fedtempo.deploy.client.settings import ClientSettings
from fedtempo.deploy.live.messages import PROTOCOL, Arrays
from fedtempo.errors import ConfigError, FedtempoError
from fedtempo.learning.examples import Examples
from fedtempo.learning.local import train
from fedtempo.learning.malloc import keep_freed_memory
from fedtempo.learning.networks import NETWORKS, Network, create, network_code
from fedtempo.learning.numerics import fixed_numerics
from fedtempo.learning.state import FlatModel, Vector
from fedtempo.learning.training import LOSSES, OPTIMIZERS, Training
from fedtempo.parts.construct import construct
from fedtempo.runs.config import network_from
from fedtempo.runtime.keyed import keyed_generator

log = logging.getLogger("fedtempo.client")

_COPIES = 5
"""Of a model while it trains: as received, its parameters, their gradients, a copy to send, the copy sent before."""


_WORDS = 500
"""Characters of what a server tells that are logged."""


class Refusal(FedtempoError):
    """The client does not do what a call asks."""


@dataclass(frozen=True, eq=False)
class Stay:
    """What a client keeps between the phases of a visit. number: the server's. trained: whether compute is over."""

    number: int
    vector: Vector
    trained: bool = False


@dataclass(frozen=True, eq=False)
class _Built:
    """The model of a job, kept for the next visit. described: the job as JSON."""

    described: str
    network: Network
    model: FlatModel
    examples: Examples


class Answers:
    """Answers calls on this client's own examples, one at a time.

    stay: what it keeps between the phases of a visit; whoever runs each call in a new process puts it back.
    """

    def __init__(self, settings: ClientSettings) -> None:
        """Reads the client's examples. Raises ConfigError where they are not usable."""
        self._settings = settings
        own = settings.data.read()
        self._own, self._numbered_by = own, own.class_names
        self._x, self._y, self._n_outputs, self._task = own.x, own.y, own.n_outputs, own.task
        if not len(self._y):
            raise ConfigError("data: there are no examples to train on")
        for name, agreed in (("tell_labels", settings.tell_labels), ("share_examples", settings.share_examples)):
            if agreed and self._task != "classes":
                raise ConfigError(f"{name} = true: it is by classes, and {settings.data.source} asks for {self._task}")
        self._built: _Built | None = None
        self.stay: Stay | None = None
        self._last: tuple[str, tuple[dict[str, Any], Arrays]] | None = None

    @property
    def num_examples(self) -> int:
        return len(self._y)

    def answer(self, kind: str, content: Mapping[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        """What to reply to a call; {"refused": why} where the client does not do it.

        A call that it has just answered, known by its name, is answered the same again: its server was away.
        """
        if kind == "notice":  # nothing is asked: what was answered last may still be asked for again
            log.warning(
                "visit %s: the server refuses the update: %s", content.get("stay"), _one_line(content.get("why"))
            )
            return {}, ()
        name = content.get("call")
        if self._last is not None and self._last[0] == name:
            log.info("%s answered again", _named(kind, content))
            return self._last[1]
        reply = self._fresh(kind, content, arrays)
        self._last = (name, reply) if isinstance(name, str) else None
        return reply

    def _fresh(self, kind: str, content: Mapping[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        began = time.perf_counter()
        try:
            reply = self._answer(kind, content, arrays)
        except FedtempoError as error:
            log.warning("%s refused: %s", kind, "\n".join(filter(None, [str(error), error.frames])))
            return {"refused": str(error)}, ()
        except (KeyError, TypeError, ValueError) as error:
            log.warning("%s is not a usable call: %r", kind, error)
            return {"refused": f"the call is not usable: {error!r}"}, ()
        except (MemoryError, RuntimeError) as error:
            log.exception("%s failed", kind)
            return {"refused": f"{type(error).__name__}: {error}"}, ()
        log.info("%s answered in %.2f s", _named(kind, content), time.perf_counter() - began)
        return reply

    def _answer(self, kind: str, content: Mapping[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        self._number_by(content.get("class_names"))
        if kind == "describe":
            return self.description(), ()
        if kind == "train":
            vector, said = self._train(content, _one(arrays))
            return said, (vector,)
        if kind == "receive":
            self.stay = Stay(int(content["stay"]), _one(arrays))
            return {}, ()
        if kind == "compute":
            stay = self._staying(content, trained=False)
            vector, said = self._train(content, stay.vector)
            self.stay = Stay(stay.number, vector, trained=True)
            return said, ()
        if kind == "send":
            stay, self.stay = self._staying(content, trained=True), None
            return {}, (stay.vector,)
        if kind == "examples":
            return {}, self._examples(content)
        raise Refusal(f"there is no {kind!r}")

    def _number_by(self, names: Any) -> None:
        """Number the classes as the server does: data that lack some of its classes number the others otherwise.

        Raises Refusal for a class that the server has not.
        """
        own = self._own
        if not names or not own.class_names or tuple(names) == self._numbered_by:
            return
        place = {str(name): number for number, name in enumerate(names)}
        if unknown := [name for name in own.class_names if name not in place]:
            raise Refusal(f"its class {unknown[0]!r} is none of the server's: {', '.join(place)}")
        numbers = np.array([place[name] for name in own.class_names], dtype=np.int64)
        self._y, self._n_outputs, self._numbered_by = numbers[own.y], len(place), tuple(place)
        self._built = None

    def description(self) -> dict[str, Any]:
        """What the client tells of itself."""
        settings = self._settings
        histogram = np.bincount(self._y, minlength=self._n_outputs).tolist() if settings.tell_labels else None
        return {
            "protocol": PROTOCOL,
            "name": settings.name,
            "num_examples": len(self._y),
            "label_histogram": histogram,
            "shares_examples": settings.share_examples,
            "input_shape": list(self._x.shape[1:]),
            "task": self._task,
        }

    def _staying(self, content: Mapping[str, Any], *, trained: bool) -> Stay:
        stay = self.stay
        if stay is None or stay.number != content["stay"] or stay.trained != trained:
            raise Refusal(f"there is no visit {content['stay']} here in this phase")
        return stay

    def _train(self, content: Mapping[str, Any], received: Vector) -> tuple[Vector, dict[str, Any]]:
        job, limits = content["job"], self._settings.limits
        training = construct(Training, content["training"], "training")
        for name in {training.loss or "cross-entropy", training.optimizer} - {*LOSSES, *OPTIMIZERS}:
            if name not in self._settings.training:
                raise Refusal(
                    f"training: {name!r} is none of fedtempo's, and `training` in this client's TOML has no such"
                )
        asked = training.examples_per_visit(len(self._y))
        if limits.examples is not None and asked > limits.examples:
            raise Refusal(f"the visit would compute on {asked} examples; limits.examples = {limits.examples}")
        built = self._build(job)
        if received.shape != (built.model.size,) or received.dtype != np.float32:
            raise Refusal(f"the model is {received.dtype} of shape {received.shape}; it must be ({built.model.size},)")
        rng = keyed_generator(int(job["seed"]), "training", int(content["client"]), int(content["visit"]))
        began = time.perf_counter()
        with fixed_numerics(), _threads(limits.threads), _no_longer_than(limits.visit_s):
            with network_code(built.network):
                statistics = train(built.model, built.examples, training, rng, received)
            pace_s = self._settings.pace_s * asked / len(self._y)
            time.sleep(max(0.0, began + pace_s - time.perf_counter()))
        compute_s = time.perf_counter() - began
        said = {"statistics": statistics, "num_examples": len(self._y), "compute_s": compute_s}
        return built.model.vector.numpy().copy(), said

    def _build(self, job: Mapping[str, Any]) -> _Built:
        """The job's model, from the last visit where that had the same."""
        described = json.dumps([job["network"], job["n_classes"], job["layout"]], sort_keys=True)
        if self._built is not None and self._built.described == described:
            return self._built
        self._built = None
        n_classes = int(job["n_classes"])
        if self._task == "classes" and self._y.max() >= n_classes:
            raise Refusal(f"its labels go to {self._y.max()}; the server has {n_classes} classes")
        if self._task == "tokens" and (most := max(self._x.max(), self._y.max())) >= n_classes:
            raise Refusal(f"its tokens go to {most}; the server has {n_classes} of them")
        if self._task == "numbers" and self._n_outputs != n_classes:
            raise Refusal(f"its labels are {self._n_outputs} numbers each; the server's are {n_classes}")
        network, shape = self._network(job["network"]), self._x.shape[1:]
        self._check_size(network, n_classes)
        keep_freed_memory()
        with network_code(network):
            model = FlatModel(create(network, shape, n_classes, 0), shape)
        if model.layout != job["layout"]:
            raise Refusal("the same network lies otherwise in memory here than at the server: versions differ")
        self._built = _Built(described, network, model, Examples(self._x, self._y, model.channels_last))
        return self._built

    def _network(self, table: Mapping[str, Any]) -> Network:
        fields = {name: value for name, value in table.items() if name != "network"}
        name = table["network"]
        if name in self._settings.networks:
            return network_from(name, fields)
        if name not in NETWORKS:
            raise Refusal(f"network {name!r} is none of fedtempo's, and `networks` in this client's TOML has no such")
        network: Network = construct(NETWORKS[name], fields, "model")
        return network

    def _check_size(self, network: Network, n_classes: int) -> None:
        """Refuse a model that memory would not hold, before any of it is made."""
        limit = self._settings.limits.memory_mb
        if limit is None:
            return
        with torch.device("meta"):
            module = network.build(self._x.shape[1:], n_classes)
        needed = 4 * _COPIES * sum(parameter.numel() for parameter in module.parameters()) / 1e6
        if needed > limit:
            raise Refusal(f"the model needs {needed:.0f} MB; limits.memory_mb = {limit:g}")

    def _examples(self, content: Mapping[str, Any]) -> Arrays:
        if not self._settings.share_examples:
            raise Refusal("this client shares no examples")
        rows = [
            np.flatnonzero(self._y == label)[after : after + take]
            for label, (after, take) in enumerate(zip(content["after"], content["take"], strict=True))
        ]
        chosen = np.concatenate([*rows, np.empty(0, dtype=np.int64)])
        return self._x[chosen], self._y[chosen]


def limit_memory(limits_mb: float | None) -> None:
    """Bound the data that this process may hold. Raises ConfigError where the system cannot."""
    if limits_mb is not None:
        try:
            import resource
        except ImportError as error:
            raise ConfigError(
                "limits.memory_mb: this system cannot bound what a process holds; leave it out"
            ) from error
        size = int(limits_mb * 1e6)
        resource.setrlimit(resource.RLIMIT_DATA, (size, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def _one(arrays: Arrays) -> Vector:
    if len(arrays) != 1:
        raise Refusal(f"the call has {len(arrays)} arrays; it must have the model's")
    return arrays[0]


def _one_line(text: Any) -> str:
    return " ".join(str(text).split())[:_WORDS]


def _named(kind: str, content: Mapping[str, Any]) -> str:
    return f"{kind} {content['stay']}" if "stay" in content else kind


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    if count == 1:  # as `fixed_numerics` has it
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(1)


@contextlib.contextmanager
def _no_longer_than(seconds: float | None) -> Iterator[None]:
    """Raise Refusal within the block after so many seconds. Only the main thread of a process can be broken off."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(number: int, frame: FrameType | None) -> None:
        raise Refusal(f"the visit took longer than limits.visit_s = {seconds:g} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
