"""A client's TOML: its name, its server, its data, what it consents to, and its limits."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from fedtempo.data.dataset import Dataset
from fedtempo.data.labels import Task
from fedtempo.data.settings import located, pair
from fedtempo.data.sources import load, options_of_files
from fedtempo.deploy.addresses import split
from fedtempo.errors import ConfigError
from fedtempo.parts.construct import construct
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, NonNegative, Positive
from fedtempo.parts.import_path import add_folder
from fedtempo.parts.plugins import imported
from fedtempo.parts.text_files import parse_toml, read_text
from fedtempo.runs.config import partition_from
from fedtempo.runtime.keyed import keyed_generator

Array = np.ndarray[Any, np.dtype[Any]]


@dataclasses.dataclass(frozen=True, eq=False)
class ClientExamples:
    """A client's training examples. n_outputs, class_names: of its data alone, before it knows the server's classes.

    feature_names: of its data; empty if they have none. unused: number of test and validation examples in its source.
    """

    x: Array
    y: Array
    n_outputs: int
    task: Task
    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    unused: int = 0


@dataclass(frozen=True, config=STRICT)
class ClientData:
    """The `[data]` table: the client's training examples. All examples of its own files are, unless it says otherwise.

    With `part`, several clients share one source for a trial, and this client takes the examples that client `part`
    gets in a simulation with the same numbers, partition and seed.
    """

    source: Annotated[str, Doc("name from `fedtempo list sources`, folder:<file or folder>, or module:function")]
    options: Annotated[dict[str, Any], Doc("options of the source, by name")] = dataclasses.field(default_factory=dict)
    transform: Annotated[str | None, Doc("module:function that maps the inputs of all examples to new ones")] = None
    part: Annotated[int | None, Field(ge=0), Doc("this client's part, from 0 (default: the whole source)")] = None
    clients: Annotated[Count | None, Doc("with part: number of parts that the source is dealt into")] = None
    examples_per_client: Annotated[
        Count | tuple[Count, Count] | None,
        BeforeValidator(pair),
        Doc("with part: examples per part, or [smallest, largest] (default: all)"),
    ] = None
    partition: Annotated[Any, Doc("with part: partition, as in a run's [data]")] = "iid"
    seed: Annotated[int, Ge(0), Doc("with part: seed of the partition")] = 1

    def __post_init__(self) -> None:
        if (self.part is None) != (self.clients is None):
            raise ValueError("part, clients: set both or neither")
        if self.part is not None and self.clients is not None and self.part >= self.clients:
            raise ValueError(f"part = {self.part}: must be below clients = {self.clients} (numbered from 0)")

    def read(self) -> ClientExamples:
        """Return the client's examples. Raises ConfigError."""
        dataset = load(self.source, **self._options)
        if self.transform is not None:
            function = imported(self.transform, "data.transform")
            dataset = dataset.transformed(function, f"data.transform = {self.transform!r}")
        rows, held = self._rows(dataset), () if dataset.validation_y is None else dataset.validation_y
        return ClientExamples(
            dataset.train_x[rows],
            dataset.train_y[rows],
            dataset.n_classes,
            dataset.task,
            dataset.class_names,
            dataset.feature_names,
            0 if self.part is not None else len(dataset.test_y) + len(held),
        )

    @property
    def _options(self) -> dict[str, Any]:
        """The options of the source. Of its own files, a client holds nothing out unless its options say so.

        Clients that share a source for a trial, and public data sets, are split as in a simulation.
        """
        if self.part is None and "test_share" in options_of_files(self.source):
            return {"test_share": 0, **self.options}
        return self.options

    def _rows(self, dataset: Dataset) -> Array:
        if self.part is None or self.clients is None:
            return np.arange(len(dataset.train_y))
        partition = partition_from(self.partition)
        rng = keyed_generator(self.seed, "partition")
        labels, n_labels = dataset.strata
        parts = partition.assign(labels, n_labels, self.clients, self.examples_per_client, rng, dataset.train_owners)
        return parts[self.part]


