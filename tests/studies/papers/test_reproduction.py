"""What reproducing says: verdicts, settings at every scale, and the entries that take no training."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from fedtempo.errors import ConfigError
from fedtempo.parts.construct import construct
from fedtempo.record.folder import environment
from fedtempo.runs.config import load
from fedtempo.studies.papers import verdicts
from fedtempo.studies.papers.contest_results import ContestBudget
from fedtempo.studies.papers.freshness import is_stale
from fedtempo.studies.papers.index import index_page, write_index
from fedtempo.studies.papers.output import command, in_place_of, run_exhibit
from fedtempo.studies.papers.panels import save_comparison, slug
from fedtempo.studies.papers.registry import EXHIBITS
from fedtempo.studies.papers.reproduction import SCALES, SETTINGS, Request
from fedtempo.studies.papers.verdicts import Row, overall_verdict
from fedtempo.studies.tuning.study import Study
from fedtempo.studies.tuning.trials import Trial

PAPERS = sorted(path.stem for path in SETTINGS.glob("*.toml"))
RESULTS = Path(__file__).parents[3] / "docs" / "results"
PRINTED = {
    "fedhusky": ["fig4", "fig5", "fig6", "fig7", "fig8"],
    "psfl": [*(f"fig{number}" for number in (1, 3, 4, 5, 6, 7, 8, 9)), "table1"],
    "fch": [*(f"fig{number}" for number in (1, 3, 4, 5, 6)), "table1", "table2"],
    "csgd": ["example1", "fig4", "table2", "table3", "table4", "table5"],
    "hybrid-fl": ["fig3", "fig4", "fig5", "table1"],
}


def test_the_31_figures_and_tables_of_the_five_papers_are_there() -> None:
    names = [f"{paper}/{what}" for paper, all_of in PRINTED.items() for what in all_of]
    assert len(names) == 31
    assert [name for name, experiment in EXHIBITS.items() if experiment.printed] == names


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("scale", SCALES)
def test_settings_can_be_left_as_a_configuration_that_runs_by_itself(paper: str, scale: str, tmp_path: Path) -> None:
    request = Request(scale, tmp_path)  # type: ignore[arg-type]
    config = request.save_config(request.settings(paper, ["run.horizon=5"]), "left")
    assert load(tmp_path / "left.toml").tables == config.tables
    assert config.run.horizon == 5
    for label in config.variants:
        assert config.for_comparison(label).label == label
    budget = construct(ContestBudget, request.table(paper, "study")[scale], "study")
    assert not set(budget.seeds) & set(budget.tuning_seeds)


def test_what_is_left_of_a_study_has_its_competitors_and_what_the_tuning_chose(tmp_path: Path) -> None:
    request = Request("small", tmp_path)
    trials = [Trial("fch", {"training.lr": lr}, (None,), (0.5,)) for lr in (0.7, 0.1)]
    save_comparison(request, "fig", request.settings("fch"), Study({"fch": trials}, {"fch": [], "fedavg": []}))
    left = load(tmp_path / "fig.toml")
    assert set(left.variants) == {"fch", "fedavg"}
    assert left.for_comparison("fch").training.lr == 0.7
    assert left.for_comparison("fch").training.loss == "logit-adjusted"
    assert left.for_comparison("fedavg").training.lr == request.settings("fch").training.lr


def test_a_panels_name_makes_a_files_name() -> None:
    assert slug("Dir(0.2)") == "dir-0.2"
    assert slug("9 clients a round") == "9-clients-a-round"


def test_other_data_take_the_place_of_the_papers_only_where_the_title_says_so(tmp_path: Path) -> None:
    assert Request("medium", tmp_path).settings("psfl").data.source == "cifar10"
    assert Request("medium", tmp_path, "fashion-mnist").settings("psfl").data.source == "fashion-mnist"
    full_title = EXHIBITS["psfl/fig1"].full_title
    assert full_title("medium", ["fashion-mnist"]).endswith(
        "(medium scale, on Fashion-MNIST in place of the paper's CIFAR-10)"
    )
    assert full_title("full", ["cifar10"]).endswith("(full scale, on CIFAR-10)")
    assert EXHIBITS["psfl/fig6"].full_title("small", ["digits"]).endswith("(small scale)")  # of times, not of data
    small = {paper: Request("small", tmp_path).settings(paper).data.source for paper in PAPERS}
    assert set(small.values()) <= {"digits", "shakespeare", "fashion-mnist"}  # nothing that needs a network
    assert [paper for paper, source in small.items() if source == "fashion-mnist"] == ["fch-direction"]


@pytest.mark.parametrize("name", ["csgd/example1", "fedhusky/fig4"])
def test_entries_without_training_leave_pictures_numbers_and_how_they_were_made(name: str, tmp_path: Path) -> None:
    _, rows = run_exhibit(EXHIBITS[name], Request("small", tmp_path))
    result = json.loads((tmp_path / "result.json").read_text())
    assert len(result["rows"]) == len(rows) > 0
    assert result["verdict"] == "reached"
    assert result["command"] == f"fedtempo reproduce {name} --scale small"
    assert result["environment"]["packages"]["torch"]
    assert result["cpu_s"] > 0
    if name == "fedhusky/fig4":
        assert result["setting"] == {"data.source": ["digits"], "data.clients": [50], "model.network": ["mlp"]}
    assert {path.suffix for path in tmp_path.glob("fig*")} >= {".png", ".svg", ".json"}
    assert result["command"] in (tmp_path / "result.md").read_text()


def test_the_command_names_the_data_that_were_asked_for() -> None:
    request = Request("medium", Path(), "fashion-mnist")
    assert command(EXHIBITS["fch/fig3"], request) == "fedtempo reproduce fch/fig3 --scale medium --data fashion-mnist"


def test_a_new_result_takes_the_place_of_the_old_one_only_when_it_is_whole(tmp_path: Path) -> None:
    example, other = EXHIBITS["csgd/example1"], EXHIBITS["csgd/fig4"]
    folder = tmp_path / "csgd" / "example1"
    with in_place_of(folder, example) as place:
        run_exhibit(example, Request("small", place))
        (place / "old").touch()
        assert not folder.exists()
    assert (folder / "old").exists()
    with contextlib.suppress(RuntimeError), in_place_of(folder, example) as place:
        (place / "half").touch()
        raise RuntimeError
    assert (folder / "old").exists()
    assert [path.name for path in folder.parent.iterdir()] == ["example1"]  # nothing half done is left
    with in_place_of(folder, example) as place:
        run_exhibit(example, Request("medium", place))
    assert not (folder / "old").exists()
    with pytest.raises(ConfigError, match="something else"), in_place_of(folder, other):
        pass


def test_the_index_says_of_every_entry_what_was_found_or_that_it_was_not_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no result"):
        write_index(tmp_path)
    with in_place_of(tmp_path / "csgd" / "example1", EXHIBITS["csgd/example1"]) as place:
        run_exhibit(EXHIBITS["csgd/example1"], Request("small", place))
    lines = write_index(tmp_path).read_text().splitlines()
    rows = {line.split(" | ")[0].strip("| "): line for line in lines if line.startswith("| ")}
    assert rows["[csgd/example1](csgd/example1/result.md)"].endswith("| 5 / 0 / 0 / 0 | reached |")
    assert rows["psfl/fig3"].endswith("| not run |")
    assert len(rows) - 2 == len(EXHIBITS)  # two heads, whose names are the same
    (tmp_path / "csgd" / "example1").rename(tmp_path / "moved")
    with in_place_of(tmp_path / "csgd" / "example1", EXHIBITS["csgd/example1"]) as place:
        run_exhibit(EXHIBITS["csgd/example1"], Request("small", place))
    with pytest.raises(ConfigError, match="too"):
        write_index(tmp_path)


def committed() -> list[Path]:
    return sorted(RESULTS.rglob("result.json"))


def _without_staleness(page: str) -> str:
    """An index without what it says of staleness, which changes with the code and not with the results."""
    return re.sub(r"\nStale: \d+\.", "", page.replace(" (stale)", ""))


def test_the_committed_index_says_what_the_committed_results_do() -> None:
    page = (RESULTS / "index.md").read_text(encoding="utf-8")
    assert _without_staleness(page) == _without_staleness(index_page(RESULTS))
    assert "| not run" not in page.partition("## Beside the papers")[0]


def _verdict(rows: list[dict[str, Any]]) -> str | None:
    """The verdict on committed rows, of which those of earlier versions name no headline."""
    if all("headline" in row for row in rows):
        return verdicts.overall_verdict([verdicts.Row(**row) for row in rows])
    return overall_verdict([Row(**row) for row in rows])


def test_every_committed_result_is_whole() -> None:
    found = {json.loads(path.read_text(encoding="utf-8"))["experiment"]: path.parent for path in committed()}
    for name in (name for name in found if EXHIBITS[name].printed):
        result = json.loads((found[name] / "result.json").read_text(encoding="utf-8"))
        assert result["command"].startswith(f"fedtempo reproduce {name} --scale {result['scale']}")
        if not is_stale(result):
            assert result["verdict"] == _verdict(result["rows"])
        pictures = {path.stem for path in found[name].glob("*.png")}
        assert pictures
        assert pictures == {path.stem for path in found[name].glob("*.svg")}
        for picture in pictures:
            assert (found[name] / f"{picture}.png").stat().st_size < 150_000
            assert (found[name] / f"{picture}.svg").stat().st_size < 500_000


def _timeless(value: Any) -> Any:
    """Numbers without how long the machine took for them."""
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key != "wall_s"}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def _kernels(environment: dict[str, Any]) -> tuple[Any, ...]:
    """What the rounding of training depends on."""
    return environment["packages"]["torch"], environment["packages"]["numpy"], environment.get("processor")


# The slow one trains, so its numbers depend on rounding; the others are of schedules and of how data are dealt.
@pytest.mark.parametrize(
    "name",
    [
        "csgd/example1",
        pytest.param("fedhusky/fig4", marks=pytest.mark.fashion_mnist),
        pytest.param("fch/fig4", marks=[pytest.mark.slow, pytest.mark.fashion_mnist]),
    ],
)
def test_a_committed_result_is_what_its_command_makes(name: str, tmp_path: Path) -> None:
    folder = RESULTS / name
    before = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    made_on, here = _kernels(before["environment"]), _kernels(environment(None))
    if name == "fch/fig4" and made_on != here:
        pytest.skip(f"trained with other kernels (PyTorch, NumPy, processor): {made_on}, here {here}")
    data = before["command"].partition("--data ")[2] or None
    run_exhibit(EXHIBITS[name], Request(before["scale"], tmp_path, data))
    after = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    varying = ("environment", "cpu_s", "decided_by", "data")
    assert {key: value for key, value in after.items() if key not in varying} == {
        key: value for key, value in before.items() if key not in varying
    }
    for path in tmp_path.glob("*.json"):
        if path.name != "result.json":
            assert _timeless(json.loads(path.read_text())) == _timeless(json.loads((folder / path.name).read_text()))
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in folder.iterdir()}
