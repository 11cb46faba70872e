"""What the server does with time and with updates: the `[server]` table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from fedtempo.learning.privacy import Privacy
from fedtempo.learning.robust import Aggregation
from fedtempo.parts.component import made
from fedtempo.parts.fields import STRICT, Doc, Ge, Lt, NonNegative, Positive


def _privacy_from(value: object) -> object:
    return made(Privacy, value, "privacy") if isinstance(value, Mapping) else value


@dataclass(frozen=True, config=STRICT)
class ServerSettings:
    """The `[server]` table."""

    seconds: Annotated[NonNegative, Doc("seconds of the run's clock that each operation at the server takes")] = 0.0
    deadline: Annotated[
        Annotated[float, Ge(1)] | None,
        Doc(
            "a visit is given up after this many times the estimate of what it takes, waiting for others not counted; "
            "the server waits without end where not given"
        ),
    ] = None
    max_bad_updates: Annotated[
        Annotated[int, Ge(0)] | None,
        Doc("updates that may be refused (not finite, of a wrong shape or count) before the run ends with an error"),
    ] = None
    aggregation: Annotated[
        Aggregation,
        Doc(
            "what an average is: mean weighted by examples, or in each parameter the median or the trimmed mean of the "
            "models, all counting the same (Yin et al. 2018)"
        ),
    ] = "mean"
    trim: Annotated[
        float, Ge(0), Lt(0.5), Doc("trimmed-mean: share of the models left out at each end, rounded down; beta")
    ] = 0.1
    clip_norm: Annotated[
        Positive | None, Doc("largest L2 norm of a model's change from the global model in an average")
    ] = None
    privacy: Annotated[
        Privacy | None,
        BeforeValidator(_privacy_from),
        Doc("averages that are differentially private of each client: {clip_norm, noise_multiplier, delta}"),
    ] = None

    def __post_init__(self) -> None:
        if self.privacy is not None and self.aggregation != "mean":
            raise ValueError(f"aggregation = {self.aggregation!r}: with privacy it is the mean")
        if self.privacy is not None and self.clip_norm is not None:
            raise ValueError(f"clip_norm = {self.clip_norm}: with privacy it is that of [server.privacy]")
