"""Configurations are read, completed, written back, or rejected with one clear line."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fedtempo.errors import ConfigError
from fedtempo.federation import Federation
from fedtempo.fleet.distributions import Uniform
from fedtempo.fleet.links import PathLoss
from fedtempo.runs.config import Config, assignment, flat, load, parse
from fedtempo.strategies import FedAvg, FedHusky

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*.toml"))

MINIMAL: dict[str, Any] = {
    "run": {"horizon": 10.0},
    "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
    "strategy": {"name": "fedavg"},
}


def changed(**changes: Any) -> dict[str, Any]:
    """Return the minimal tables with dotted keys (written with __) replaced."""
    tables = {name: dict(table) for name, table in MINIMAL.items()}
    for key, value in changes.items():
        section, _, name = key.partition("__")
        tables.setdefault(section, {})[name] = value
    return tables


def test_a_minimal_configuration_is_completed_with_defaults() -> None:
    config = parse(MINIMAL)
    assert config.strategy == FedAvg()
    assert (config.run.seed, config.data.source, config.n_clients, config.partition) == (1, "digits", 50, None)
    assert config.tables["training"]["lr"] == 0.01
    assert config.tables["strategy"] == {"name": "fedavg"}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_shipped_configuration_is_read_and_written_back_unchanged(path: Path, tmp_path: Path) -> None:
    config = load(path)
    again = tmp_path / "again.toml"
    again.write_text(config.dump())
    second = load(again)
    assert second.tables == config.tables
    assert second.strategy == config.strategy
    assert second.fleet == config.fleet
    for label in config.variants:
        assert config.for_comparison(label).label == label


def test_nested_parts_are_built_and_written_with_their_kind() -> None:
    config = load(ROOT / "configs/fedhusky.toml")
    assert config.fleet.compute.speed == Uniform(1.0, 10.0)
    assert isinstance(config.fleet.link, PathLoss)
    fleet = tomllib.loads(config.dump())["fleet"]
    assert fleet["link"]["kind"] == "path-loss"
    assert fleet["link"]["carrier_hz"] == 2.4e9
    assert fleet["compute"]["speed"] == {"kind": "uniform", "low": 1.0, "high": 10.0}


def test_assigned_values_are_toml_or_else_text() -> None:
    assert assignment("strategy.zeta=0.5") == ("strategy.zeta", 0.5)
    assert assignment("strategy.name=fedavg") == ("strategy.name", "fedavg")
    assert assignment('data.partition={ kind = "iid" }') == ("data.partition", {"kind": "iid"})
    with pytest.raises(ConfigError, match=r"section.key=value"):
        assignment("horizon")


def test_changing_the_strategy_discards_the_settings_of_the_previous_one(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text((ROOT / "configs/fedhusky.toml").read_text())
    assert load(path, ["strategy.name=fedavg"]).strategy == FedAvg()
    assert load(path, ["strategy.pace=0.9"]).strategy == FedHusky(clusters="labels", pace=0.9)


def test_compared_strategies_have_separate_settings() -> None:
    tables = changed(
        compare={},
        training__lr=0.1,
    )
    tables["compare"] = {
        "slow": {"strategy": {"name": "fedavg"}, "training": {"lr": 0.001}},
        "sequential": {"training.epochs": 2},
    }
    config = parse(tables)
    slow, sequential, plain = (config.for_comparison(label) for label in ("slow", "sequential", "fedavg"))
    assert (slow.strategy_name, slow.label, slow.training.lr) == ("fedavg", "slow", 0.001)
    assert (sequential.strategy_name, sequential.training.epochs, sequential.training.lr) == ("sequential", 2, 0.1)
    assert plain.training.lr == 0.1


@dataclasses.dataclass(frozen=True)
class Mine:
    """A user's strategy, a plain dataclass."""

    share: float = 0.5

    async def run(self, fed: Federation) -> None:
        await fed.sleep_until(1.0)


class NoDataclass:
    """A class that no configuration can be read into."""


@dataclasses.dataclass(frozen=True)
class NoStrategy:
    """A dataclass with fields but without `run`."""


def test_a_users_strategy_is_named_by_its_module() -> None:
    config = parse({**MINIMAL, "strategy": {"name": "tests.runs.test_config:Mine", "share": 0.25}})
    assert isinstance(config.strategy, Mine)
    assert config.strategy.share == 0.25
    with pytest.raises(ConfigError, match=r"strategy.share = 'much': input should be a valid number"):
        parse({**MINIMAL, "strategy": {"name": "tests.runs.test_config:Mine", "share": "much"}})


