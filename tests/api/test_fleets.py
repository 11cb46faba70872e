"""Fleets from recorded devices and fitted distributions, from Python."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo import ConfigError, Experiment, fit_distribution, import_fleet
from tests.fleet.test_devices import CAPACITIES, PRESENCES, put


@pytest.fixture
def phones(tmp_path: Path) -> Path:
    return put(tmp_path / "phones.csv", "id,ms,kbps\n0,40,100\n1,20,200\n2,10,400\n")


def test_an_imported_fleet_is_usable_as_a_preset(tmp_path: Path, phones: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    columns = {"compute": "ms", "compute_unit": "ms/example", "rate": "kbps", "rate_unit": "kbit/s"}
    fleet = import_fleet(phones, "fleet.toml", columns, compute_factor=2.0)
    assert (fleet.path, fleet.trace, fleet.devices, fleet.recorded) == (Path("fleet.toml"), None, 3, 3)
    written = tomllib.loads(fleet.path.read_text(encoding="utf-8"))
    assert written["fleet"]["compute"] == {"unit": "s/example", "speed": [0.08, 0.04, 0.02]}
    experiment = Experiment(strategy="fedavg", fleet="fleet.toml", data={"clients": 3}, run={"horizon": 9.0})
    assert experiment.config.fleet.compute.speed.values == (0.08, 0.04, 0.02)
    drawn = import_fleet([phones], "drawn.toml", columns, clients=2, seed=3)
    assert (drawn.devices, drawn.recorded) == (2, 3)
    for arguments, said in (
        ({"out": "fleet.toml"}, r"fleet.toml already exists; choose another file \(nothing was overwritten\)"),
        ({"seed": -1}, "seed = -1: must be 0 or more"),
        ({"colour": "red"}, r"columns\.colour: unknown key"),
        ({"columns": "nowhere.toml"}, "nowhere.toml cannot be read: No such file"),
        ({"clients": 4}, "only 3 devices"),
        ({"files": []}, "files: give at least one"),
        ({"files": [phones, phones, phones]}, "files: 3 given; give one of capacities"),
    ):
        given: dict[str, Any] = {"files": phones, "out": "new.toml", "columns": columns} | arguments
        with pytest.raises(ConfigError, match=said):
            import_fleet(**given)
    assert not Path("new.toml").exists()


def test_availability_is_written_beside_the_fleet(tmp_path: Path) -> None:
    files = [put(tmp_path / "capacity.json", CAPACITIES), put(tmp_path / "behave.json", PRESENCES)]
    fleet = import_fleet(files, tmp_path / "phones.toml")
    assert fleet.trace == tmp_path / "phones-availability.csv"
    assert fleet.trace.exists()
    fleet.path.unlink()
    with pytest.raises(ConfigError, match=r"phones-availability\.csv already exists"):
        import_fleet(files, tmp_path / "phones.toml")


def test_a_fit_gives_a_table_for_a_configuration(tmp_path: Path) -> None:
    times = np.random.default_rng(1).exponential(5.0, 300)
    fitted = fit_distribution(times)
    assert fitted.best is fitted.fits[0]
    assert [fit.aic for fit in fitted.fits] == sorted(fit.aic for fit in fitted.fits)
    assert fitted.table() == {"kind": "exponential", "mean": pytest.approx(times.mean(), rel=1e-5)}
    rows = "\n".join(f"{number},{seconds:.6f}" for number, seconds in enumerate(times))
    path = put(tmp_path / "times.csv", f"device,seconds\n{rows}\n")
    assert fit_distribution(path, "seconds", "device").table() == fit_distribution(path, "seconds").table()
    modes = np.concatenate([times, times + 500.0])
    assert not fit_distribution(modes).best.good
    assert fit_distribution(modes).table()["kind"] == "discrete"
    for arguments, said in (
        ((path,), f"column: name the column of {path}"),
        ((times, "seconds"), "column, client: these are for a file"),
        (([1.0, 2.0],), "2 values: at least 5"),
    ):
        with pytest.raises(ConfigError, match=said):
            fit_distribution(*arguments)
