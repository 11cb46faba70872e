"""TimelyFL: how long rounds last and who does how much, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedtempo.learning.training import Training
from fedtempo.strategies import TimelyFL
from tests.runtime.learning import Built, learn
from tests.runtime.world import play
from tests.strategies.test_quafl import line


def played(strategy: TimelyFL, **options: Any) -> Any:
    """Four clients with 4 local steps, whose visits compute for 1, 2, 4 and 8 s; transfers take 0.5 s together."""
    settings: dict[str, Any] = {"compute": [1.0, 2.0, 4.0, 8.0], "horizon": 5.5} | options
    return play(
        strategy,
        clients=4,
        examples=40,
        training=Training(batch_size=10),
        link={"kind": "fixed", "download_s": 0.25, "upload_s": 0.25},
        **settings,
    )[1]


@pytest.mark.parametrize(
    ("target", "round_s", "computing_s"),
    [
        # The shortest visit has 1.5 s, so 1 s for computing: once all of client 0's work, 2, 1 and 1 of 4 steps, the
        # last of 2 s, which is longer than the round.
        (0.25, 2.5, [1.0, 1.0, 1.0, 2.0]),
        # The second has 2.5 s, so 2 s for computing: twice client 0's work, once client 1's, 2 steps and 1 step.
        (0.5, 2.5, [2.0, 2.0, 2.0, 2.0]),
        # The third has 4.5 s: four times, twice, once, and 2 steps.
        (0.75, 4.5, [4.0, 4.0, 4.0, 4.0]),
    ],
)
def test_each_client_does_what_fits_into_the_round(target: float, round_s: float, computing_s: list[float]) -> None:
    visits = played(TimelyFL(target=target), horizon=round_s).visits
    done = visits["finished"] <= round_s
    assert (visits["computed"] - visits["received"])[done][np.argsort(visits["client"][done])].tolist() == computing_s


def test_a_round_lasts_until_all_have_reported_or_drops_the_late() -> None:
    """With a quarter, client 3 ends its only step at 2.5 s, 1 s late. Without it rounds last 1.5 s."""
    assert played(TimelyFL(target=0.25)).commits["time"].tolist() == [2.5, 5.0]
    dropped = played(TimelyFL(target=0.25, late="drop"))
    assert dropped.commits["time"].tolist() == [1.5, 3.0, 4.5]
    assert set(dropped.visits["client"][dropped.visits["outcome"] == "done"].tolist()) == {0, 1, 2}


def test_the_work_of_fast_clients_can_be_limited() -> None:
    visits = played(TimelyFL(target=1.0, most_repeats=3), horizon=8.5).visits
    computing = dict(zip(visits["client"].tolist(), (visits["computed"] - visits["received"]).tolist()))
    assert computing == {0: 3.0, 1: 6.0, 2: 8.0, 3: 8.0}  # instead of 8 and 4 times


@pytest.mark.usefixtures("double")
def test_the_mean_is_weighted_by_examples_however_much_was_trained() -> None:
    """Loss (w - 3)^2 with rate 1/8: a step moves w to w + (3 - w) / 4, from 1 to 1.5 and 1.875.

    K = 1. Client 0 (1 s, 3 examples) trains twice in 2 s, client 1 (2 s, 1 example) once: (3 * 1.875 + 1.5) / 4.
    """
    data = [(np.ones((size, 1)), np.full((size, 1), 3.0)) for size in (3, 1)]
    found = learn(
        TimelyFL(target=1.0),
        Built(line),
        data,
        n_outputs=1,
        training=Training(lr=0.125, loss="squared", steps=1),
        commits=1,
        compute=[1.0, 2.0],
    )
    assert found.final.tolist() == pytest.approx([(3 * 1.875 + 1.5) / 4], rel=1e-15)


def test_unusable_values_are_refused() -> None:
    for fields in ({"target": 0.0}, {"target": 1.5}, {"most_repeats": 0}, {"late": "sulk"}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            TimelyFL(**fields)  # type: ignore[arg-type]
