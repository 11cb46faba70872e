"""Validate records, which may come from anybody, before anything else reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Interval, Le, Len, MaxLen
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from fedtempo.record.schema import LARGEST_TIME_S, OUTCOMES

MOST_CLIENTS = 10_000_000
_LARGEST_NUMBER = 10**15
_MOST_CLASSES = 10**6
_LONGEST_NAME = 200

Time = Annotated[float, Interval(ge=0, le=LARGEST_TIME_S)]
Whole = Annotated[int, Interval(ge=0, le=10**18)]
Bytes = Annotated[int, Ge(0), Le(10**24)]
Power = Annotated[float, Interval(ge=0, le=1e12)]
Share = Annotated[float, Interval(ge=0, le=1)]
Text = Annotated[str, MaxLen(100_000)]
Coordinate = Annotated[float, Interval(ge=-1e30, le=1e30)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False, defer_build=True)


class _Data(_Part):
    source: Text = ""
    task: Literal["classes", "multilabel", "tokens", "numbers", "segmentation"] = "classes"
    about: Text = ""
    warnings: list[Text] = []
    validation: Whole | None = None
    evaluated_on: Literal["validation"] | None = None
    changes: list[Time] = []


class _Moved(_Part):
    down: Bytes
    up: Bytes
    relay: Bytes


class _Privacy(_Part):
    epsilon: Annotated[float, Ge(0)]
    delta: Share
    averages: Whole


class _Watts(_Part):
    compute: list[Power] | None = None
    link: list[Power] | None = None


class _Totals(_Part):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)

    visits_done: list[Whole]
    busy_s: list[Time]
    outcomes: Annotated[list[Whole], Len(len(OUTCOMES), len(OUTCOMES))]
    examples_trained: Whole
    commits: Whole
    staleness_sum: Whole
    staleness_max: Whole | None
    alive_s: Time
    most_alive: Whole


class _NotFinite(_Part):
    evaluations: Whole
    updates: Whole
    first_s: Time | None


class _Health(_Part):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    diverged: Literal["evaluation", "model", "updates", "loss"] | None
    not_finite: _NotFinite
    still_since_s: Time | None
    warnings: list[Text]


_Shape = Annotated[list[Annotated[int, Ge(1)]], MaxLen(10)]


class _Network(_Part):
    input_shape: _Shape | Annotated[list[_Shape], MaxLen(100)] | Annotated[dict[Text, _Shape], MaxLen(100)]
    inputs: Literal["numbers", "symbols", "several"]
    outputs: Annotated[int, Ge(1)]


class _BestModel(_Part):
    version: Whole
    time_s: Time
    accuracy: Annotated[float, Interval(ge=-1, le=1)]
    loss: float
    validation_accuracy: Annotated[float, Interval(ge=-1, le=1)] | None = None
    sha256: Text


class _Metric(_Part):
    name: Annotated[str, MaxLen(_LONGEST_NAME)]
    better: Literal["higher", "lower"] | None = None
    as_share: bool = False


class _Target(_Metric):
    value: float


class _ClientLayers(_Part):
    clients: Whole
    sha256: Text


class Facts(_Part):
    """The facts that fedtempo reads. Each may be missing, and there may be others."""

    strategy: Text | None = None
    label: Text | None = None
    seed: Annotated[int, Ge(0)] | None = None
    n_clients: Annotated[int, Interval(ge=1, le=MOST_CLIENTS)] | None = None
    horizon_s: Time | None = None
    elapsed_s: Time | None = None
    target_accuracy: Share | None = None
    target: _Target | None = None
    metrics: list[_Metric] | None = None
    client_measures: list[_Metric] | None = None
    ended: Text | None = None
    end_reason: Text | None = None
    data: _Data | None = None
    network: _Network | None = None
    bytes: _Moved | None = None
    health: _Health | None = None
    left_clients: dict[Text, Bytes] | None = None
    privacy: _Privacy | None = None
    label_histograms: list[list[Whole]] | None = None
    label_noise_epsilon: Annotated[float, Ge(0)] | None = None
    class_names: list[Text] | None = None
    client_names: list[Text] | None = None
    positions: list[Annotated[list[Coordinate], MaxLen(3)]] | None = None
    watts: _Watts | None = None
    reads_horizon: bool | None = None
    deployment: bool | None = None
    model_sha256: Text | None = None
    best_model: _BestModel | None = None
    client_layers: _ClientLayers | None = None
    events_sha256: Text | None = None
    wall_s: Time | None = None
    version: Text | None = None
    record: Literal["all", "totals"] | None = None
    totals: _Totals | None = None


_CLUSTERS = TypeAdapter(
    list[Annotated[int, Interval(ge=0, le=MOST_CLIENTS)]], config=ConfigDict(strict=True, defer_build=True)
)


def check_facts(facts: Mapping[str, Any]) -> None:
    """Raise ValueError naming a fact with an invalid value."""
    try:
        checked = Facts.model_validate(dict(facts))
    except ValidationError as error:
        complaint = error.errors()[0]
        field = ".".join(str(step) for step in complaint["loc"][:3])
        raise ValueError(f"fact {field} = {_shown(complaint['input'])}: {complaint['msg'].lower()}") from None
    if (totals := checked.totals) is not None and not (
        len(totals.visits_done) == len(totals.busy_s) <= (checked.n_clients or 0)
    ):
        raise ValueError(
            f"fact totals: visits_done and busy_s must hold at most {checked.n_clients} clients, equally many"
        )
    powers = [] if checked.watts is None else [checked.watts.compute, checked.watts.link]
    if any(power is not None and len(power) != checked.n_clients for power in powers):
        raise ValueError(f"fact watts: must hold one number for each of {checked.n_clients} clients")
    histograms = checked.label_histograms
    if histograms and (
        len(histograms) != checked.n_clients or len({len(row) for row in histograms}) != 1 or not histograms[0]
    ):
        raise ValueError("fact label_histograms: must hold one list per client, all of the same length")
    if histograms and checked.class_names and len(checked.class_names) != len(histograms[0]):
        raise ValueError(f"fact class_names: {len(checked.class_names)} names for {len(histograms[0])} classes")


def check_tables(tables: Mapping[str, Mapping[str, npt.NDArray[Any]]], n_clients: int | None) -> None:
    """Raise ValueError naming a column of visits, commits or evaluations with an impossible value."""
    visits, commits, evaluations = (tables[name] for name in ("visits", "commits", "evaluations"))
    _within("visits.client", visits["client"], 0, (n_clients or MOST_CLIENTS) - 1)
    for name in ("number", "group", "base_version", "examples"):
        _within(f"visits.{name}", visits[name], -1, _LARGEST_NUMBER)
    for name in ("queued", "started", "received", "computed", "finished"):
        _within(f"visits.{name}", visits[name], 0, LARGEST_TIME_S, absent=name not in ("queued", "finished"))
    if unknown := set(visits["outcome"].tolist()) - OUTCOMES.keys():
        raise ValueError(f"visits.outcome holds {_shown(min(unknown))}; must be one of {', '.join(OUTCOMES)}")
    _within("commits.version", commits["version"], 0, _LARGEST_NUMBER)
    _within("commits.time", commits["time"], 0, LARGEST_TIME_S)
    _within("commits.staleness", commits["staleness"], 0, _LARGEST_NUMBER)
    _within("evaluations.time", evaluations["time"], 0, LARGEST_TIME_S)
    _within("evaluations.version", evaluations["version"], 0, _LARGEST_NUMBER)
    _within("evaluations.accuracy", evaluations["accuracy"], -1, 1, absent=True)
    _within("evaluations.mae", evaluations["mae"], 0, np.inf, absent=True)


def check_further(tables: Mapping[str, Mapping[str, npt.NDArray[Any]]], n_clients: int | None) -> None:
    """Raise ValueError naming a column of `schema.FURTHER_TABLES` with an impossible value."""
    for name, table in tables.items():
        _within(f"{name}.time", table["time"], 0, LARGEST_TIME_S)
        _within(f"{name}.version", table["version"], 0, _LARGEST_NUMBER)
    metrics, confusion, clients = (tables[name] for name in ("metrics", "confusion", "client_evaluations"))
    if any(len(name) > _LONGEST_NAME for name in set(metrics["name"].tolist())):
        raise ValueError(f"metrics.name: must have at most {_LONGEST_NAME} characters")
    _within("metrics.class", metrics["class"], -1, _MOST_CLASSES)
    for name in ("class", "predicted"):
        _within(f"confusion.{name}", confusion[name], 0, _MOST_CLASSES)
    _within("confusion.examples", confusion["examples"], 0, _LARGEST_NUMBER)
    _within("client_evaluations.client", clients["client"], 0, (n_clients or MOST_CLIENTS) - 1)
    _within("client_evaluations.examples", clients["examples"], 0, _LARGEST_NUMBER)
    _within("client_evaluations.accuracy", clients["accuracy"], -1, 1, absent=True)
    _within("client_evaluations.mae", clients["mae"], 0, np.inf, absent=True)


def check_clusters(noted: Any) -> None:
    """Raise ValueError unless the value of a note "clusters" is a list of whole numbers, one per client."""
    try:
        _CLUSTERS.validate_python(noted)
    except ValidationError:
        raise ValueError("note clusters: must hold one whole number, 0 or more, per client") from None


def _within(name: str, values: npt.NDArray[Any], low: float, high: float, *, absent: bool = False) -> None:
    """Raise ValueError if a value is out of range. absent: whether NaN is allowed."""
    valid = (values >= low) & (values <= high)
    if absent:
        valid |= np.isnan(values)
    if not valid.all():
        raise ValueError(f"{name} holds {values[~valid][0]}; must be {low:g} to {high:g}")


def _shown(value: Any) -> str:
    """Return a value as text for an error, at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