@dataclass(frozen=True, config=STRICT)
class Limits:
    """The `[limits]` table: calls that would exceed these limits are rejected."""

    threads: Annotated[Count, Doc("PyTorch's threads; the bits of a simulation need 1")] = 1
    memory_mb: Annotated[Positive | None, Doc("data size of the process, megabytes (RLIMIT_DATA)")] = None
    visit_s: Annotated[Positive | None, Doc("seconds after which a visit's training is aborted")] = None
    examples: Annotated[Count | None, Doc("examples that a visit may process, counted once per use")] = None


@dataclass(frozen=True, config=STRICT)
class ClientSettings:
    """A client's settings, made by its owner. Nothing received over the network changes them."""

    name: Annotated[
        str, Field(pattern=r"^[\w.-]{1,64}$"), Doc("the client's name at the server: letters, digits, . _ -")
    ]
    data: ClientData
    superlink: Annotated[str, Doc("host:port of the SuperLink")] = "127.0.0.1:8000"
    root_certificates: Annotated[
        str | None, Doc("PEM file of the authority that signed the SuperLink's certificate")
    ] = None
    insecure: Annotated[bool, Doc("connect without TLS; only for trials on one machine")] = False
    private_key: Annotated[str | None, Doc("the client's key from `fedtempo keys`, if the SuperLink requires keys")] = (
        None
    )
    tell_labels: Annotated[bool, Doc("reveal the number of examples of each class")] = False
    share_examples: Annotated[bool, Doc("send raw examples to the server on request")] = False
    networks: Annotated[
        tuple[str, ...],
        Field(strict=False),
        Doc("own networks that it agrees to train, as module:Class, and pretrained models, by name or folder"),
    ] = ()
    training: Annotated[
        tuple[str, ...],
        Field(strict=False),
        Doc("own losses, optimisers, augmentations and procedures that it agrees to use, as module:name"),
    ] = ()
    state_folder: Annotated[
        str | None,
        Doc(
            "folder for what stays at the client from visit to visit: local parameters and a strategy's tensors "
            "(default: NAME.state in $STATE_DIRECTORY, which systemd sets, or beside this file)"
        ),
    ] = None
    pace_s: Annotated[
        NonNegative,
        Doc("shortest time of a training epoch, seconds; for trials that slow a fast machine down"),
    ] = 0.0
    limits: Limits = dataclasses.field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.insecure == (self.root_certificates is not None):
            raise ValueError("root_certificates: set it for TLS, or insecure = true to connect without TLS")
        try:
            split(self.superlink)
        except ValueError as error:
            raise ValueError(f"superlink = {self.superlink!r}: {error}") from error


def parse_client(tables: Mapping[str, Any], folder: Path = Path()) -> ClientSettings:
    """Return a client's settings from tables; paths are relative to `folder`. Raises ConfigError."""
    values = dict(tables)
    if "data" not in values:
        raise ConfigError("[data] is missing: set data.source to the client's examples")
    for name, part in (("data", ClientData), ("limits", Limits)):
        if name in values:
            if not isinstance(values[name], dict):
                raise ConfigError(f"{name} = {values[name]!r}: must be a section: write [{name}] and its keys below it")
            values[name] = construct(part, values[name], name)
    for name in ("root_certificates", "private_key", "state_folder"):
        if isinstance(values.get(name), str):
            values[name] = str(folder / Path(values[name]).expanduser())
    return construct(ClientSettings, values, "client")


def load_client(path: Path) -> ClientSettings:
    """Return a client's settings from its TOML file. Raises ConfigError."""
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    try:
        tables = parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    add_folder(path.parent)
    data = tables.get("data")
    if isinstance(data, dict) and isinstance(data.get("source"), str):
        data["source"] = located(data["source"], path.parent)
    if isinstance(name := tables.get("name"), str):
        tables.setdefault("state_folder", str(Path(os.environ.get("STATE_DIRECTORY", "")) / f"{name}.state"))
    return parse_client(tables, path.parent)
