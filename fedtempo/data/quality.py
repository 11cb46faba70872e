"""Options of `[data.partition]` for every kind of partition: how good clients' examples are, and how they change.

`label_noise` and `feature_noise` are applied before a run (`fedtempo.data.noise`), `drift` happens during it
(`fedtempo.data.drift`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from fedtempo.data.settings import pair
from fedtempo.parts.component import made
from fedtempo.parts.fields import STRICT, Doc, NonNegative, Positive, Share

T = TypeVar("T")

MembersKey = Annotated[
    Share | tuple[str | int, ...],
    BeforeValidator(pair),
    Doc("share of the clients that it concerns, drawn; or a list of their names (numbers if they have no names)"),
]


@dataclass(frozen=True, config=STRICT)
class LabelNoise:
    """Wrong labels: at each of these clients, a share of the training examples has the label of another class.

    As in FedCorr (Xu et al., CVPR 2022), clients and, from [low, high], their rates are drawn. Test examples keep their
    labels, also those of clients' own test sets.
    """

    rate: Annotated[
        Share | tuple[Share, Share],
        BeforeValidator(pair),
        Doc("share of a client's training examples with a wrong label, rounded; [low, high]: drawn for each client"),
    ]
    clients: MembersKey = 1.0
    kind: Annotated[
        Literal["symmetric", "pair"],
        Doc("'symmetric': any other class, equally often; 'pair': the next class, as if two were confused"),
    ] = "symmetric"

    def __post_init__(self) -> None:
        one_or_range("rate", self.rate)


@dataclass(frozen=True, config=STRICT)
class FeatureNoise:
    """Bad sensors: the inputs of these clients have normal noise, in training and in own test sets of these examples.

    Noise is added to inputs as networks get them: pixels are in [0, 1], and may leave it.
    """

    std: Annotated[
        NonNegative | tuple[NonNegative, NonNegative],
        BeforeValidator(pair),
        Doc("standard deviation of the noise, in units of the inputs; [low, high]: drawn for each client"),
    ]
    clients: MembersKey = 1.0

    def __post_init__(self) -> None:
        one_or_range("std", self.std)


def one_or_range(name: str, value: float | tuple[float, float]) -> None:
    """Raise ValueError for a range [low, high] whose low is above its high."""
    if isinstance(value, tuple) and value[0] > value[1]:
        raise ValueError(f"{name} = {list(value)}: must be [low, high] with low <= high")


def _pairs(value: Any) -> Any:
    return (
        tuple(tuple(each) if isinstance(each, list) else each for each in value) if isinstance(value, list) else value
    )


@dataclass(frozen=True, config=STRICT)
class Drift:
    """A change of clients' examples at an instant of the run's clock, on top of earlier ones.

    Labels: `swap` and `shift` change what inputs mean, as in FedDrift (Jothimurugesan et al., AISTATS 2023). Inputs:
    first `rotate`, then x * scale + offset, then noise. The clients' own test sets change with their training examples.
    """

    at: Annotated[Positive, Doc("instant, seconds of the run's clock: visits that begin to compute from then on")]
    clients: MembersKey = 1.0
    swap: Annotated[
        tuple[tuple[str | int, str | int], ...],
        BeforeValidator(_pairs),
        Doc("labels: pairs of classes that are exchanged, by name or number, such as [[0, 1], [3, 5]]"),
    ] = ()
    shift: Annotated[int, Doc("labels: class c becomes (c + shift) mod the number of classes, after swap")] = 0
    rotate: Annotated[Literal[0, 1, 2, 3], Doc("images: quarter turns, counter-clockwise")] = 0
    scale: Annotated[float, Doc("inputs: factor; -1 with offset = 1 inverts images")] = 1.0
    offset: Annotated[float, Doc("inputs: number added after scaling")] = 0.0
    noise: Annotated[NonNegative, Doc("inputs: standard deviation of normal noise that is added, drawn once")] = 0.0
    test: Annotated[
        bool | None,
        Doc("whether the test set changes as well (default: if all clients change)"),
    ] = None

    def __post_init__(self) -> None:
        if not self.changes_labels and not self.changes_inputs:
            raise ValueError("it changes nothing; set swap, shift, rotate, scale, offset or noise")

    @property
    def changes_labels(self) -> bool:
        return bool(self.swap or self.shift)

    @property
    def changes_inputs(self) -> bool:
        return bool(self.rotate or self.offset or self.noise) or self.scale != 1


def _each(part: Callable[..., T], name: str) -> Callable[[Any], Any]:
    """Return a function that makes parts of a table, or of a list of tables."""

    def parts(value: Any) -> Any:
        entries = value if isinstance(value, list | tuple) else [value]
        wrong = next((entry for entry in entries if not isinstance(entry, Mapping | part)), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r} is no table; give {{ ... }}, or a list of such tables")
        return tuple(made(part, entry, name) if isinstance(entry, Mapping) else entry for entry in entries)

    return parts


@dataclass(frozen=True, config=STRICT)
class Quality:
    """Keys of `[data.partition]` for every kind of partition: how good clients' examples are, and how they change."""

    label_noise: Annotated[
        tuple[LabelNoise, ...],
        BeforeValidator(_each(LabelNoise, "label_noise")),
        Doc("wrong labels: a table {rate, clients, kind}, or a list of them"),
    ] = ()
    feature_noise: Annotated[
        tuple[FeatureNoise, ...],
        BeforeValidator(_each(FeatureNoise, "feature_noise")),
        Doc("noise of the inputs: a table {std, clients}, or a list of them"),
    ] = ()
    drift: Annotated[
        tuple[Drift, ...],
        BeforeValidator(_each(Drift, "drift")),
        Doc("changes during the run: a table {at, clients, ...}, or a list of them"),
    ] = ()

    @property
    def given(self) -> list[str]:
        """The keys that are set."""
        return [name for name in KEYS if getattr(self, name)]


KEYS = tuple(field.name for field in dataclasses.fields(Quality))
"""Keys of `[data.partition]` that are no settings of the partition."""
