"""Pages and tables over the folders of several runs, from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtempo.api.paths import Paths, path_list
from fedtempo.errors import ConfigError, nearest
from fedtempo.record import Run, load_run, summarise
from fedtempo.report.look import NothingToDraw
from fedtempo.studies import significance
from fedtempo.studies.same_work import check_same_work

if TYPE_CHECKING:
    from fedtempo.api.results import Comparison
    from fedtempo.record.prediction import Predicted


def report_runs(folders: Paths, out: Path | str | None = None) -> Path:
    """Write one self-contained page about runs; return its path (`fedtempo report`).

    folders: of runs; any other folder stands for the runs directly in it, such as that of a comparison. out: the page
    (default: report.html in the first folder). Raises ConfigError if a folder holds no run, if targets differ, or if
    runs do different work in the same time, RunError if the page cannot be written.
    """
    given = path_list("folders", folders)
    runs = [load_run(folder) for folder in _run_folders(given)]
    check_same_work((run.label, run.config) for run in runs)
    from fedtempo.report.html import write_report

    page = Path(out) if out is not None else given[0] / "report.html"
    write_report(page, runs, _compared(runs))
    return page


def _compared(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the comparison of runs by label, as `fedtempo.record.comparison` orders them: as they come."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault(run.label, []).append(summarise(run))
    return significance.compared(groups, significance.resolution_of([run.config for run in runs]))


def save_figures(
    name: str,
    folders: Paths,
    out: Path | str | None = None,
    *,
    width: float | str | None = "column",
    height: float | str | None = None,
    style: str | Iterable[str] = (),
) -> list[Path]:
    """Draw a figure of runs for a paper, or all figures that they have; return the files (`fedtempo figure`).

    name: as in `Comparison.save_figure`, or "all". folders: of runs; any other folder stands for the runs directly in
    it. out: the file, or the folder if name is "all" (default: `<name>.pdf`, figures). width, height, style: as in
    `Comparison.save_figure`. Raises ConfigError, with a list, for another name, if runs with the same label differ in
    more than their seeds, or if there is nothing to draw.
    """
    from fedtempo.api.results import Result, compared
    from fedtempo.api.tables import table_runs
    from fedtempo.studies.tables.runs import check_one_setting, plan_competitors

    given = path_list("folders", folders)
    labels = [each.label for folder in given for each in plan_competitors(folder)]
    shown = compared((Result.of(load_run(folder)) for folder in _run_folders(given)), labels)
    if name not in (names := (*shown.figure_names, "all")):
        raise ConfigError(f"figure {name!r}: no such figure{nearest(name, names)}")
    for label, own in shown.results.items():
        check_one_setting(table_runs(own), f"{label} in the figure", "draw them in figures of their own")
    look: dict[str, Any] = {"width": width, "height": height, "style": style}
    if name != "all":
        return [shown.save_figure(name, out or f"{name}.pdf", **look)]
    folder = Path(out or "figures")
    folder.mkdir(parents=True, exist_ok=True)
    files = (_drawn(shown, each, folder / f"{each}.pdf", look) for each in shown.figure_names)
    drawn = [path for path in files if path is not None]
    if not drawn:
        raise ConfigError("figure 'all': the runs have nothing to draw")
    return drawn


def _drawn(shown: Comparison, name: str, path: Path, look: dict[str, Any]) -> Path | None:
    """Return the file of a figure; None if the runs have nothing to draw there."""
    try:
        return shown.save_figure(name, path, **look)
    except NothingToDraw:
        return None


def compare_with_deployment(simulated: Path | str, deployed: Path | str) -> list[Predicted]:
    """Compare a simulation on a measured fleet with the same run on real clients (`fedtempo fleet compare`).

    Return one entry per measure, with its name, both values and the relative error: time between commits, duration of
    visits (s), busy ratios, time to target (s). Raises ConfigError if a folder holds no run, or if the runs differ in
    strategy, number of clients or target.
    """
    from fedtempo.record.prediction import prediction

    return prediction(load_run(simulated), load_run(deployed))


def load_differences(fleet: Path | str, deployed: Path | str) -> list[str]:
    """Return a line for each machine whose load differed between a fleet's measurement and a deployment.

    fleet: file of `fedtempo fleet measure`. Loads differ if programs had to wait 1.25 times as long for a processor in
    one case as in the other. Machines whose loads are not known are left out. Raises ConfigError if the file or the
    folder cannot be read.
    """
    from fedtempo.deploy.loads import differences, loads_of, measured_loads

    return differences(measured_loads(fleet), loads_of(load_run(deployed)))


def watch(
    folders: Paths,
    port: int = 0,
    *,
    browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Serve a page that follows runs on this machine, until Ctrl-C (`fedtempo watch`).

    folders: of runs, or folders with runs in them. port: on 127.0.0.1; 0 for any free port. browser: whether to open
    the page. say: receives the address. Raises ConfigError for a missing folder, a port that is taken, or if the extra
    `watch` is not installed.
    """
    from fedtempo.report.watch import serving

    serving.watch(path_list("folders", folders), port, browser=browser, say=say)


def _run_folders(folders: Iterable[Path]) -> list[Path]:
    """Return run folders as they are, and the run folders directly in any other. Raises ConfigError for a link."""
    runs = []
    for folder in folders:
        inner = sorted(path.parent for path in folder.glob("*/run.sqlite"))
        if links := [path for path in inner if path.is_symlink()]:
            raise ConfigError(f"{links[0]} leads to {links[0].resolve()}: name the runs' folders themselves")
        runs.extend(inner if inner and not (folder / "run.sqlite").exists() else [folder])
    return runs
