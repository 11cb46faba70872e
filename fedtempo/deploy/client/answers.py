"""A client's answers to a server's calls. Only code installed here runs; a call carries settings and arrays."""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from fedtempo.data.masks import IGNORED
from fedtempo.deploy.client.memory import Memory
from fedtempo.deploy.client.settings import ClientSettings
from fedtempo.deploy.live.messages import Arrays
from fedtempo.deploy.live.packing import packed, unpacked
from fedtempo.deploy.loads import load_now
from fedtempo.errors import ConfigError, FedtempoError
from fedtempo.federation import EVALUATE
from fedtempo.learning.augmentation import Augmentation
from fedtempo.learning.compressed import CompressedTransfers, CompressionSettings
from fedtempo.learning.compression import COMPRESSIONS
from fedtempo.learning.examples import Examples
from fedtempo.learning.exchange import Exchange
from fedtempo.learning.local import train
from fedtempo.learning.malloc import keep_freed_memory
from fedtempo.learning.networks import NETWORKS, Network, create, network_code
from fedtempo.learning.numerics import fixed_numerics
from fedtempo.learning.procedures import PROCEDURES, make_visit
from fedtempo.learning.state import FlatModel, Vector
from fedtempo.learning.training import LOSSES, OPTIMIZERS, Training
from fedtempo.parts.construct import construct
from fedtempo.parts.foreign_text import one_line
from fedtempo.parts.inputs import input_shape, is_several, shape_as_json
from fedtempo.parts.natural_order import listed
from fedtempo.runs.config import network_from
from fedtempo.runtime.keyed import keyed_generator
from fedtempo.runtime.transfers import transfers_of
from fedtempo.version import PROTOCOL

log = logging.getLogger("fedtempo.client")

_COPIES = 5
"""Copies of a model in memory while it trains: received, parameters, gradients, to be sent, previously sent."""

_MAX_REASON_CHARS = 500
"""Maximum length of a server's reason in the log."""


class Refusal(FedtempoError):
    """The client rejects a call."""


@dataclass(frozen=True, eq=False)
class HeldVisit:
    """A visit between two of its phases: the server's number of it, the model, and whether it has trained.

    more: the arrays that came with the model, or that go back with it once it has trained.
    """

    number: int
    vector: Vector
    trained: bool = False
    more: Arrays = ()


@dataclass(eq=False)
class _Built:
    """A job's model and examples, cached for the next visit.

    described: the job as JSON. run: the run's name. complete: whether the model has the server's values where they do
    not travel.
    """

    described: str
    run: str
    network: Network
    model: FlatModel
    examples: Examples
    complete: bool


