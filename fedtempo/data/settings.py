"""The section `[data]` of a configuration."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from fedtempo.parts.component import made
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, Gt, Lt, NonNegative, Positive, Share

_FILES = ("audio", "fedscale", "folder", "hf", "idx", "leaf", "npz", "table", "text", "tff")
"""Prefixes of sources whose rest is a path."""


def located(source: str, folder: Path) -> str:
    """Return the source with an absolute path if its path exists relative to `folder`; otherwise unchanged."""
    prefix, _, rest = source.partition(":")
    if prefix not in _FILES or not rest or not (path := folder / rest).exists():
        return source
    return f"{prefix}:{path.resolve()}"


def pair(value: Any) -> Any:
    """Return a TOML list as a tuple; other values unchanged."""
    return tuple(value) if isinstance(value, list) else value


def _test_share(value: Any) -> Any:
    """Return the value unchanged. Raises ValueError, which names both kinds of values, for other text than "data"."""
    if isinstance(value, str) and value != "data":
        raise ValueError(f"{value!r}: give a share between 0 and 1, or 'data'")
    return value


@dataclass(frozen=True, config=STRICT)
class ClientFolds:
    """The table `data.test_clients`: one of several parts of the clients is tested on, the others train."""

    folds: Annotated[int, Ge(2), Doc("number of parts that the clients are divided into, k")]
    fold: Annotated[
        Count | None,
        Doc(
            "part that is tested on, 1 to folds (default: by run.seed; seeds 1 to k test on each part once, and the "
            "next k seeds divide the clients anew)"
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.fold is not None and self.fold > self.folds:
            raise ValueError(f"fold = {self.fold}: must be at most folds = {self.folds}")


def _test_clients_from(value: Any) -> Any:
    return made(ClientFolds, value, "test_clients") if isinstance(value, dict) else pair(value)


@dataclass(frozen=True, config=STRICT)
class DataSettings:
    """The `[data]` table: the data set, and how clients share it."""

    source: Annotated[str, Doc("a name of `fedtempo list sources`, idx:<folder>, ..., or module:function")] = "digits"
    options: Annotated[dict[str, Any], Doc("options of the source, by name; see `fedtempo describe SOURCE`")] = (
        dataclasses.field(default_factory=dict)
    )
    clients: Annotated[
        Count | None,
        Doc("number of clients, N (default: the number that the data name, or 50 if they name none)"),
    ] = None
    transform: Annotated[
        str | None,
        Doc(
            "module:function that maps an array of inputs to new inputs; called for training inputs and for test inputs"
        ),
    ] = None
    augment: Annotated[
        str | None,
        Doc(
            "module:function that changes each training batch: of (inputs, generator), returning inputs, or of "
            "(inputs, labels, generator), returning both; generator: a torch.Generator seeded for the visit"
        ),
    ] = None
    examples_per_client: Annotated[
        Count | tuple[Count, Count] | dict[str, Any] | None,
        BeforeValidator(pair),
        Doc(
            "examples that each client holds, or [smallest, largest] (default: all examples are dealt out); without "
            "training also more than the data have, a distribution {kind, ...}, or {file, column} of a CSV"
        ),
    ] = None
    client_test_share: Annotated[
        Annotated[float, Gt(0), Lt(1)] | Literal["data"] | None,
        BeforeValidator(_test_share),
        Doc(
            "share of each client's examples that are its own test set, drawn once and never trained on; 'data': the "
            "test examples that the data have for each client (default: no client has its own test set)"
        ),
    ] = None
    test_examples: Annotated[Count | None, Doc("test examples used in evaluations (default: all)")] = None
    test_clients: Annotated[
        Annotated[float, Gt(0), Lt(1)] | tuple[str | int, ...] | ClientFolds | None,
        BeforeValidator(_test_clients_from),
        Doc(
            "clients that do not take part and whose examples are the test set: a share of the clients, drawn by "
            "run.seed; a list of their names; or {folds, fold} for cross-validation (default: none)"
        ),
    ] = None
    validation_share: Annotated[
        Annotated[float, Gt(0), Lt(1)] | None,
        Doc(
            "share of each client's training examples that are the validation set, drawn once and never trained on "
            "(default: the validation examples that the data have, if any)"
        ),
    ] = None
    tell_labels: Annotated[bool, Doc("clients report to the server how many examples of each class they hold")] = False
    label_noise_epsilon: Annotated[
        Positive | None,
        Doc(
            "clients add Laplace noise of scale 1 / this to each count that they report: differential privacy of "
            "whether they hold one example; their total number is not protected (default: no noise)"
        ),
    ] = None
    label_pseudo_count: Annotated[
        NonNegative, Doc("examples added to each class when shares of classes are computed from reported counts")
    ] = 1.0
    share_examples: Annotated[Share, Doc("share of the clients that agree to upload raw examples")] = 0.0

    def __post_init__(self) -> None:
        if self.test_clients == ():
            raise ValueError("test_clients = []: name at least one client, or remove it")
        if self.label_noise_epsilon is not None and not self.tell_labels:
            raise ValueError(f"label_noise_epsilon = {self.label_noise_epsilon}: needs tell_labels = true")
