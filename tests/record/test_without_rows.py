"""Runs recorded without rows: the same summary in less space, and an error from everything that needs rows."""

import json
import shutil
import sqlite3

import numpy as np
import pytest

from fedtempo.cli import app
from fedtempo.errors import ConfigError, RunError
from fedtempo.record import Recorder, load_run, summarise
from fedtempo.record.export import export
from fedtempo.record.measures import busy_ratios, participation
from fedtempo.report import figures
from fedtempo.report.html import write_report
from fedtempo.runs.run import Run
from tests.crash import lives

CONFIG = lives.config("fedasync", {"executor.kind": "none", "run.horizon": 300.0, "run.verify": False})
TOTALS = CONFIG.with_changes({"run.record": "totals"}, label="lean")


@pytest.fixture(scope="module")
def with_rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows") / "run"
    Run(CONFIG).begin(folder)
    return load_run(folder)


@pytest.fixture(scope="module")
def without_rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("totals") / "run"
    Run(TOTALS).begin(folder)
    return load_run(folder)


def without_wall_time(summary):
    return {name: value for name, value in summary.items() if name != "wall_s"}


def test_without_rows_the_summary_is_the_same_and_the_records_do_not_grow(with_rows, without_rows, tmp_path):
    assert (
        without_wall_time(with_rows.summary)
        == without_wall_time(without_rows.summary)
        == without_wall_time(summarise(without_rows))
        == without_wall_time(summarise(with_rows))
    )
    assert without_rows.visits["number"].size == without_rows.commits["version"].size == 0
    np.testing.assert_array_equal(participation(without_rows), participation(with_rows))
    np.testing.assert_array_equal(busy_ratios(without_rows), busy_ratios(with_rows))
    Run(TOTALS.with_changes({"run.horizon": 900.0})).begin(tmp_path / "longer")
    sizes = [
        (folder / "run.sqlite").stat().st_size
        for folder in (with_rows.folder, without_rows.folder, tmp_path / "longer")
    ]
    assert sizes[0] > 2 * sizes[1]
    assert sizes[1] == sizes[2]


def test_a_page_says_what_is_missing(with_rows, without_rows, tmp_path):
    write_report(tmp_path / "both.html", [with_rows, without_rows])
    write_report(tmp_path / "lean.html", [without_rows])
    both, alone = ((tmp_path / name).read_text() for name in ("both.html", "lean.html"))
    assert "The records of lean hold totals and no rows" in both
    assert "The records of lean hold totals and no rows" in alone
    assert "<h3>Calendars</h3>" in both
    assert "<h3>Calendars</h3>" not in alone
    assert "Busy ratio of every client" in alone
    with pytest.raises(ConfigError, match="at least one run with rows of visits"):
        figures.calendars({"lean": [without_rows]}, tmp_path / "calendars.png")
    with pytest.raises(ConfigError, match="nothing to draw"):
        figures.alive({"lean": [without_rows]}, tmp_path / "alive.png")
    figures.busy({"lean": [without_rows]}, tmp_path / "busy.png")


def test_an_export_has_no_empty_tables(without_rows, tmp_path, capsys, monkeypatch):
    assert [path.stem for path in export(without_rows, "csv", tmp_path / "tables")] == ["evaluations", "notes", "facts"]
    monkeypatch.setattr(
        "sys.argv", ["fedtempo", "export", str(without_rows.folder), "--to", "csv", "--out", str(tmp_path)]
    )
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert not ended.value.code
    assert "no visits and commits: the run left their rows out" in capsys.readouterr().out


def test_rows_may_be_turned_on_when_resuming(with_rows, tmp_path):
    """A resumed run records everything again from its start."""
    folder = tmp_path / "run"
    lives.interrupted_at(TOTALS.with_changes({}), folder, 100.0)
    assert summarise(load_run(folder))["ended"] == "interrupted"
    Run(CONFIG).complete(folder)
    assert load_run(folder).has_rows
    assert without_wall_time(summarise(load_run(folder))) == without_wall_time(with_rows.summary)


def test_an_unfinished_run_without_rows_has_no_summary(tmp_path):
    recorder = Recorder(tmp_path, rows=False)
    for name, value in {"strategy": "demo", "seed": 1, "n_clients": 3}.items():
        recorder.fact(name, value)
    recorder.flush()
    with pytest.raises(
        RunError, match="demo: recorded without rows, and totals are written at its end; resume it first"
    ):
        write_report(tmp_path / "page.html", [load_run(tmp_path)])
    recorder.close()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"most_alive": -1}, "fact totals.most_alive = -1"),
        ({"outcomes": [1, 2]}, "fact totals.outcomes ="),
        ({"busy_s": [0.5]}, "fact totals: visits_done and busy_s must hold at most 20 clients"),
        ({"more": 1}, "fact totals.more = 1"),
    ],
)
def test_impossible_totals_are_rejected(without_rows, tmp_path, changes, says):
    folder = shutil.copytree(without_rows.folder, tmp_path / "run")
    connection = sqlite3.connect(folder / "run.sqlite")
    with connection:
        value = json.dumps({**without_rows.facts["totals"], **changes})
        connection.execute("UPDATE facts SET value = ? WHERE name = 'totals'", [value])
    connection.close()
    with pytest.raises(ConfigError, match=says):
        load_run(folder)
