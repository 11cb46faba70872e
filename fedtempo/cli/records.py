"""Commands on finished runs: report, watch and export; and what the terminal shows after a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedtempo.cli.options import OneRun, Runs, console

if TYPE_CHECKING:
    from fedtempo.api.results import Comparison, Result
    from fedtempo.api.sweeps import Sweep

INTERRUPTED = 130
"""Exit code of a run that Ctrl-C has ended."""


def report(
    folders: Runs,
    out: Annotated[Path | None, typer.Option(help="output file (default: report.html in the first folder)")] = None,
) -> None:
    """Write one self-contained HTML report about runs."""
    from fedtempo.api.reports import report_runs

    console.print(f"{report_runs(folders, out)}", style="cyan", soft_wrap=True)


def watch(
    runs: Runs,
    port: Annotated[int, typer.Option(min=0, max=65535, help="port on 127.0.0.1 (0: any free port)")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="print the address; do not open a browser")] = False,
) -> None:
    """Follow runs on a local page, or view finished ones.

    Ctrl-C ends it.
    """
    from fedtempo.api.reports import watch

    def say(text: str) -> None:
        console.print(text, style="cyan", soft_wrap=True, highlight=False)

    watch(runs, port, browser=not no_browser, say=say)


def export(
    run: OneRun,
    to: Annotated[
        str | None,
        typer.Option(
            help="tables as parquet or csv, a model as safetensors, pt or onnx (default: parquet, or safetensors with "
            "--model)",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="model to write: last or best (default: last)", show_default=False)
    ] = None,
    client: Annotated[
        str | None,
        typer.Option(
            help="id or name of a client whose own layers (model.local) to put into the model (default: none)",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="output folder of tables, or new file of a model (default: tables/ or models/ in the run's folder)"
        ),
    ] = None,
) -> None:
    """Write a run's tables, or its model.

    Tables are for pandas, DuckDB or R, models for PyTorch or ONNX.
    """
    from fedtempo.api.results import open_run

    result = open_run(run)
    if model is not None or client is not None or to in ("safetensors", "pt", "onnx"):
        path = result.export_model(to or "safetensors", model or "last", out, client=client)
        console.print(f"{path}", soft_wrap=True)
        return
    for path in result.export(to or "parquet", out):
        console.print(f"{path}", soft_wrap=True)
    if not result.records.has_rows:
        console.print('no visits and commits: the run left their rows out (run.record = "totals")', soft_wrap=True)


def show_result(result: Result) -> None:
    """Show a run in a folder. Raises typer.Exit with code 130 if it was interrupted."""
    from fedtempo.record.folder import RunFolder
    from fedtempo.report import words
    from fedtempo.report.table import run_table

    summary, folder = result.summary, result.folder
    assert folder is not None
    console.print(run_table(summary))
    if summary["visits"] and summary["ended"] != "interrupted":
        files = RunFolder(folder)
        size_bytes = files.size_bytes - files.report.stat().st_size
        console.print(
            f"records: {words.size(size_bytes)}, {size_bytes / summary['visits']:,.0f} bytes per visit",
            style="dim",
            highlight=False,
        )
    console.print(f"{folder}/report.html", style="cyan", soft_wrap=True)
    if summary["ended"] == "interrupted":
        console.print(f"interrupted: `fedtempo resume {folder}` continues it", style="yellow", soft_wrap=True)
        raise typer.Exit(INTERRUPTED)


def show_comparison(folder: Path, compared: Comparison) -> None:
    """Show the comparison in a folder."""
    from fedtempo.report.table import comparison_table

    console.print(comparison_table(compared.facts, console.width))
    console.print(f"{folder}/report.html", style="cyan", soft_wrap=True)


def show_sweep(swept: Sweep) -> None:
    """Show the finished runs of a sweep, and say which are missing."""
    from fedtempo.report.table import comparison_table
    from fedtempo.studies.sweep import TABLES

    console.print(comparison_table(swept.facts, console.width))
    for name in [*TABLES, "report.html"]:
        if (swept.folder / name).exists():
            console.print(f"{swept.folder / name}", style="cyan", soft_wrap=True)
    if swept.missing:
        some = ", ".join(swept.missing[:3]) + (", ..." if len(swept.missing) > 3 else "")
        of = len(swept.missing) + len(swept.runs)
        console.print(f"{len(swept.missing)} of {of} runs have not finished: {some}", style="yellow", soft_wrap=True)
