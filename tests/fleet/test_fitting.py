"""Distributions fitted to measured values: the generating one is found, and a bad fit is reported as such."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from fedtempo.cli.fleet import fleet
from fedtempo.errors import ConfigError
from fedtempo.fleet.distributions import (
    Constant,
    Discrete,
    Distribution,
    Exponential,
    Normal,
    Uniform,
    Zipf,
    distribution,
)
from fedtempo.fleet.fitting import empirical, fit
from fedtempo.fleet.skewed import Gamma, Lognormal, Pareto, Weibull


@pytest.mark.parametrize(
    ("law", "kind", "within"),
    [
        (Exponential(2.5), "exponential", {"mean": 0.15}),
        (Uniform(1.0, 10.0), "uniform", {"low": 0.1, "high": 0.1}),
        (Normal(2.5, 1.0), "normal", {"mean": 0.15, "std": 0.15}),
        (Normal(30.0, 8.0), "normal", {"mean": 0.8, "std": 0.8}),
        (Lognormal(1.2, 3.0), "lognormal", {"s": 0.1, "scale": 0.4}),
        (Weibull(0.5, 4.0), "weibull", {"c": 0.05, "scale": 0.6}),
        (Gamma(4.0, 2.0), "gamma", {"a": 0.4, "scale": 0.25}),
        (Pareto(1.5, 2.0), "pareto", {"b": 0.15, "scale": 0.01}),
        (Pareto(0.8, 2.0, high=500.0), "pareto", {"b": 0.1, "scale": 0.01}),
        (Discrete((0.5, 1.0, 2.0), (1.0, 2.0, 1.0)), "discrete", {}),
        (Zipf(1.2, 1, 8), "zipf", {"exponent": 0.15}),
        (Constant(3.0), "constant", {"value": 0.0}),
    ],
)
def test_the_distribution_that_generated_the_values_is_found(
    law: Distribution, kind: str, within: dict[str, float]
) -> None:
    values = law.draw(np.random.default_rng(7), 1000)
    best = fit(values)[0]
    assert best.kind == kind
    assert best.good
    for name, difference in within.items():
        assert getattr(best.distribution, name) == pytest.approx(getattr(law, name), abs=difference)
    assert distribution(best.table()).expectation == pytest.approx(law.expectation, rel=0.1)


def test_criteria_follow_from_the_likelihood() -> None:
    values = np.random.default_rng(3).exponential(2.0, 200)
    by_kind = {candidate.kind: candidate for candidate in fit(values)}
    log_likelihood = -200 * math.log(values.mean()) - 200
    assert by_kind["exponential"].aic == pytest.approx(2 - 2 * log_likelihood)
    spread = values.max() - values.min()
    assert by_kind["uniform"].aic == pytest.approx(4 + 2 * 200 * math.log(spread))
    below = 1 - np.exp(-np.sort(values) / values.mean())
    steps = np.arange(201) / 200
    assert by_kind["exponential"].ks == pytest.approx(np.maximum(steps[1:] - below, below - steps[:-1]).max())
    assert by_kind["uniform"].ks > by_kind["exponential"].ks


def test_values_that_no_distribution_fits_are_used_as_an_empirical_one() -> None:
    rng = np.random.default_rng(5)
    values = np.concatenate([rng.normal(2, 0.1, 300), rng.normal(40, 0.5, 300)])
    assert not fit(values)[0].good
    themselves = empirical(values)
    assert len(themselves.values) == 50
    assert themselves.expectation == pytest.approx(values.mean(), rel=0.02)
    assert themselves.draw(rng, 400).max() > 38


@pytest.mark.parametrize(
    ("values", "said"),
    [([1.0, 2.0], "at least 5"), ([1, 2, 3, 4, -5.0], "positive"), ([1, 2, 3, 4, math.inf], "positive and finite")],
)
def test_too_few_or_nonpositive_values_are_rejected(values: list[float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        fit(values)


def test_the_command_prints_a_line_for_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    lines = [f"{device},{rng.exponential(5.0):.6f}" for device in range(300)]
    path = tmp_path / "times.csv"
    path.write_text("\n".join(["device,seconds", *lines]), encoding="utf-8")
    fleet(["fit", str(path), "--column", "seconds"], standalone_mode=False)
    out = capsys.readouterr().out
    assert '{ kind = "exponential", mean = ' in out
    assert "300 values" in out
    bimodal = [f"{i},{value:.6f}" for i, value in enumerate(np.where(rng.random(400) < 0.5, 1, 50) + rng.random(400))]
    path.write_text("\n".join(["device,seconds", *bimodal]), encoding="utf-8")
    fleet(["fit", str(path), "--column", "seconds"], standalone_mode=False)
    out = capsys.readouterr().out
    assert "take the values themselves" in out
    assert '{ kind = "discrete", values = [' in out
