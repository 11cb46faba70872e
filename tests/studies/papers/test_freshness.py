"""Whether results are up to date: hashes of what decides them, and running again what is stale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedtempo.errors import ConfigError
from fedtempo.runs.config import parse
from fedtempo.studies.papers import freshness, index, registry, reproduction
from fedtempo.studies.papers.freshness import decided_by, is_stale
from fedtempo.studies.papers.reproduce import check_all, data_of, reproduce, reproduce_all
from fedtempo.studies.papers.used_code import used_code, without_comments
from fedtempo.studies.tuning.trials import FinishedRun, ledger, run_all

ALL_EXHIBITS = dict(registry.EXHIBITS)

SOURCE = '''"""A module."""

LIMIT = 3  # of what
"""What it limits."""


def half(x):
    """Return a half."""
    return "# no comment", x / 2
'''


def test_comments_and_docstrings_decide_nothing() -> None:
    lines = [line for line in without_comments(SOURCE) if line]
    assert lines == ["LIMIT = 3", "def half(x):", '    return "# no comment", x / 2']


def test_a_result_is_stale_once_code_or_settings_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduction, "SETTINGS", tmp_path)
    (tmp_path / "a.toml").write_text("[run]\nhorizon = 3.0\n")
    result = {"decided_by": decided_by("fedtempo.studies.papers.csgd", ["a"], ["fedtempo.strategies.csgd"])}
    assert not is_stale(json.loads(json.dumps(result)))
    (tmp_path / "a.toml").write_text("# another comment\n[run]\nhorizon = 3.0\n")
    assert not is_stale(result)
    (tmp_path / "a.toml").write_text("[run]\nhorizon = 4.0\n")
    assert is_stale(result)
    (tmp_path / "a.toml").unlink()
    assert is_stale(result)
    assert is_stale({"verdict": "reached"})  # from a version without hashes


def test_code_that_an_entry_uses_decides_it_and_other_entries_do_not() -> None:
    code = {path.stem: text for path, text in used_code("fedtempo.studies.papers.league", ("fedtempo.studies",))}
    assert {"league", "contest", "race", "cache", "cells", "ranking", "standings", "trials"} <= code.keys()
    assert not {"beyond", "csgd", "index", "freshness"} & code.keys()
    assert "def shown_differences" not in code["ranking"]  # contests of changes to one strategy use it
    assert "class Cache" in code["cache"]
    of_fch = {path.stem: text for path, text in used_code("fedtempo.studies.papers.fch", ("fedtempo.studies",))}
    assert "def late_accuracy" in of_fch["cache"]
    assert "class Cache" not in of_fch["cache"]


def test_a_strategy_that_no_run_of_a_result_uses_does_not_decide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    result = {"decided_by": decided_by("fedtempo.studies.papers.csgd", [], ["fedtempo.strategies.fedavg"])}
    code = freshness._code
    for edited, is_used in (
        *(("psfl.py", False), ("ace.py", False), ("fedavg.py", True), ("rounds.py", True)),
        *(("pipeline.py", True), ("simulation.py", True)),  # pipeline: the study imports it
    ):
        monkeypatch.setattr(freshness, "_code", lambda path, name=edited: code(path) + "x" * (path.name == name))
        assert is_stale(result) == is_used


def only_two_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave two entries without training in the registry."""
    two = {name: registry.EXHIBITS[name] for name in ("csgd/example1", "csgd/fig4")}
    for module in (registry, index):
        monkeypatch.setattr(module, "EXHIBITS", two)


def test_what_is_up_to_date_is_skipped_and_the_rest_runs_at_its_own_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_two_entries(monkeypatch)
    reproduce("csgd/example1", scale="small", results=tmp_path)
    (made,) = reproduce_all(tmp_path, scale="small")
    assert made.name == "csgd/fig4"
    assert list(reproduce_all(tmp_path)) == []
    path = tmp_path / "csgd" / "example1" / "result.json"
    result = json.loads(path.read_text())
    assert result["environment"]["load"] >= 0
    path.write_text(json.dumps({**result, "decided_by": None}))
    page = (tmp_path / "index.md").read_text()
    assert "(stale)" not in page
    (again,) = reproduce_all(tmp_path, scale="full")
    assert again.name == "csgd/example1"
    assert json.loads(path.read_text())["scale"] == "small"
    assert "Stale: 0." in (tmp_path / "index.md").read_text()


def test_what_cannot_run_is_named_after_the_rest_has_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_two_entries(monkeypatch)
    reproduce("csgd/example1", scale="small", results=tmp_path)
    path = tmp_path / "csgd" / "example1" / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "scale": "huge", "decided_by": None}))
    with pytest.raises(ConfigError, match="csgd/example1: scale huge"):
        list(reproduce_all(tmp_path, scale="small"))
    assert (tmp_path / "csgd" / "fig4" / "result.json").exists()


def test_a_result_that_replaces_another_has_its_scale_and_data_unless_told_otherwise(tmp_path: Path) -> None:
    def made() -> tuple[str, str | None]:
        result = json.loads((tmp_path / "csgd" / "fig4" / "result.json").read_text())
        return result["scale"], result["data"]

    reproduce("csgd/fig4", scale="medium", data="shakespeare", results=tmp_path)
    reproduce("csgd/fig4", results=tmp_path)
    assert made() == ("medium", "shakespeare")
    reproduce("csgd/fig4", scale="small", data="shakespeare", results=tmp_path)
    assert made() == ("small", "shakespeare")
    reproduce("csgd/example1", results=tmp_path)
    assert json.loads((tmp_path / "csgd" / "example1" / "result.json").read_text())["scale"] == "small"


