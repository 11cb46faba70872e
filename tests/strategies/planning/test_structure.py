"""PSFL's choice of width and length: the minimum compared with a dense grid, integers with all pairs, Eqs. 24-26."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.strategies.planning.structure import Constants, Structure, StructureProblem, measured_constants

TABLE_ONE = Constants(gradient_variance=1.0, gradient_spread=0.4259, visit_s=2.5, visit_variance=1.0)

problems = st.builds(
    StructureProblem,
    st.builds(
        Constants,
        gradient_variance=st.floats(0.01, 100),
        gradient_spread=st.floats(0, 100),
        visit_s=st.floats(0.1, 10),
        visit_variance=st.floats(0, 10),
    ),
    st.integers(1, 200),
    st.floats(0.01, 0.19),
)


@pytest.mark.parametrize(
    ("clients", "length", "width"), [(10, 2.18, 4.59), (20, 3.48, 5.74), (50, 6.54, 7.65), (100, 10.56, 9.47)]
)
def test_table_one_is_reproduced(clients: int, length: float, width: float) -> None:
    optimum = StructureProblem(TABLE_ONE, clients).optimum()
    assert optimum.length == pytest.approx(length, abs=0.0054)
    assert optimum.width == pytest.approx(width, abs=0.0054)


def test_the_last_row_of_table_one_multiplies_to_its_clients_unlike_the_printed_one() -> None:
    optimum = StructureProblem(TABLE_ONE, 200).optimum()
    assert optimum.width == pytest.approx(11.73, abs=0.0056)
    assert optimum.length == pytest.approx(200 / 11.73, abs=0.01)
    assert optimum.length != pytest.approx(16.95, abs=0.05)


@pytest.mark.parametrize(("clients", "whole"), [(20, (5, 4)), (50, (7, 7)), (100, (10, 10))])
def test_rounding_to_the_best_pair_gives_the_experimental_optima_of_the_paper(
    clients: int, whole: tuple[int, int]
) -> None:
    assert StructureProblem(TABLE_ONE, clients).structure() == whole


def test_clients_of_unbounded_heterogeneity_train_one_after_another() -> None:
    """Case 1 (Eq. 22)."""
    for spread in (1e3, 1e6, 1e12):
        problem = StructureProblem(Constants(1.0, spread, 2.5, 1.0), 20)
        assert problem.optimum().width == 1.0
        assert problem.structure() == problem.structure("nearest") == (1, 20)


def test_clients_without_variation_in_time_all_train_in_parallel() -> None:
    assert StructureProblem(Constants(1.0, 0.7, 2.5, 0.0), 13).structure() == (13, 1)


@given(problems)
def test_no_width_beats_the_optimum(problem: StructureProblem) -> None:
    widths = np.exp(np.linspace(0, np.log(problem.clients_per_round), 2001))
    widths[-1] = problem.clients_per_round
    best = problem.optimum()
    assert 1 <= best.width <= problem.clients_per_round
    assert best.width * best.length == pytest.approx(problem.clients_per_round)
    assert best.objective <= problem.objective(widths).min() * (1 + 1e-12)


@given(problems)
def test_stationary_points_are_where_the_slope_changes_sign(problem: StructureProblem) -> None:
    found = problem.optimum()
    apart = (found.local_minimum or np.inf) - (found.local_maximum or 0.0)
    for point, sign in ((found.local_maximum, -1), (found.local_minimum, 1)):
        if point is not None and point > 1 + 1e-6:
            step = min(0.01, (point - 1) / 3, apart)
            before, at, after = problem.objective([point - step, point, point + step])
            assert sign * before >= sign * at * (1 - 1e-12 * sign)
            assert sign * after >= sign * at * (1 - 1e-12 * sign)
    assert found.local_minimum is None or found.local_maximum is not None


@given(problems, st.sampled_from(["best", "nearest"]))
def test_integer_structures_respect_the_limit_of_clients(problem: StructureProblem, rounding: str) -> None:
    width, length = problem.structure(rounding)  # type: ignore[arg-type]
    assert 1 <= width * length <= problem.clients_per_round
    best = problem.optimum()
    assert abs(length - best.length) < 1 if rounding == "best" else abs(length - best.length) <= 0.5


@given(problems)
def test_the_objective_equals_the_time_bound_up_to_a_constant(problem: StructureProblem) -> None:
    """If S = N0 / W is whole: Eq. 21 leaves out alpha N0 t, which does not depend on W (Eq. 19 to 20)."""
    clients = problem.clients_per_round
    left_out = problem.coefficients(clients)[0] * clients * problem.constants.visit_s
    for width in (w for w in range(1, clients + 1) if clients % w == 0):
        whole = problem.time_bound(Structure(width, clients // width))
        assert whole == pytest.approx(float(problem.objective(width)) + left_out, rel=1e-9)


def test_measured_constants_are_means_over_rounds_and_clients() -> None:
    measured = measured_constants(
        [[1.0, 2.0, np.nan], [3.0, 4.0, np.nan]],
        [0.5, 1.5],
        [[1.0, 4.0, np.nan], [3.0, 4.0, np.nan]],
    )
    assert measured == Constants(gradient_variance=2.5, gradient_spread=1.0, visit_s=3.0, visit_variance=0.5)
