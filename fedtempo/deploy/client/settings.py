"""A client's own TOML: who it is, which server it serves, its data, what it agrees to, and its limits."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from fedtempo.data.dataset import Dataset
from fedtempo.data.labels import Task
from fedtempo.data.settings import pair
from fedtempo.data.sources import load, located
from fedtempo.errors import ConfigError
from fedtempo.parts.construct import construct
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, NonNegative, Positive
from fedtempo.parts.plugins import add_folder, imported
from fedtempo.runs.config import partition_from
from fedtempo.runtime.keyed import keyed_generator

Array = np.ndarray[Any, np.dtype[Any]]


@dataclasses.dataclass(frozen=True, eq=False)
class OwnExamples:
    """What a client trains on. n_outputs, class_names: as its data alone have them."""

    x: Array
    y: Array
    n_outputs: int
    task: Task
    class_names: tuple[str, ...] = ()


@dataclass(frozen=True, config=STRICT)
class ClientData:
    """The `[data]` table: the client's training examples.

    With `part` the source is one that several clients share for a trial, and this client takes what a simulation with
    the same numbers, partition and seed would give to client `part`.
    """

    source: Annotated[str, Doc("as `fedtempo list sources` says, folder:<file or folder>, or module:function")]
    options: Annotated[dict[str, Any], Doc("options of the source, by name")] = dataclasses.field(default_factory=dict)
    transform: Annotated[
        str | None, Doc("module:function that is given the inputs of all examples and returns new")
    ] = None
    part: Annotated[int | None, Field(ge=0), Doc("which part of the source, from 0; all of it where not given")] = None
    clients: Annotated[Count | None, Doc("with part: into how many parts the source is dealt")] = None
    examples_per_client: Annotated[
        Count | tuple[Count, Count] | None,
        BeforeValidator(pair),
        Doc("with part: examples of each part, or [smallest, largest]; all there are where not given"),
    ] = None
    partition: Annotated[Any, Doc("with part: as in a run's [data]")] = "iid"
    seed: Annotated[int, Ge(0), Doc("with part: of the partition")] = 1

    def __post_init__(self) -> None:
        if (self.part is None) != (self.clients is None):
            raise ValueError("part, clients: give both or none")
        if self.part is not None and self.clients is not None and self.part >= self.clients:
            raise ValueError(f"part = {self.part}: there are {self.clients}, numbered from 0")

    def read(self) -> OwnExamples:
        """The client's examples. Raises ConfigError."""
        dataset = load(self.source, **self.options)
        if self.transform is not None:
            function = imported(self.transform, "data.transform")
            dataset = dataset.transformed(function, f"data.transform = {self.transform!r}")
        rows = self._own(dataset)
        return OwnExamples(
            dataset.train_x[rows], dataset.train_y[rows], dataset.n_classes, dataset.task, dataset.class_names
        )

    def _own(self, dataset: Dataset) -> Array:
        if self.part is None or self.clients is None:
            return np.arange(len(dataset.train_y))
        partition = partition_from(self.partition)
        rng = keyed_generator(self.seed, "partition")
        labels, n_labels = dataset.strata
        parts = partition.assign(labels, n_labels, self.clients, self.examples_per_client, rng, dataset.train_owners)
        return parts[self.part]


@dataclass(frozen=True, config=STRICT)
class Limits:
    """The `[limits]` table: work beyond them is refused."""

    threads: Annotated[Count, Doc("PyTorch's threads; a simulation has one, and the same bits need the same")] = 1
    memory_mb: Annotated[Positive | None, Doc("megabytes of data that the process may hold (RLIMIT_DATA)")] = None
    visit_s: Annotated[Positive | None, Doc("seconds after which a visit's training is broken off")] = None
    examples: Annotated[
        Count | None, Doc("examples whose gradients a visit may compute, each as often as it is used")
    ] = None


@dataclass(frozen=True, config=STRICT)
class ClientSettings:
    """A client as its owner sets it up. Nothing that comes over the network changes it."""

    name: Annotated[str, Field(pattern=r"^[\w.-]{1,64}$"), Doc("what the server calls it; letters, digits, . _ -")]
    data: ClientData
    superlink: Annotated[str, Doc("host:port of the SuperLink")] = "127.0.0.1:8000"
    root_certificates: Annotated[
        str | None, Doc("PEM file of the authority that signed the SuperLink's certificate")
    ] = None
    insecure: Annotated[bool, Doc("speak without TLS; for trials on one machine")] = False
    private_key: Annotated[
        str | None, Doc("the client's key, made by `fedtempo keys`; needed where keys are asked")
    ] = None
    tell_labels: Annotated[bool, Doc("tell how many examples of each class it holds")] = False
    share_examples: Annotated[bool, Doc("send raw examples to the server when asked")] = False
    networks: Annotated[
        tuple[str, ...], Field(strict=False), Doc("own networks that it agrees to train, as module:Class")
    ] = ()
    training: Annotated[
        tuple[str, ...], Field(strict=False), Doc("own losses and optimisers that it agrees to use, as module:name")
    ] = ()
    pace_s: Annotated[
        NonNegative,
        Doc("seconds that an epoch of training lasts at least; for trials in which fast machines stand for slow ones"),
    ] = 0.0
    limits: Limits = dataclasses.field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.insecure == (self.root_certificates is not None):
            raise ValueError("root_certificates: give it for TLS, or insecure = true to speak without")


def parse_client(tables: Mapping[str, Any], folder: Path = Path()) -> ClientSettings:
    """A client's settings from tables; files are looked for from `folder`. Raises ConfigError."""
    given = dict(tables)
    if "data" not in given:
        raise ConfigError("[data] is missing: a client needs its examples")
    for name, part in (("data", ClientData), ("limits", Limits)):
        if name in given:
            if not isinstance(given[name], dict):
                raise ConfigError(f"{name} = {given[name]!r}: this is a section; write [{name}] and its keys below it")
            given[name] = construct(part, given[name], name)
    for name in ("root_certificates", "private_key"):
        if isinstance(given.get(name), str):
            given[name] = str(folder / Path(given[name]).expanduser())
    return construct(ClientSettings, given, "client")


def load_client(path: Path) -> ClientSettings:
    """A client's settings from its TOML file. Raises ConfigError."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    add_folder(path.parent)
    data = tables.get("data")
    if isinstance(data, dict) and isinstance(data.get("source"), str):
        data["source"] = located(data["source"], path.parent)
    return parse_client(tables, path.parent)