REFUSED: list[tuple[dict[str, Any], str]] = [
    (changed(run__horizont=5.0), r"run.horizont: unknown key; did you mean 'horizon'\?"),
    (changed(runs__seed=5), r"\[runs\]: unknown section; did you mean 'run'\?"),
    ({**MINIMAL, "run": 5}, r"run = 5: this is a section; write \[run\]"),
    (changed(run__horizon="10 s"), r"run.horizon = '10 s': input should be a valid number"),
    (changed(run__horizon=0.0), r"run.horizon = 0.0: input should be greater than 0"),
    (changed(run__horizon=-5.0), r"run.horizon = -5.0: input should be greater than 0"),
    (changed(run__horizon=float("inf")), r"run.horizon = inf: input should be a finite number"),
    ({**MINIMAL, "run": {}}, r"run: horizon is missing: give seconds, or max_commits, or target_accuracy"),
    (changed(run__stop_at_target=True), r"run: stop_at_target needs target_accuracy"),
    (changed(run__target_accuracy=80), r"run.target_accuracy = 80: input should be less than or equal to 1"),
    (changed(run__seed=-1), r"run.seed = -1: input should be greater than or equal to 0"),
    (changed(strategy__name="fedhuski"), r"no such strategy; did you mean 'fedhusky'\?"),
    (changed(strategy__name=3), r"strategy.name = 3: must be the name of a strategy"),
    (changed(strategy__name="no_module:X"), r"strategy.name = 'no_module:X': cannot import 'no_module'"),
    (changed(strategy__name="tests.runs.test_config:Nope"), r"module 'tests.runs.test_config' has no 'Nope'"),
    (changed(strategy__name="tests.runs.test_config:changed"), r"must be a class, not a function"),
    (changed(strategy__name="tests.runs.test_config:NoDataclass"), r"NoDataclass must be a dataclass"),
    (changed(strategy__name="tests.runs.test_config:NoStrategy"), r"the class has no coroutine `run\(self, fed\)`"),
    ({name: MINIMAL[name] for name in ("run", "fleet")}, r"\[strategy\] is missing"),
    ({name: MINIMAL[name] for name in ("run", "strategy")}, r"\[fleet\] is missing"),
    (changed(fleet__link={"kind": "fixed", "download_s": -1.0, "upload_s": 0.0}), r"fleet.link.*-1.0.*or equal to 0"),
    (changed(fleet__link={"kind": "fixed", "download_s": 1.0}), r"fleet.link: link 'fixed': upload_s: Field required"),
    (changed(fleet__compute={"unit": "s/visit", "speed": float("inf")}), r"fleet.compute.*finite number"),
    (changed(fleet__compute={"unit": "minutes", "speed": 1.0}), r"fleet.compute.*unit = 'minutes'.*'s/visit'"),
    (changed(fleet__estimates="exactly"), r"fleet.estimates.*did you mean 'exact'"),
    (changed(data__partition={"kind": "dirichlet", "alpha": -0.5}), r"data.partition.alpha = -0.5: .*or equal to 0"),
    (changed(data__partition={"kind": "dirichlet"}), r"data.partition.alpha: field required"),
    (changed(data__clients=0), r"data.clients = 0: input should be greater than or equal to 1"),
    (changed(data__clients=2.5), r"data.clients = 2.5: input should be a valid integer"),
    (changed(run__keep="last"), r"run.keep = 'last': input should be a list"),
    (changed(model__network="lenett"), r"model.network = 'lenett': no such network; did you mean 'lenet'\?"),
    (changed(model__size_bytes=-1), r"model.size_bytes = -1: give a whole number of bytes, 0 or more"),
    (changed(training__lr=0.0), r"training.lr = 0.0: input should be greater than 0"),
    (changed(executor__kind="gpu"), r"executor.kind = 'gpu': input should be 'processes', 'inline', 'ray' or 'none'"),
]


@pytest.mark.parametrize(("tables", "message"), REFUSED, ids=[message[:50] for _, message in REFUSED])
def test_unusable_configurations_are_rejected_in_one_line(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse(tables)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_toml_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "missing.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[run\nhorizon = 1")
    with pytest.raises(ConfigError, match=r"broken.toml: not valid TOML: .*line 1"):
        load(broken)
    broken.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(broken)


def test_changes_do_not_modify_the_original_configuration() -> None:
    config = parse(MINIMAL)
    other = config.with_changes({"run.seed": 7, "training.lr": 0.5})
    assert (config.run.seed, other.run.seed, other.training.lr) == (1, 7, 0.5)
    assert isinstance(other, Config)
    assert config.given == MINIMAL


def test_flat_keys_end_at_plain_values() -> None:
    speeds = {"site1": 1.0, "site.2": 2.0}
    assert flat("fleet", {"compute": {"speed": speeds}}) == {"fleet.compute.speed": speeds}
    assert flat("compare", {"slow": {"strategy": {"name": "fedavg"}, "fleet": {"compute": {"speed": speeds}}}}) == {
        "compare.slow.strategy.name": "fedavg",
        "compare.slow.fleet.compute.speed": speeds,
    }
