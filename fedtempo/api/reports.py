"""Pages and tables over the folders of several runs, from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtempo.api.paths import Paths, path_list
from fedtempo.errors import ConfigError
from fedtempo.record import Run, load_run, summarise
from fedtempo.studies.same_work import check_same_work
from fedtempo.studies.significance import compared, resolution_of

if TYPE_CHECKING:
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
    return compared(groups, resolution_of([run.config for run in runs]))


def compare_with_deployment(simulated: Path | str, deployed: Path | str) -> list[Predicted]:
    """Compare a simulation on a measured fleet with the same run on real clients (`fedtempo fleet compare`).

    Return one entry per measure, with its name, both values and the relative error: time between commits, duration of
    visits (s), busy ratios, time to target (s). Raises ConfigError if a folder holds no run, or if the runs differ in
    strategy, number of clients or target.
    """
    from fedtempo.record.prediction import prediction

    return prediction(load_run(simulated), load_run(deployed))


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
