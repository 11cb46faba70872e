"""Schedules of the learning rate: golden values by hand, and PyTorch's schedulers in double precision."""

from __future__ import annotations

import math
import sys
import types
import warnings
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

from fedtempo.errors import ConfigError
from fedtempo.learning.schedules import schedule_from
from fedtempo.learning.training import Training
from fedtempo.parts.construct import construct
from fedtempo.runs.config import parse
from tests.strategies.test_every_strategy import BASE

LR = 0.3


def factors(table: dict[str, Any] | str, positions: list[float], lr: float = LR) -> list[float]:
    schedule: Any = schedule_from(table)
    return [schedule.factor(position, lr) for position in positions]


@pytest.mark.parametrize(
    ("table", "positions", "expected"),
    [
        ("constant", [0, 7, 1e9], [1, 1, 1]),
        ({"kind": "step", "every": 10, "gamma": 0.5}, [0, 9.99, 10, 29, 30], [1, 1, 1 / 2, 1 / 4, 1 / 8]),
        ({"kind": "exponential", "gamma": 0.25}, [0, 0.5, 1, 2], [1, 1 / 2, 1 / 4, 1 / 16]),
        ({"kind": "exponential", "gamma": 0.5, "every": 600}, [0, 600, 1200, 300], [1, 1 / 2, 1 / 4, math.sqrt(0.5)]),
        # (1 + cos(pi / 3)) / 2 = 3/4, (1 + cos(pi / 2)) / 2 = 1/2, (1 + cos(2 pi / 3)) / 2 = 1/4
        ({"kind": "cosine", "over": 6}, [0, 2, 3, 4, 6, 60], [1, 3 / 4, 1 / 2, 1 / 4, 0, 0]),
        ({"kind": "cosine", "over": 6, "last": 0.2}, [0, 2, 3, 6, 7], [1, 0.8, 0.6, 0.2, 0.2]),
        ({"kind": "linear", "over": 10, "last": 0.5}, [0, 2, 10, 11], [1, 0.9, 0.5, 0.5]),
        ({"kind": "constant", "warmup": 4, "warmup_from": 0.2}, [0, 1, 2, 3, 4, 5], [0.2, 0.4, 0.6, 0.8, 1, 1]),
        ({"kind": "linear", "over": 2, "warmup": 2, "warmup_from": 0}, [0, 1, 2, 3, 4], [0, 0.5, 1, 0.5, 0]),
    ],
)
def test_factors_are_those_worked_out_by_hand(table: Any, positions: list[float], expected: list[float]) -> None:
    assert factors(table, positions) == pytest.approx(expected, rel=1e-15, abs=1e-16)


def torch_rates(make: Any, steps: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1, dtype=torch.float64, requires_grad=True)], LR)
    scheduler, rates = make(optimizer), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(steps):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
    return rates


@pytest.mark.parametrize(
    ("table", "make"),
    [
        ({"kind": "step", "every": 3, "gamma": 0.7}, lambda o: lr_scheduler.StepLR(o, 3, 0.7)),
        ({"kind": "exponential", "gamma": 0.9}, lambda o: lr_scheduler.ExponentialLR(o, 0.9)),
        ({"kind": "cosine", "over": 12, "last": 0.1}, lambda o: lr_scheduler.CosineAnnealingLR(o, 12, 0.1 * LR)),
        ({"kind": "linear", "over": 9, "last": 0.2}, lambda o: lr_scheduler.LinearLR(o, 1.0, 0.2, 9)),
        (
            {"kind": "cosine", "over": 8, "warmup": 4, "warmup_from": 0.25},
            lambda o: lr_scheduler.SequentialLR(
                o, [lr_scheduler.LinearLR(o, 0.25, 1.0, 4), lr_scheduler.CosineAnnealingLR(o, 8)], [4]
            ),
        ),
        (
            {"kind": "MultiStepLR", "options": {"milestones": [2, 5], "gamma": 0.3}},
            lambda o: lr_scheduler.MultiStepLR(o, [2, 5], 0.3),
        ),
        (
            {"kind": "CosineAnnealingWarmRestarts", "options": {"T_0": 3, "T_mult": 2, "eta_min": 0.01}},
            lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
        ),
        ({"kind": "PolynomialLR", "options": {"total_iters": 7}}, lambda o: lr_scheduler.PolynomialLR(o, 7)),
    ],
)
def test_rates_are_those_of_pytorch(table: dict[str, Any], make: Any) -> None:
    rates = [LR * factor for factor in factors(table, list(range(12)))]
    assert rates == pytest.approx(torch_rates(make, 12), rel=1e-13, abs=1e-15)


