"""Comparisons of competitors that do different work in the same time are refused, wherever they are made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedtempo import Experiment
from fedtempo.errors import ConfigError
from fedtempo.runs.config import load, parse
from fedtempo.studies.same_work import check_same_work
from tests.cli.test_commands import fedtempo

ROOT = Path(__file__).parent.parent
VISIT = {"unit": "s/visit", "speed": 1.0}


def experiment(compute: dict[str, Any] = VISIT, **ten: Any) -> Experiment:
    return Experiment(
        run={"horizon": 4.0, "target_accuracy": 0.5},
        data={"source": "digits", "clients": 4, "examples_per_client": 20},
        model={"network": "mlp", "hidden": [8]},
        fleet={"compute": compute, "link": "none", "estimates": "exact"},
        strategy="fedavg",
        executor="inline",
        compare={"ten": {"strategy.name": "fedavg", **ten}},
    )


@pytest.mark.parametrize(
    ("ten", "says"),
    [
        ({"training": {"epochs": 10}}, r"\(training.epochs = 1 and 10\)"),
        ({"training.steps": 3}, r"\(training.steps = none and 3\)"),
        ({"training.steps": 3, "training.batch_size": 50}, r"steps = none and 3, training.batch_size = 10 and 50\)"),
        ({"data.examples_per_client": 40}, r"\(data.examples_per_client = 20 and 40\)"),
        ({"model.hidden": [80]}, r"\(model.hidden = \[8\] and \[80\]\)"),
        ({"model.hidden": []}, r"\(model.hidden = \[8\] and \[\]\)"),
    ],
)
def test_different_work_in_the_same_time_is_rejected(ten: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=rf"^fedavg and ten: visits take the same time .*s/visit.*{says}"):
        experiment(**ten).compare("fedavg,ten")


@pytest.mark.parametrize(
    ("compute", "ten"),
    [
        (VISIT, {"training.lr": 0.5}),
        (VISIT, {"training.batch_size": 5}),  # as many examples
        (VISIT, {"training.steps": 1, "training.full_batch": True}),  # one epoch
        (VISIT, {"model.size_bytes": 10}),
        (VISIT, {"training.epochs": 10, "fleet.compute.speed": 10.0}),
        ({**VISIT, "ignore_work": True}, {"training.epochs": 10, "model.hidden": [80]}),
        ({"unit": "s/example", "speed": 0.05}, {"training.epochs": 10}),
        ({"unit": "example/s", "speed": 20.0}, {"data.examples_per_client": 40}),
    ],
)
def test_work_reflected_in_the_times_may_differ(compute: dict[str, Any], ten: dict[str, Any]) -> None:
    tables = [(label, experiment(compute, **ten).config.for_comparison(label).tables) for label in ("fedavg", "ten")]
    check_same_work(tables)


def test_times_per_example_do_not_depend_on_the_network() -> None:
    with pytest.raises(ConfigError, match=r"s/example\) for different work \(model.hidden .*compute: a speed for each"):
        experiment({"unit": "s/example", "speed": 0.05}, **{"model.hidden": [80]}).compare("fedavg,ten")


def test_every_way_to_compare_checks_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unequal, says = experiment(training={"epochs": 10}), "visits take the same time"
    for what in (
        lambda: unequal.compare("fedavg,ten", folder=tmp_path / "compared"),
        lambda: unequal.plan("fedavg,ten"),
        lambda: unequal.tune("fedavg,ten", lr=(0.3, 0.1), seeds=1),
    ):
        with pytest.raises(ConfigError, match=says):
            what()
    assert not (tmp_path / "compared").exists()
    advice = unequal.advise("fedavg,ten", budget=2)
    assert says in advice.left_out["ten"]
    unequal.run(tmp_path / "one")
    unequal.with_({"training.epochs": 10}).run(tmp_path / "other")
    unequal.save(tmp_path / "unequal.toml")
    for command in (
        ["compare", "unequal.toml", "--strategies", "fedavg,ten", "--seeds", "1"],
        ["plan", "unequal.toml", "--strategies", "fedavg,ten"],
        ["tune", "unequal.toml", "--strategies", "fedavg,ten"],
        ["report", "one", "other"],
    ):
        arguments = [str(tmp_path / word) if (tmp_path / word).exists() else word for word in command]
        assert fedtempo(*arguments) == 2
        assert says in " ".join(capsys.readouterr().err.split())


def test_foreign_folders_do_not_crash_the_check() -> None:
    odd: list[dict[str, Any]] = [{}, {"training": 3, "fleet": {"compute": []}}, {"training": {"epochs": "x"}}]
    check_same_work((str(number), tables) for number, tables in enumerate(odd))


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_configurations_can_be_compared(path: Path) -> None:
    base = load(path)
    configs = [base.for_comparison(label) for label in (base.strategy_name, *base.variants)]
    check_same_work((config.label, config.tables) for config in configs)
    assert parse(base.tables).tables == base.tables
