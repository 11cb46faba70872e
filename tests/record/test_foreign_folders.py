"""Run folders from others are treated as data: nothing is imported, nothing outside is read, nothing hangs."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from pathlib import Path

import pytest

from fedtempo.cli import app
from fedtempo.errors import ConfigError
from fedtempo.record import load_run, reading, summarise
from fedtempo.record.export import export
from fedtempo.report.html import write_report
from tests.report.fake_runs import fake_run

ATTACK = """</script></style><img src=x onerror="document.title = 'taken'">"""


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "run"
    fake_run(folder, "hybrid", 1, n_clients=20, horizon=200.0)
    return folder


@pytest.fixture
def folder(finished_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished_run, tmp_path / "run"))


def change(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / "run.sqlite")
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def set_fact(folder: Path, name: str, value: object) -> None:
    connection = sqlite3.connect(folder / "run.sqlite")
    with connection:
        connection.execute("INSERT OR REPLACE INTO facts VALUES(?, ?)", [name, json.dumps(value)])
    connection.close()


def fedtempo(*arguments: object) -> int:
    before, sys.argv = sys.argv, ["fedtempo", *map(str, arguments)]
    path = sys.path.copy()
    try:
        app.main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.argv, sys.path[:] = before, path
    return 0


def test_reports_and_exports_import_nothing_that_a_folder_names(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil_module.py").write_text("open('harmed', 'w').close()\nclass Thing: pass\n")
    (folder / "config.toml").write_text(
        '[strategy]\nname = "evil_module:Thing"\n[data]\nsource = "evil_module:Thing"\n'
        '[model]\nnetwork = "evil_module:Thing"\n[fleet]\nlink = "evil_module:Thing"\n'
    )
    set_fact(folder, "strategy", "evil_module:Thing")
    assert fedtempo("report", folder) == 0
    assert fedtempo("export", folder, "--to", "csv") == 0
    assert "evil_module:Thing" in (folder / "report.html").read_text()
    assert "evil_module" not in sys.modules
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize("name", ["config.toml", "summary.json", "environment.json", "run.sqlite"])
def test_a_link_out_of_the_folder_is_not_followed(folder: Path, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    shutil.move(folder / name, secret)
    for target in (secret, Path("../secret"), tmp_path):
        (folder / name).symlink_to(target)
        with pytest.raises(ConfigError, match=rf"{name} leads out of its folder, to .*; it was not read"):
            load_run(folder)
        (folder / name).unlink()
    (folder / name).symlink_to(name)
    with pytest.raises(ConfigError, match=name):
        load_run(folder)
    (folder / name).unlink()
    shutil.move(secret, folder / "moved")
    (folder / name).symlink_to("moved")
    assert load_run(folder).facts["strategy"] == "hybrid"


def test_a_file_that_is_not_plain_or_is_too_large_is_rejected(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "config.toml").unlink()
    os.mkfifo(folder / "config.toml")
    with pytest.raises(ConfigError, match=r"config.toml is not a plain file"):
        load_run(folder)
    (folder / "config.toml").unlink()
    (folder / "config.toml").write_text("# " + "x" * 1000)
    monkeypatch.setattr(reading, "LARGEST_TEXT_BYTES", 1000)
    with pytest.raises(ConfigError, match=r"config.toml is larger than 1,000 bytes"):
        load_run(folder)


def test_files_written_into_a_folder_stay_in_it(folder: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("mine")
    (folder / "report.html").symlink_to(theirs)
    (folder / "tables").mkdir()
    (folder / "tables" / "visits.csv").symlink_to(theirs)
    assert fedtempo("report", folder) == 0
    assert fedtempo("export", folder, "--to", "csv") == 0
    assert theirs.read_text() == "mine"
    assert (folder / "tables" / "visits.csv").read_text().startswith('"number"')
    shutil.rmtree(folder / "tables")
    (tmp_path / "elsewhere").mkdir()
    (folder / "tables").symlink_to(tmp_path / "elsewhere")
    assert fedtempo("export", folder, "--to", "csv") == 2
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_comparison_with_a_link_among_its_runs_is_rejected(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "comparison").mkdir()
    (tmp_path / "comparison" / "a").symlink_to(folder)
    assert fedtempo("report", tmp_path / "comparison") == 2


def test_a_schema_with_views_or_generated_columns_is_rejected_unread(folder: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS name, i AS value FROM n"
    change(folder, "DROP TABLE notes", f"CREATE VIEW notes AS {endless}")
    with pytest.raises(ConfigError, match="notes is not a plain table"):
        load_run(folder)
    change(folder, "DROP VIEW notes", "CREATE TABLE notes(name TEXT, value TEXT AS (zeroblob(1000000000)))")
    with pytest.raises(ConfigError, match="notes is not a plain table"):
        load_run(folder)
    change(folder, "DROP TABLE notes", "CREATE VIRTUAL TABLE notes USING fts5(name, value)")
    with pytest.raises(ConfigError, match="notes is not a plain table"):
        load_run(folder)
    change(folder, "DROP TABLE notes")
    with pytest.raises(ConfigError, match="notes is not a plain table"):
        load_run(folder)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("n_clients", 10**12, "n_clients = 1000000000000"),
        ("n_clients", 0, "n_clients = 0"),
        ("n_clients", "many", "n_clients = 'many'"),
        ("n_clients", 19, "label_histograms: must hold one list per client"),
        ("strategy", ["x"], r"strategy = \['x'\]"),
        ("horizon_s", -1.0, "horizon_s = -1.0"),
        ("bytes", {"down": "x"}, "bytes.down"),
        ("data", [1], r"data = \[1\]"),
        ("label_histograms", [[1, 2]] * 19 + [[1]], "label_histograms: must hold one list per client"),
        ("label_histograms", [[10**30, 2]] * 20, r"label_histograms.0.0"),
        ("client_names", [{}] * 20, "client_names.0"),
        ("class_names", ["a"], "class_names: 1 names for 10 classes"),
        ("privacy", {"epsilon": "small"}, "privacy.epsilon"),
    ],
)
def test_impossible_facts_are_named(folder: Path, name: str, value: object, complaint: str) -> None:
    set_fact(folder, name, value)
    with pytest.raises(ConfigError, match=f"holds no readable run: .*{complaint}"):
        load_run(folder)


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("UPDATE visits SET client = -5 WHERE number = 3", "visits.client holds -5"),
        ("UPDATE visits SET client = 20 WHERE number = 3", "visits.client holds 20; must be 0 to 19"),
        ("UPDATE visits SET finished = NULL WHERE number = 3", "visits.finished holds nan"),
        ("UPDATE visits SET started = 9e999 WHERE number = 3", "visits.started holds inf"),
        ("UPDATE visits SET outcome = 'taken' WHERE number = 3", "visits.outcome holds 'taken'"),
        ("UPDATE visits SET client = 'x' WHERE number = 3", "invalid literal"),
        ("UPDATE commits SET staleness = -1", "commits.staleness holds -1"),
        ("UPDATE evaluations SET accuracy = 7.0", "evaluations.accuracy holds 7.0"),
        ("UPDATE notes SET value = '[0, -1]'", "note clusters: must hold"),
        ("UPDATE notes SET value = NULL", "NoneType"),
        ("UPDATE facts SET value = x'ff00ff' WHERE name = 'seed'", ""),
        (f"UPDATE facts SET value = '{'[' * 100_000}' WHERE name = 'seed'", "recursion"),
    ],
)
def test_impossible_rows_are_named(folder: Path, statement: str, complaint: str) -> None:
    change(folder, statement)
    with pytest.raises(ConfigError, match=f"holds no readable run: .*{complaint}"):
        load_run(folder)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("config.toml", "x = " + "[" * 100_000, "recursion|Recursion|cannot be read"),
        ("config.toml", "x = " + "9" * 5000, "digits"),
        ("summary.json", "[" * 100_000, "recursion"),
        ("summary.json", "[1, 2]", "it holds list; must be a table"),
        ("environment.json", '"me"', "it holds str; must be a table"),
    ],
)
def test_malformed_files_beside_the_database_are_named(folder: Path, name: str, text: str, complaint: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(ConfigError, match=rf"{name} cannot be read: .*({complaint})"):
        load_run(folder)


def test_a_false_summary_does_not_change_a_report(folder: Path, tmp_path: Path) -> None:
    write_report(tmp_path / "before.html", [load_run(folder)])
    (folder / "summary.json").write_text('{"strategy": 7, "final_accuracy": "<b>"}')
    write_report(tmp_path / "after.html", [load_run(folder)])
    assert (tmp_path / "before.html").read_bytes() == (tmp_path / "after.html").read_bytes()


def test_every_string_of_a_folder_is_escaped_on_the_page(folder: Path, tmp_path: Path) -> None:
    for name in ("strategy", "label", "version"):
        set_fact(folder, name, ATTACK)
    set_fact(folder, "data", {"source": ATTACK})
    set_fact(folder, "class_names", [ATTACK] * 10)
    set_fact(folder, "client_names", [ATTACK] * 20)
    (folder / "config.toml").write_text(f"# {ATTACK}\n")
    (folder / "environment.json").write_text(json.dumps({ATTACK: ATTACK}))
    run = load_run(folder)
    write_report(tmp_path / "report.html", [run])
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<img" not in text
    assert "&lt;img" in text
    assert summarise(run)["strategy"] == ATTACK
    export(run, "csv", tmp_path / "tables")