class Answers:
    """Answers calls with this client's own examples, one call at a time.

    held: the visit in progress; must be restored by whoever runs each call in a new process.
    """

    def __init__(self, settings: ClientSettings) -> None:
        """Read the client's examples. Raises ConfigError if they are unusable."""
        self._settings = settings
        examples = settings.data.read()
        self._examples, self._class_order = examples, examples.class_names
        self._x, self._y = examples.x, examples.y
        self._n_outputs, self._task = examples.n_outputs, examples.task
        if not len(self._y):
            raise ConfigError("data: the source has no examples for this client")
        for name, enabled in (("tell_labels", settings.tell_labels), ("share_examples", settings.share_examples)):
            if enabled and self._task != "classes":
                raise ConfigError(f"{name} = true: needs classes, but {settings.data.source} has {self._task}")
        if settings.share_examples and is_several(self._x):
            raise ConfigError("share_examples = true: examples with several inputs cannot be uploaded; set it to false")
        self._memory = Memory(None if settings.state_folder is None else Path(settings.state_folder))
        self._built: _Built | None = None
        self.held: HeldVisit | None = None
        self._last: tuple[str, tuple[dict[str, Any], Arrays]] | None = None

    @property
    def about_examples(self) -> str:
        """How many examples the client trains on, and how many of its source it does not use, in words."""
        unused = self._examples.unused
        more = f" ({unused:,} more, for testing or validation, are not used)" if unused else ""
        return f"trains on {len(self._y):,} examples{more}"

    def answer(self, kind: str, content: Mapping[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        """Return the reply to a call: content and arrays, or {"refused": reason}.

        If the call has the name of the last one answered, the same reply is returned: its server was restarted.
        """
        if kind == "notice" and "rejected" in content:
            log.warning("the server rejects this client: %s", one_line(content["rejected"], _MAX_REASON_CHARS))
            return {}, ()
        if kind == "notice":  # informs only, so the last reply may still be requested again
            log.warning(
                "visit %s: the server rejects the update: %s",
                one_line(content.get("stay"), _MAX_REASON_CHARS),
                one_line(content.get("why"), _MAX_REASON_CHARS),
            )
            return {}, ()
        if kind == "describe":  # the last reply of a visit may still be requested again
            return self._new_reply(kind, content, arrays)
        name = content.get("call")
        if self._last is not None and self._last[0] == name:
            log.info("%s answered again", _named(kind, content))
            return self._last[1]
        reply = self._new_reply(kind, content, arrays)
        self._last = (name, reply) if isinstance(name, str) else None
        return reply

    def _new_reply(self, kind: str, content: Mapping[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        began = time.perf_counter()
        try:
            reply = self._answer_or_forget(kind, content, arrays)
        except FedtempoError as error:
            log.warning("%s rejected: %s", one_line(kind, _MAX_REASON_CHARS), one_line(error))
            for line in error.frames.splitlines():
                log.warning("  %s", one_line(line))
            return {"refused": str(error)}, ()
        except (KeyError, TypeError, ValueError) as error:
            log.warning("%s is an invalid call: %s", one_line(kind, _MAX_REASON_CHARS), one_line(repr(error)))
            return {"refused": f"invalid call: {error!r}"}, ()
        except (MemoryError, RuntimeError) as error:
            log.exception("%s failed", one_line(kind, _MAX_REASON_CHARS))
            return {"refused": f"{type(error).__name__}: {error}"}, ()
        log.info("%s answered in %.2f s", _named(kind, content), time.perf_counter() - began)
        return reply

    def _answer_or_forget(self, kind: str, content: Mapping[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        """Answer a call; forget the model if that fails, which may have been anywhere in its training."""
        try:
            return self._answer(kind, content, arrays)
        except BaseException:
            self._built = None
            raise

    def _answer(self, kind: str, content: Mapping[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        self._number_by(content.get("class_names"))
        if kind == "describe":
            _must_have_features(self._examples.feature_names, content.get("feature_names"))
            return self.description(), ()
        if kind == "train":
            sent, result = self._train(content, *_some(arrays))
            return result, sent
        if kind == "receive":
            vector, more = _some(arrays)
            self.held = HeldVisit(int(content["stay"]), vector, more=more)
            return {}, ()
        if kind == "compute":
            held = self._held_visit(content, trained=False)
            (vector, *others), result = self._train(content, held.vector, held.more)
            self.held = HeldVisit(held.number, vector, trained=True, more=tuple(others))
            return result, ()
        if kind == "send":
            held, self.held = self._held_visit(content, trained=True), None
            return {}, (held.vector, *held.more)
        if kind == "examples":
            return {}, self._upload(content)
        raise Refusal(f"unknown kind of call: {kind!r}")

    def _number_by(self, names: Any) -> None:
        """Number the classes as the server does; data without some of its classes would number them differently.

        Raises Refusal if the client has a class that the server lacks.
        """
        examples = self._examples
        if not names or not examples.class_names or tuple(names) == self._class_order:
            return
        if examples.task == "multilabel":
            raise Refusal(f"its labels are {', '.join(examples.class_names)}; the server's are {', '.join(names)}")
        number_of = {str(name): number for number, name in enumerate(names)}
        if unknown := [name for name in examples.class_names if name not in number_of]:
            raise Refusal(f"its class {unknown[0]!r} is not among the server's: {', '.join(number_of)}")
        numbers = np.array([number_of[name] for name in examples.class_names], dtype=np.int64)
        renumbered = np.where(examples.y == IGNORED, IGNORED, numbers[np.maximum(examples.y, 0)])
        self._y, self._n_outputs, self._class_order = renumbered, len(number_of), tuple(number_of)
        self._built = None

    def description(self) -> dict[str, Any]:
        """Return the client's description of itself, for the server."""
        settings = self._settings
        histogram = np.bincount(self._y, minlength=self._n_outputs).tolist() if settings.tell_labels else None
        return {
            "protocol": PROTOCOL,
            "name": settings.name,
            "num_examples": len(self._y),
            "label_histogram": histogram,
            "shares_examples": settings.share_examples,
            "input_shape": shape_as_json(self._x),
            "task": self._task,
        }

    def _held_visit(self, content: Mapping[str, Any], *, trained: bool) -> HeldVisit:
        held = self.held
        if held is None or held.number != content["stay"] or held.trained != trained:
            raise Refusal(f"no visit {content['stay']} in this phase here")
        return held

    def _train(self, content: Mapping[str, Any], received: Vector, more: Arrays) -> tuple[Arrays, dict[str, Any]]:
        """Make a visit; return the model and the vectors to send, and the result.

        more: if the call says so, what does not travel, and then the vectors that the server sends along.
        """
        job, limits = content["job"], self._settings.limits
        training = construct(Training, content["training"], "training")
        for name in {training.loss or "cross-entropy", training.optimizer} - {*LOSSES, *OPTIMIZERS}:
            self._must_agree_to(name)
        augment = self._augmentation(job.get("augment"))
        processed = training.examples_per_visit(len(self._y))
        if limits.examples is not None and processed > limits.examples:
            raise Refusal(f"the visit would process {processed} examples; limits.examples = {limits.examples}")
        built = self._build(job)
        sections = built.model.sections
        transfers = self._transfers(content, sections.trainable)
        if transfers is not None:
            received = _opened(received, sections.statistics, transfers)
        self._check_arrays((received,), sections.moving)
        payload = self._with_base(built, received, more) if content.get("base") else more
        self._check_arrays(payload, sections.moving)
        if not built.complete:
            self._complete(built, received)
        procedure, visit = content.get("procedure"), int(content["visit"])
        if payload and procedure is None:
            raise Refusal(f"the call has {len(payload)} arrays too many")
        if procedure is not None and procedure not in (*PROCEDURES, *self._settings.training):
            raise Refusal(f"{procedure!r} is neither fedtempo's nor among `training` in this client's TOML")
        numbers = content.get("numbers", {})
        if not isinstance(numbers, dict) or not all(isinstance(value, int | float) for value in numbers.values()):
            raise Refusal(f"numbers = {numbers!r}: it must map names to numbers")
        keeps = bool(sections.local) or procedure is not None or (transfers is not None and transfers.keeps)
        memory = self._memory.of(built.run) if keeps else None
        sent: list[Vector] = []
        rng = keyed_generator(int(job["seed"]), "training", int(content["client"]), int(content["visit"]))
        began = time.perf_counter()
        with fixed_numerics(), _threads(limits.threads), _no_longer_than(limits.visit_s):
            with network_code(built.network):
                if memory is None and transfers is None:
                    statistics = train(built.model, built.examples, training, rng, received, augment=augment)
                else:
                    statistics, sent, state = make_visit(
                        built.model,
                        built.examples,
                        training,
                        rng,
                        received,
                        np.arange(len(self._y)),
                        state=None if memory is None else memory.before(visit),
                        procedure=procedure,
                        numbers=numbers,
                        payload=payload,
                        returns=int(content.get("returns", 0)),
                        augment=augment,
                        upload=None if transfers is None else transfers.upload,
                    )
                    if memory is not None:
                        memory.keep(visit, state)
            pace_s = self._settings.pace_s * processed / len(self._y)
            time.sleep(max(0.0, began + pace_s - time.perf_counter()))
        compute_s = time.perf_counter() - began
        result = {"statistics": statistics, "num_examples": len(self._y), "compute_s": compute_s, "load": load_now()}
        if procedure == EVALUATE:
            return (), result
        model = built.model.sent.numpy()
        own = model.copy() if transfers is None else packed(transfers.message, model[sections.trainable :])
        return (own, *sent), result

    def _transfers(self, content: Mapping[str, Any], parameters: int) -> CompressedTransfers | None:
        """Return the call's compressed transfers. Raises Refusal for a compression that this client does not know."""
        job = content["job"]
        if (table := job.get("compression")) is None:
            return None
        for name in {part["kind"] for part in table.values()} - COMPRESSIONS.keys():
            self._must_agree_to(name)
        settings = construct(CompressionSettings, dict(table), "server.compression")
        return transfers_of(settings, parameters, int(job["seed"]), int(content["client"]), int(content["visit"]))

    def _with_base(self, built: _Built, received: Vector, more: Arrays) -> Arrays:
        """Give the model what does not travel, which comes first in `more`, and keep it; return the rest."""
        if not more:
            raise Refusal("the call does not bring what it says")
        (base, *payload), fixed = more, built.model.sections.fixed
        if base.shape != (fixed,) or base.dtype != np.float32:
            raise Refusal(f"what does not travel is {base.dtype} of shape {base.shape}; it must be ({fixed},)")
        built.model.load(np.concatenate([received, base]))
        built.complete = True
        self._memory.of(built.run).keep_base(base)
        return tuple(payload)

    def _complete(self, built: _Built, received: Vector) -> None:
        """Give the model what does not travel, from this client's files. Raises Refusal if they do not have it."""
        base = self._memory.of(built.run).base()
        if base is None or base.shape != (built.model.sections.fixed,):
            raise Refusal("what does not travel is missing here; the server sends it with the next visit")
        built.model.load(np.concatenate([received, base]))
        built.complete = True

    def _check_arrays(self, arrays: Arrays, size: int) -> None:
        for array in arrays:
            if array.shape != (size,) or array.dtype != np.float32:
                raise Refusal(f"the model is {array.dtype} of shape {array.shape}; it must be ({size},)")

    def _must_agree_to(self, name: str) -> None:
        if name not in self._settings.training:
            raise Refusal(f"training: {name!r} is neither fedtempo's nor among `training` in this client's TOML")

    def _augmentation(self, name: str | None) -> Augmentation | None:
        if name is None:
            return None
        self._must_agree_to(name)
        return Augmentation(name)

    def _build(self, job: Mapping[str, Any]) -> _Built:
        """Return the job's model, cached if the last visit had the same job."""
        run = str(job.get("run", ""))
        described = json.dumps([job["network"], job["n_classes"], job["layout"], run], sort_keys=True)
        if self._built is not None and self._built.described == described:
            return self._built
        self._built = None
        n_classes = int(job["n_classes"])
        if self._task in ("classes", "segmentation") and self._y.max() >= n_classes:
            raise Refusal(f"its labels go up to {self._y.max()}, but the server has {n_classes} classes")
        if self._task == "tokens" and (most := self._largest_token()) >= n_classes:
            raise Refusal(f"its tokens go up to {most}, but the server has {n_classes} tokens")
        if self._task in ("numbers", "multilabel") and self._n_outputs != n_classes:
            raise Refusal(f"its labels have {self._n_outputs} numbers each, but the server's have {n_classes}")
        network, shape = self._network(job["network"]), input_shape(self._x)
        self._check_size(network, n_classes)
        keep_freed_memory()
        exchange = construct(Exchange, dict(job.get("exchange", {})), "model")
        with network_code(network):
            model = FlatModel(create(network, shape, n_classes, 0), shape, exchange=exchange)
        if model.layout != job["layout"]:
            raise Refusal("the network's parameter layout differs from the server's: the versions differ")
        self._built = _Built(
            described, run, network, model, Examples(self._x, self._y, model.channels_last), not model.sections.fixed
        )
        return self._built

    def _largest_token(self) -> int:
        return int(self._y.max() if is_several(self._x) else max(self._x.max(), self._y.max()))

    def _network(self, table: Mapping[str, Any]) -> Network:
        fields = {name: value for name, value in table.items() if name != "network"}
        name = table["network"]
        if name in self._settings.networks:
            return network_from(name, fields)
        if name not in NETWORKS:
            raise Refusal(f"network {name!r} is neither fedtempo's nor among `networks` in this client's TOML")
        network: Network = construct(NETWORKS[name], fields, "model")
        pretrained = fields.get("pretrained")
        if pretrained is not None and pretrained not in self._settings.networks:
            raise Refusal(f"model.pretrained = {pretrained!r} is not among `networks` in this client's TOML")
        return network

    def _check_size(self, network: Network, n_classes: int) -> None:
        """Reject a model that exceeds the memory limit, before it is built."""
        limit = self._settings.limits.memory_mb
        if limit is None:
            return
        with torch.device("meta"):
            shape: Any = input_shape(self._x)
            module = network.build(shape, n_classes)
        needed = 4 * _COPIES * sum(parameter.numel() for parameter in module.parameters()) / 1e6
        if needed > limit:
            raise Refusal(f"the model needs {needed:.0f} MB; limits.memory_mb = {limit:g}")

    def _upload(self, content: Mapping[str, Any]) -> Arrays:
        """Return the next examples of each class: `take` of them after the first `after`."""
        if not self._settings.share_examples:
            raise Refusal("this client shares no examples")
        rows = [
            np.flatnonzero(self._y == label)[after : after + take]
            for label, (after, take) in enumerate(zip(content["after"], content["take"], strict=True))
        ]
        chosen = np.concatenate([*rows, np.empty(0, dtype=np.int64)])
        return self._x[chosen], self._y[chosen]


def _must_have_features(own: Sequence[str], servers: Any) -> None:
    """Raise Refusal unless the features are the server's, in the same order. servers: their names, if they have any."""
    names = tuple(map(str, servers or ()))
    if not own or not names or tuple(own) == names:
        return
    lacking, new = [name for name in names if name not in own], [name for name in own if name not in names]
    differ = [f"lack the server's {listed(lacking)}"] * bool(lacking)
    differ += [f"have {listed(new)}, which the server's lack"] * bool(new)
    if differ:
        columns = "choose the same columns with data.options.features or drop"
        raise Refusal(f"its features {' and '.join(differ)}; {columns}")
    raise Refusal(
        f"its features are in another order, {listed(own)}, than the server's, {listed(names)}; set "
        "data.options.features to the columns in the server's order"
    )


def limit_memory(limits_mb: float | None) -> None:
    """Limit the data size of this process. Raises ConfigError if the system does not support that."""
    if limits_mb is not None:
        try:
            import resource
        except ImportError as error:
            raise ConfigError(
                "limits.memory_mb: this system cannot limit a process's memory; remove the key"
            ) from error
        size = int(limits_mb * 1e6)
        resource.setrlimit(resource.RLIMIT_DATA, (size, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def _opened(array: Any, statistics: int, transfers: CompressedTransfers) -> Vector:
    """Return the model that the server sent compressed. Raises Refusal."""
    try:
        return unpacked(array, statistics, transfers.downloaded)
    except ValueError as error:
        raise Refusal(f"the compressed model is {error}") from error


def _some(arrays: Arrays) -> tuple[Vector, Arrays]:
    """Return the model that a call brings, and the other arrays."""
    if not arrays:
        raise Refusal("the call has 0 arrays; the first must be the model")
    return arrays[0], arrays[1:]


def _named(kind: str, content: Mapping[str, Any]) -> str:
    """Return a call's kind and visit for the log."""
    return one_line(f"{kind} {content['stay']}" if "stay" in content else kind, _MAX_REASON_CHARS)


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    if count == 1:  # `fixed_numerics` has set it
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(1)


@contextlib.contextmanager
def _no_longer_than(seconds: float | None) -> Iterator[None]:
    """Raise Refusal inside the block after `seconds`. Works only in a process's main thread."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def abort(number: int, frame: FrameType | None) -> None:
        raise Refusal(f"the visit took longer than limits.visit_s = {seconds:g} s")

    before = signal.signal(signal.SIGALRM, abort)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
