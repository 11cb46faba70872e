"""What leaves clients in a run: each kind of data, under which condition and how much of it, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from fedtempo.record.run import Records
from fedtempo.report import words
from fedtempo.report.rendering import render

KINDS: Mapping[str, tuple[str, str]] = {
    "parameters": ("trained parameters", "after each visit, to the server or to the next client of the group"),
    "statistics": (
        "statistics of a visit",
        "its mean loss, and others that the strategy requests; none with server.privacy",
    ),
    "histograms": ("label histograms", "once, the number of examples of each class, with data.tell_labels"),
    "examples": ("raw examples", "from clients that agreed, if the strategy asks for them"),
}
"""Names and conditions of the kinds of data, by their key in the fact `left_clients`."""


@dataclass(frozen=True)
class _Row:
    """A kind of data, when it leaves clients, and how much of it left them in each run."""

    name: str
    when: str
    amounts: list[str]


def leaving(runs: Mapping[str, Records]) -> Markup:
    """Return a card with one row per kind of data and one column per run; empty if no run recorded it.

    runs: by label.
    """
    telling = {label: run for label, run in runs.items() if "left_clients" in run.facts}
    if not telling:
        return Markup("")
    rows = [_Row(name, when, [_amount(run, kind) for run in telling.values()]) for kind, (name, when) in KINDS.items()]
    return render("disclosure", labels=list(telling), rows=rows, protection=_protection(telling))


def _amount(run: Records, kind: str) -> str:
    size_bytes = (run.facts.get("left_clients") or {}).get(kind, 0)
    return words.size(size_bytes) if size_bytes else "nothing"


def _protection(runs: Mapping[str, Records]) -> list[str]:
    """Return how the data are protected, one line per run with privacy and per noise level."""
    lines = [
        f"{label}: averages of parameters are differentially private for each client, {words.privacy(spent)}."
        for label, run in runs.items()
        if (spent := run.facts.get("privacy")) is not None
    ]
    noise = {epsilon for run in runs.values() if (epsilon := run.facts.get("label_noise_epsilon")) is not None}
    return [*lines, *(f"Label histograms carry Laplace noise, ε = {epsilon:g}." for epsilon in sorted(noise))]
