"""The `[server]` table: time at the server, deadlines, averages, the optimiser, privacy and compression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from fedtempo.learning.compressed import CompressionSettings
from fedtempo.learning.privacy import Privacy
from fedtempo.learning.robust import Aggregation
from fedtempo.learning.server_optimizers import SERVER_OPTIMIZERS, ServerOptimizer
from fedtempo.parts.component import component, made
from fedtempo.parts.fields import STRICT, Doc, Ge, Lt, NonNegative, Positive


def _privacy_from(value: object) -> object:
    return made(Privacy, value, "privacy") if isinstance(value, Mapping) else value


def _compression_from(value: object) -> object:
    return made(CompressionSettings, value, "compression") if isinstance(value, Mapping) else value


def _optimizer_from(value: object) -> object:
    if isinstance(value, str):
        value = {"kind": value}
    if not isinstance(value, Mapping):
        return value
    return component(value, SERVER_OPTIMIZERS, "server_optimizers", "server optimiser")


@dataclass(frozen=True, config=STRICT)
class ServerSettings:
    """The `[server]` table."""

    seconds: Annotated[NonNegative, Doc("seconds of the run's clock that each operation at the server takes")] = 0.0
    deadline: Annotated[
        Annotated[float, Ge(1)] | None,
        Doc(
            "multiple of a visit's estimated time after which the visit is given up; waiting for other visits does not "
            "count (default: no deadline)"
        ),
    ] = None
    max_bad_updates: Annotated[
        Annotated[int, Ge(0)] | None,
        Doc(
            "number of bad updates (not finite, wrong shape or count) allowed before the run fails (default: no limit)"
        ),
    ] = None
    aggregation: Annotated[
        Aggregation,
        Doc(
            "kind of average: mean weighted by examples, or coordinate-wise median or trimmed mean of the models, "
            "unweighted (Yin et al. 2018)"
        ),
    ] = "mean"
    trim: Annotated[
        float, Ge(0), Lt(0.5), Doc("beta of trimmed-mean: share of models left out at each end, rounded down")
    ] = 0.1
    clip_norm: Annotated[
        Positive | None, Doc("largest L2 norm of a model's change from the global model in an average (default: none)")
    ] = None
    optimizer: Annotated[
        ServerOptimizer | None,
        BeforeValidator(_optimizer_from),
        Doc("optimiser whose gradient is the global model minus each average: {kind, ...} (default: plain averages)"),
    ] = None
    privacy: Annotated[
        Privacy | None,
        BeforeValidator(_privacy_from),
        Doc("client-level differential privacy of averages: {clip_norm, noise_multiplier, delta}"),
    ] = None
    compression: Annotated[
        CompressionSettings | None,
        BeforeValidator(_compression_from),
        Doc("compression of the models that are sent: {up, down}, each {kind, ...} (default: none)"),
    ] = None

    def __post_init__(self) -> None:
        if self.privacy is not None and self.aggregation != "mean":
            raise ValueError(f"aggregation = {self.aggregation!r}: with privacy it must be 'mean'")
        if self.privacy is not None and self.clip_norm is not None:
            raise ValueError(f"clip_norm = {self.clip_norm}: with privacy, set server.privacy.clip_norm instead")
