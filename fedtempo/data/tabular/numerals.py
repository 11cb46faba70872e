"""How numbers are written in text: 1234.5, 1,234.5, 1.234,5 or 1 234,5."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar


@dataclass(frozen=True)
class Numerals:
    """The mark before decimals, and the mark between thousands, which is empty if there is none."""

    decimal: str = "."
    thousands: str = ""

    THOUSANDS: ClassVar[tuple[str, ...]] = (".", ",", " ", "\u00a0", "\u202f", "'", "\u2019")

    @cached_property
    def reads(self) -> Callable[[str], object]:
        """Return a true value for a text that is a number."""
        whole = rf"[1-9]\d{{0,2}}(?:[{self.thousands}]\d{{3}})+|\d+" if self.thousands else r"\d+"
        mark = f"[{self.decimal}]"
        return re.compile(rf"\s*[+-]?(?:(?:{whole})(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII).fullmatch

    @property
    def option(self) -> str:
        """The option that names this way of writing."""
        if self.thousands:
            return f"data.options.thousands = {self.thousands!r}"
        return f"data.options.decimal = {self.decimal!r}"

    def number(self, text: str) -> float:
        """Return the number that a text is, as `reads` says."""
        if self.thousands:
            text = text.replace(self.thousands, "")
        return float(text.replace(self.decimal, "."))


USUAL = Numerals()
_WAYS = (
    USUAL,
    Numerals(","),
    *(Numerals(mark, thousands) for mark in ".," for thousands in Numerals.THOUSANDS if thousands != mark),
)


def ways_of(decimal: str | None, thousands: str | None) -> list[Numerals]:
    """Return how numbers may be written, the most usual way first. decimal, thousands: None if unknown."""
    return [
        way for way in _WAYS if decimal in (None, way.decimal) and (thousands is None or thousands == way.thousands)
    ]


def feasible(columns: Iterable[Sequence[str]], ways: Sequence[Numerals]) -> list[Numerals]:
    """Return the ways that read each column of values that any of the ways reads."""
    common = list(ways)
    for values in columns:
        if not all(map(str.isdigit, values)) and (fit := [way for way in ways if all(map(way.reads, values))]):
            common = [way for way in common if way in fit]
    return common


def offered(values: Sequence[str]) -> str:
    """Return the options that make numbers of all values, and what the first of them then is; empty if none does.

    For example: "data.options.decimal = ',' if '1,234' is 1.234, or data.options.thousands = ',' if it is 1234".
    """
    ways: dict[float, Numerals] = {}
    for way in _WAYS:
        if all(map(way.reads, values)):
            ways.setdefault(way.number(values[0]), way)
    offers = [f"{way.option} if {{}} is {number:g}" for number, way in ways.items()]
    return ", or ".join(offer.format(repr(values[0]) if i == 0 else "it") for i, offer in enumerate(offers))


def disputed(columns: Iterable[Sequence[str]], ways: Sequence[Numerals]) -> tuple[str, Numerals] | None:
    """Return a value that the first of the ways and another one read as different numbers, and that other way."""
    for values in columns:
        for way in ways[1:]:
            for value in values:
                if ways[0].reads(value) and way.reads(value) and ways[0].number(value) != way.number(value):
                    return value, way
    return None