def test_a_scheduler_of_pytorch_steps_once_per_unit_and_holds_its_last_rate() -> None:
    table = {"kind": "StepLR", "by": "time", "unit": 60.0, "options": {"step_size": 2, "gamma": 0.5}}
    assert factors(table, [0, 119.9, 120, 240]) == [1, 1, 0.5, 0.25]
    ends = {"kind": "OneCycleLR", "options": {"max_lr": 0.6, "total_steps": 5, "cycle_momentum": False}}
    rates = torch_rates(lambda o: lr_scheduler.OneCycleLR(o, 0.6, 5, cycle_momentum=False), 4)
    assert [LR * factor for factor in factors(ends, [0, 1, 2, 3])] == pytest.approx(rates, rel=1e-15)
    assert factors(ends, [4]) == factors(ends, [1000])


def test_a_users_function_gives_the_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("my_schedule")
    module.root = lambda position: (1 + position) ** -0.5
    module.negative = lambda position: -1.0
    module.wrong = lambda position: 1 / 0 if position else 1.0
    monkeypatch.setitem(sys.modules, "my_schedule", module)
    assert factors({"kind": "my_schedule:root", "warmup": 2.0}, [2, 5, 10]) == [1, 0.5, 1 / 3]
    with pytest.raises(ConfigError, match=r"'my_schedule:negative' returned -1.0 at 3; it must return a number"):
        factors("my_schedule:negative", [3])
    assert factors("my_schedule:wrong", [0]) == [1.0]
    table = {"kind": "LambdaLR", "options": {"lr_lambda": "my_schedule:root"}}
    assert factors(table, [0, 3]) == [1, 0.5]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("cosin", r"training.schedule: kind = 'cosin': no such schedule; did you mean 'cosine'"),
        ({"kind": "cosine"}, r"schedule 'cosine': over: .*required"),
        ({"kind": "step", "every": 0}, r"schedule 'step': every = 0: .*greater than 0"),
        (
            {"kind": "linear", "over": 5, "by": "epoch"},
            r"schedule 'linear': by = 'epoch': .*'round', 'commit' or 'time'",
        ),
        ({"kind": "NoSuchLR"}, "schedule 'NoSuchLR': torch.optim.lr_scheduler has no scheduler of this name"),
        ({"kind": "StepLR"}, r"schedule 'StepLR': .*missing 1 required positional argument: 'step_size'"),
        ({"kind": "StepLR", "step_size": 3}, r"schedule 'StepLR': step_size.*"),
        ({"kind": "ReduceLROnPlateau"}, "schedule 'ReduceLROnPlateau': depends on measured losses"),
        (
            {"kind": "OneCycleLR", "options": {"max_lr": 1.0, "total_steps": 9}},
            r"schedule 'OneCycleLR': also changes the momentum; set options.cycle_momentum = false",
        ),
        ({"kind": "math:pi"}, r"kind = 'math:pi': must be a function of the position, not float"),
        ({"kind": "math:tau_"}, r"training.schedule.kind = 'math:tau_': module 'math' has no 'tau_'"),
        ({"by": "time"}, r"kind = None: must be the name of a schedule"),
        (3, r"training.schedule = 3: "),
    ],
)
def test_what_is_no_schedule_is_rejected_in_one_line(table: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        construct(Training, {"schedule": table}, "training")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "table",
    [
        {"kind": "cosine", "over": 100.0, "by": "commit"},
        {"kind": "StepLR", "by": "time", "unit": 5.0, "options": {"step_size": 3}},
        {"kind": "math:exp"},
    ],
)
def test_the_written_configuration_has_the_same_schedule(table: dict[str, Any]) -> None:
    config = parse({**BASE, "strategy": {"name": "fedavg"}, "training": {"schedule": table}})
    written = config.tables["training"]["schedule"]
    assert table.items() <= written.items()
    assert parse(config.tables).training == config.training
