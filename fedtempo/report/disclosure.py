"""What leaves clients in a run: which kind of data, under which condition, and how much of it, as a table."""

from __future__ import annotations

from collections.abc import Mapping

from fedtempo.record.run import Records
from fedtempo.report import words
from fedtempo.report.markup import Markup, element

KINDS: Mapping[str, tuple[str, str]] = {
    "parameters": ("trained parameters", "after each visit, to the server or to the client that goes on with them"),
    "statistics": ("statistics of a visit", "its mean loss, and what the strategy asks for; none with server.privacy"),
    "histograms": ("label histograms", "once, how many examples of each class, with data.tell_labels"),
    "examples": ("raw examples", "from clients that agreed, where the strategy asks for them"),
}


def leaving(runs: Mapping[str, Records]) -> Markup:
    """A row for each kind of data, a column for each run by its label; nothing where no run tells."""
    telling = {label: run for label, run in runs.items() if "left_clients" in run.facts}
    if not telling:
        return Markup("")
    head = element(
        "tr",
        element("th", "what", scope="col"),
        element("th", "when", scope="col", class_="text"),
        *(element("th", label, scope="col") for label in telling),
    )
    rows = [
        element(
            "tr",
            element("td", name),
            element("td", when, class_="text"),
            *(element("td", _amount(run, kind)) for run in telling.values()),
        )
        for kind, (name, when) in KINDS.items()
    ]
    table = element("div", element("table", element("thead", head), element("tbody", *rows)), class_="scroll")
    return element("section", element("h3", "What leaves clients"), *_protection(telling), table, class_="card wide")


def _amount(run: Records, kind: str) -> str:
    size_bytes = (run.facts.get("left_clients") or {}).get(kind, 0)
    return words.size(size_bytes) if size_bytes else "nothing"


def _protection(runs: Mapping[str, Records]) -> list[Markup]:
    """How it is protected, a line for each run that does."""
    lines = [
        element(
            "p", f"{label}: averages of parameters are differentially private of each client, {words.privacy(spent)}."
        )
        for label, run in runs.items()
        if (spent := run.facts.get("privacy")) is not None
    ]
    noise = {epsilon for run in runs.values() if (epsilon := run.facts.get("label_noise_epsilon")) is not None}
    lines += [element("p", f"Label histograms carry Laplace noise, ε = {epsilon:g}.") for epsilon in sorted(noise)]
    return lines
