"""Pages and tables over the folders of several runs, from Python."""

from __future__ import annotations

import threading
import urllib.request
from pathlib import Path

import pytest

from fedtempo import ConfigError, Experiment, compare_with_deployment, report_runs, watch
from fedtempo.api.deployment import _compare_loads
from fedtempo.runs.config import parse
from tests.api.test_experiment import PARTS
from tests.record.test_prediction import written


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two runs in it."""
    folder = tmp_path_factory.mktemp("runs")
    experiment = Experiment(**PARTS).with_(executor="none")
    for seed in (1, 2):
        experiment.with_(run={"seed": seed}).run(folder / f"seed{seed}")
    return folder


def test_a_page_about_several_runs_is_written(folder: Path, tmp_path: Path) -> None:
    assert report_runs(folder, tmp_path / "both.html") == tmp_path / "both.html"
    both = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert "fedavg, seed 1" in both
    assert "fedavg, seed 2" in both
    (folder / "seed2/report.html").unlink()
    assert report_runs([folder / "seed2"]) == folder / "seed2/report.html"
    (tmp_path / "links").mkdir()
    (tmp_path / "links/run").symlink_to(folder / "seed1")
    with pytest.raises(ConfigError, match="name the runs' folders themselves"):
        report_runs(tmp_path / "links")
    for call in (report_runs, watch):
        with pytest.raises(ConfigError, match="folders: give at least one"):
            call([])
    with pytest.raises(ConfigError, match="is not a run folder"):
        report_runs(tmp_path / "nowhere")


def test_runs_that_do_different_work_in_the_same_time_have_no_common_page(folder: Path, tmp_path: Path) -> None:
    visit = {"fleet.compute": {"unit": "s/visit", "speed": 1.0}}
    experiment = Experiment(**PARTS).with_(visit, executor="none")
    experiment.run(tmp_path / "one")
    experiment.with_({"training.epochs": 7}).run(tmp_path / "other")
    with pytest.raises(ConfigError, match="visits take the same time"):
        report_runs(tmp_path)


def test_a_simulation_is_compared_with_its_deployment(tmp_path: Path) -> None:
    measures = compare_with_deployment(written(tmp_path / "a", 2.0, 1), written(tmp_path / "b", 2.5, 1))
    visit = next(measure for measure in measures if measure.name == "time of a visit, mean, s")
    assert (visit.predicted, visit.real, visit.error) == (2.0, 2.5, pytest.approx(0.25))


def test_a_page_is_served_at_the_printed_address(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import uvicorn

    said: list[str] = []

    def serve(server: uvicorn.Server, sockets: object) -> None:
        monkeypatch.undo()
        thread = threading.Thread(target=server.run, kwargs={"sockets": sockets}, daemon=True)
        thread.start()
        try:
            with urllib.request.urlopen(said[0], timeout=60) as page:  # noqa: S310
                said.append(page.read().decode())
        finally:
            server.should_exit = True
            thread.join(60)

    monkeypatch.setattr(uvicorn.Server, "run", serve)
    watch(folder, browser=False, say=said.append)
    assert said[0].startswith("http://127.0.0.1:")
    assert "fedtempo watch" in said[1]
    with pytest.raises(ConfigError, match="nowhere: no such folder"):
        watch([folder / "nowhere"], browser=False)


def test_a_deployment_under_another_load_than_the_measurement_of_its_fleet_says_so(tmp_path: Path) -> None:
    loads = {"server": [0.5, 2], "clients": [[8.0, 2]]}
    run = written(tmp_path / "run", 2.0, 1, client_names=["ward-1"], loads=loads)
    fleet = tmp_path / "fleet.toml"
    link = 'link = {kind = "fixed", download_s = [0.1], upload_s = [0.1]}'
    fleet.write_text(
        f'[fleet]\ncompute = {{unit = "s/visit", speed = [1.0]}}\n{link}\nestimates = "exact"\n'
        "[measured]\nserver = [0.5, 2]\nclients = {ward-1 = [0.5, 2]}\n"
    )
    said: list[str] = []
    tables = {"data": {"source": "digits", "clients": 1}, "strategy": {"name": "fedavg"}, "run": {"horizon": 9.0}}
    _compare_loads(parse({**tables, "fleet": {"preset": str(fleet)}}), run, said.append)
    assert len(said) == 1
    assert said[0].startswith("the machines' load was not that of the measurement, so visits may take other times")
    assert said[0].endswith(
        "client ward-1: load 0.5 on 2 processors when measured, 8.0 on 2 processors in the deployment"
    )
    _compare_loads(parse({**tables, "fleet": {"preset": "fedhusky"}}), run, said.append)
    assert len(said) == 1
