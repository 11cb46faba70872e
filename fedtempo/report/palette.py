"""Colours that people with any colour vision can distinguish (Paul Tol's "vibrant" and "muted" schemes)."""

from __future__ import annotations

from collections.abc import Sequence

VIBRANT = ("#0077BB", "#EE7733", "#009988", "#EE3377", "#33BBEE", "#CC3311", "#999999")
_MUTED = (
    "#332288",
    "#88CCEE",
    "#44AA99",
    "#117733",
    "#999933",
    "#DDCC77",
    "#CC6677",
    "#882255",
    "#AA4499",
    "#BBBBBB",
)
_DASHES = ("solid", "dash", "dot", "dashdot")


def strategy_colours(labels: Sequence[str]) -> dict[str, str]:
    """Return a colour for each strategy in the given order; colours repeat after seven."""
    return {label: VIBRANT[i % len(VIBRANT)] for i, label in enumerate(labels)}


def strategy_dashes(labels: Sequence[str]) -> dict[str, str]:
    """Return a line style for each strategy, which distinguishes strategies with the same colour."""
    return {label: _DASHES[i // len(VIBRANT) % len(_DASHES)] for i, label in enumerate(labels)}


def category_colour(index: int) -> str:
    """Return the colour of a class, group or cluster by its number; colours repeat after ten."""
    return _MUTED[index % len(_MUTED)]


MAX_CATEGORIES = len(_MUTED)


def translucent(colour: str, opacity: float) -> str:
    """Return a `#rrggbb` colour as CSS `rgba(...)`."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"
