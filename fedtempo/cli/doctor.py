"""`fedtempo doctor`."""

from __future__ import annotations

import json as json_text
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from fedtempo.cli.options import console

if TYPE_CHECKING:
    from rich.table import Table

    from fedtempo.api.installation import Finding, State

_MARKS: dict[State, Text] = {
    "ok": Text("ok", style="green"),
    "optional": Text("optional", style="dim"),
    "warning": Text("warning", style="yellow"),
    "missing": Text("missing", style="bold red"),
}


def doctor(
    json: Annotated[bool, typer.Option("--json", help="print one JSON object, for scripts")] = False,
    report: Annotated[
        bool, typer.Option("--report", help="print JSON to attach to a bug report, without paths and names")
    ] = False,
) -> None:
    """Show what is installed, what is missing, how to install it.

    The exit code is 1 if something needed is missing.
    """
    from fedtempo.api.installation import examine_installation
    from fedtempo.version import __version__

    findings = examine_installation()
    missing = [finding.name for finding in findings if finding.state == "missing"]
    if report:
        from fedtempo.api.bug_report import bug_report

        facts = bug_report(findings)
        console.print(json_text.dumps(facts, indent=2), markup=False, highlight=False, soft_wrap=True)
    elif json:
        facts = {"fedtempo": __version__, "ok": not missing, "findings": list(map(asdict, findings))}
        console.print(json_text.dumps(facts, indent=2), highlight=False, soft_wrap=True)
    else:
        console.print(_findings_table(findings))
        ready = f"needed and missing: {', '.join(missing)}" if missing else "fedtempo can run"
        console.print(ready, style="red" if missing else "green")
    raise typer.Exit(int(bool(missing)))


def _findings_table(findings: list[Finding]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, padding=(0, 1), header_style="dim")
    for column in ("", "part", "state", "found"):
        table.add_column(column, overflow="fold", no_wrap=column == "state")
    area = ""
    for finding in findings:
        found = Text(finding.found)
        if finding.advice:
            style = "dim" if finding.state == "optional" else "yellow"
            found.append(f"{': ' if finding.found else ''}{finding.advice}", style=style)
        shown_area = Text("" if finding.area == area else finding.area, style="dim")
        table.add_row(shown_area, finding.name, _MARKS[finding.state], found)
        area = finding.area
    return table
