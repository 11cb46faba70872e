"""Building blocks for the parts of a configuration: frozen dataclasses with documented, checked fields.

A part (a strategy, a link, a distribution, a partition, ...) is declared as

    @dataclass(frozen=True, config=STRICT)          # pydantic.dataclasses.dataclass
    class Uniform:
        '''Equal density on [low, high].'''
        low: Annotated[float, Ge(0), Doc("smallest value, seconds")]

`Doc` texts give meaning, unit and source; `fedtempo describe` prints them. Constraints from `annotated_types` are
checked whenever the part is built, from TOML or from Python. A check over several fields belongs in `__post_init__`
and raises `ValueError` naming the field.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Gt, Interval, Le, Lt
from pydantic import ConfigDict, Field
from typing_extensions import Doc

STRICT = ConfigDict(
    extra="forbid",
    strict=True,
    allow_inf_nan=False,
    arbitrary_types_allowed=True,
    defer_build=True,  # build a validator when its class is first used: a command uses few of the 70 or so classes
)

Positive = Annotated[float, Gt(0)]
NonNegative = Annotated[float, Ge(0)]
Share = Annotated[float, Interval(ge=0, le=1)]
Count = Annotated[int, Interval(ge=1, le=2**31 - 1)]
Floats = Annotated[tuple[float, ...], Field(strict=False)]

__all__ = [
    "STRICT",
    "Count",
    "Doc",
    "Floats",
    "Ge",
    "Gt",
    "Interval",
    "Le",
    "Lt",
    "NonNegative",
    "Positive",
    "Share",
]
