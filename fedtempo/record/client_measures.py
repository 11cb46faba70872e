"""Statistics over clients as measures: their names, titles, and what records say about them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from fedtempo.record.metric import Measure

Kind = Literal["clients", "own"]
"""Models evaluated on clients' own test sets: the global one, or each client's own."""

MODELS: Mapping[Kind, str] = MappingProxyType({"clients": "the global model", "own": "each client's own model"})

STATISTICS: Mapping[str, str] = MappingProxyType(
    {
        "mean": "mean",
        "std": "standard deviation",
        "worst-tenth": "worst tenth",
        "worst": "worst",
        "best": "best",
        "jain": "Jain's index",
        "mean-weighted": "mean, weighted",
        "std-weighted": "standard deviation, weighted",
        "worst-tenth-weighted": "worst tenth, weighted",
        "jain-weighted": "Jain's index, weighted",
    }
)
"""Statistics by name, and what they are called in tables."""

SHOWN: tuple[str, ...] = ("mean", "worst-tenth", "jain")
"""Statistics that comparisons show."""


def title(kind: Kind, statistic: str) -> str:
    """Return what a statistic of a kind of model is called in tables: "clients: worst tenth"."""
    return f"{'clients' if kind == 'clients' else 'own models'}: {STATISTICS[statistic]}"


def names_of(kind: Kind) -> dict[str, str]:
    """Return the names of a kind's statistics as measures ("clients-worst-tenth"), by name of the statistic."""
    return {name: f"{kind}-{name}" for name in STATISTICS}


def facts_of(kind: Kind, measure: Measure) -> list[dict[str, Any]]:
    """Return what records say about a kind's statistics as measures. measure: of the data."""
    return [
        {
            "name": full,
            "better": "lower" if name.startswith("std") else "higher",
            "as_share": measure.as_share and not name.startswith("jain"),
        }
        for name, full in names_of(kind).items()
    ]


def measures_of(facts: Mapping[str, Any], kind: Kind) -> dict[str, Measure]:
    """Return the measures of a kind's statistics by name of the statistic; empty if a run does not have them.

    facts: of a run; "client_measures" is used.
    """
    known = {each["name"]: each for each in facts.get("client_measures") or ()}
    return {
        name: Measure(title(kind, name), full, known[full].get("as_share", False), known[full].get("better"))
        for name, full in names_of(kind).items()
        if full in known
    }