def test_the_data_of_older_results_are_in_their_command() -> None:
    assert data_of({"command": "fedtempo reproduce fch/fig3 --scale medium --data fashion-mnist"}) == "fashion-mnist"
    assert data_of({"command": "fedtempo reproduce fch/fig3 --scale medium"}) is None
    assert data_of({"data": "mnist", "command": ""}) == "mnist"


@pytest.mark.long
def test_a_result_counts_as_up_to_date_again_once_a_sample_of_its_runs_has_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_two_entries(monkeypatch)
    for module in (registry, index):
        monkeypatch.setitem(module.EXHIBITS, "fedhusky/fig8", ALL_EXHIBITS["fedhusky/fig8"])
    reproduce("fedhusky/fig8", scale="small", results=tmp_path)
    folder = tmp_path / "fedhusky" / "fig8"
    result = json.loads((folder / "result.json").read_text())
    witnesses = json.loads((folder / "witnesses.json").read_text())
    assert len({witness["label"] for witness in witnesses}) == len(witnesses) >= 1

    assert list(check_all(tmp_path)) == []  # nothing is stale
    of_other_code = {**result, "decided_by": {**result["decided_by"], "code": "0" * 64}}
    (folder / "result.json").write_text(json.dumps(of_other_code))
    (check,) = check_all(tmp_path)
    assert (check.runs, check.changed) == (len(witnesses), [])
    assert json.loads((folder / "result.json").read_text())["decided_by"] == result["decided_by"]
    checked = json.loads((folder / "result.json").read_text())
    assert not is_stale(checked)
    assert checked["checked"]["runs"] == len(witnesses)
    assert f"Up to date by a sample: 1 ({len(witnesses)} runs)." in (tmp_path / "index.md").read_text()

    (folder / "result.json").write_text(json.dumps(of_other_code))
    witnesses[0]["bits"] = dict.fromkeys(witnesses[0]["bits"], "0" * 64)
    (folder / "witnesses.json").write_text(json.dumps(witnesses))
    (check,) = check_all(tmp_path)
    assert check.changed == [witnesses[0]["label"]]
    assert is_stale(json.loads((folder / "result.json").read_text()))

    witnesses[0]["configuration"] = "[run]\nhorizon = 10.0"
    (folder / "witnesses.json").write_text(json.dumps(witnesses))
    (check,) = check_all(tmp_path)
    assert check.changed[0].startswith(f"{witnesses[0]['label']}: [fleet] is missing")

    of_another_study = {**result, "decided_by": {**result["decided_by"], "studies": "0" * 64}}
    (folder / "result.json").write_text(json.dumps(of_another_study))
    assert list(check_all(tmp_path)) == []  # other rules choose its runs today: only a new result helps


@pytest.mark.long
def test_a_processor_adds_its_bits_while_a_result_is_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_two_entries(monkeypatch)
    for module in (registry, index):
        monkeypatch.setitem(module.EXHIBITS, "fedhusky/fig8", ALL_EXHIBITS["fedhusky/fig8"])
    reproduce("fedhusky/fig8", scale="small", results=tmp_path)
    folder = tmp_path / "fedhusky" / "fig8"
    result, made = (json.loads((folder / name).read_text()) for name in ("result.json", "witnesses.json"))
    foreign = [{**witness, "bits": {"another processor": "0" * 64}} for witness in made]
    (folder / "witnesses.json").write_text(json.dumps(foreign))

    of_other_code = {**result, "decided_by": {**result["decided_by"], "code": "0" * 64}}
    (folder / "result.json").write_text(json.dumps(of_other_code))
    (check,) = check_all(tmp_path)  # nothing to compare with
    assert (len(check.changed), check.new) == (check.runs, False)

    (folder / "result.json").write_text(json.dumps(result))
    (check,) = check_all(tmp_path)
    assert (check.changed, check.new) == ([], True)
    assert list(check_all(tmp_path)) == []
    kept = json.loads((folder / "witnesses.json").read_text())
    assert [each["bits"] for each in kept] == [
        {**before["bits"], **after["bits"]} for before, after in zip(foreign, made, strict=True)
    ]

    (folder / "result.json").write_text(json.dumps(of_other_code))
    (check,) = check_all(tmp_path)
    assert (check.changed, check.new) == ([], False)
    assert not is_stale(json.loads((folder / "result.json").read_text()))


def test_a_run_that_two_entries_share_runs_once() -> None:
    config = parse(
        {
            "run": {"horizon": 20.0},
            "data": {"source": "digits", "clients": 4},
            "fleet": {"preset": "fedhusky"},
            "strategy": {"name": "fedavg", "clients_per_round": 2},
            "executor": {"kind": "none"},
        }
    )
    finished: dict[str, FinishedRun] = {}
    with ledger(finished) as first:
        (one,) = run_all([config], workers=1)
    with ledger(finished) as second:
        again, other = run_all([config, config.with_changes({"run.seed": 2})], workers=1)
    assert again is one
    assert other is not one
    assert [noted.bits for noted in first.noted] == [second.noted[0].bits]
    assert second.noted[0].bits != second.noted[1].bits
    assert second.reused_s == one.cpu_s > 0
    assert first.reused_s == 0
