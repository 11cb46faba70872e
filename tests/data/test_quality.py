"""Wrong labels, noisy inputs and drift of clients' examples: exact numbers and clients, and errors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedtempo.data.dataset import Dataset, from_arrays
from fedtempo.data.drift import drifting
from fedtempo.data.members import drawn_members
from fedtempo.data.noise import must_not_share, with_noise
from fedtempo.data.phases import Phases, in_phase, name_and_phase
from fedtempo.data.quality import Drift, FeatureNoise, LabelNoise, Quality
from fedtempo.errors import ConfigError
from fedtempo.runs.config import load, parse, partition_from
from fedtempo.runtime.keyed import keyed_generator
from tests.strategies.test_every_strategy import BASE

NAMES = ("a", "b", "c", "d")
OWNED = [np.arange(start, start + 10) for start in (0, 10, 20, 30)]


def rng(purpose: str, *keys: int) -> np.random.Generator:
    return keyed_generator(1, purpose, *keys)


def data() -> Dataset:
    """Forty examples of four clients and five classes, whose inputs are images of 2 x 2."""
    y = np.arange(40) % 5
    x = np.arange(160, dtype=np.float32).reshape(40, 1, 2, 2)
    return from_arrays("mine", x, y, x[:5], y[:5], about="forty")


def applied(quality: Quality, dataset: Dataset | None = None, own_tests: Any = ()) -> Dataset:
    return with_noise(quality, dataset or data(), OWNED, own_tests, NAMES, rng)[0]


# Wrong labels -------------------------------------------------------------------------------------------------------


def test_the_share_of_labels_that_are_wrong_is_exact_at_the_clients_that_are_named() -> None:
    quality = Quality(label_noise=[{"rate": 0.3, "clients": ["b", "d"]}])  # type: ignore[arg-type]
    noisy, lines = with_noise(quality, data(), OWNED, (), NAMES, rng)
    wrong = noisy.train_y != data().train_y
    assert [int(wrong[rows].sum()) for rows in OWNED] == [0, 3, 0, 3]
    assert noisy.test_y.tolist() == data().test_y.tolist()
    assert lines == ["wrong labels (symmetric), 0.3, at clients b, d"]
    assert noisy.sha256 != data().sha256


def test_pairs_confuse_a_class_with_the_next_and_symmetric_noise_reaches_every_other_class() -> None:
    everything, lines = with_noise(
        Quality(label_noise=(LabelNoise(rate=1.0, kind="pair"),)), data(), OWNED, (), NAMES, rng
    )
    assert everything.train_y.tolist() == [(label + 1) % 5 for label in data().train_y]
    assert lines == ["wrong labels (pair), 1, at all clients"]
    many = from_arrays("many", np.zeros((4000, 1)), np.zeros(4000, int), np.zeros((1, 1)), [4], 5)
    noise = Quality(label_noise=(LabelNoise(rate=0.75),))
    flipped, _ = with_noise(noise, many, [np.arange(4000)], (), ("a",), rng)
    counts = np.bincount(flipped.train_y, minlength=5)
    assert counts[0] == 1000
    # 3000 labels over four classes: each within five standard deviations of 750.
    assert np.abs(counts[1:] - 750).max() < 5 * math.sqrt(3000 * 0.25 * 0.75)


def test_a_share_of_the_clients_and_their_rates_are_drawn_and_do_not_depend_on_other_clients() -> None:
    noise = Quality(label_noise=(LabelNoise(rate=(0.4, 0.9), clients=0.5),))
    wrong = applied(noise).train_y != data().train_y
    counts = [int(wrong[rows].sum()) for rows in OWNED]
    assert sorted(count > 0 for count in counts) == [False, False, True, True]
    assert all(count == 0 or 4 <= count <= 9 for count in counts)
    one = applied(noise)
    assert one.train_y.tolist() == applied(noise).train_y.tolist()  # the same draws again
    other, _ = with_noise(noise, data(), OWNED, (), NAMES, lambda purpose, *keys: keyed_generator(2, purpose, *keys))
    assert other.train_y.tolist() != one.train_y.tolist()
    alone = applied(Quality(label_noise=(LabelNoise(rate=0.5, clients=("b",)),)))
    both = applied(Quality(label_noise=(LabelNoise(rate=0.5, clients=("a", "b")),)))
    assert alone.train_y[OWNED[1]].tolist() == both.train_y[OWNED[1]].tolist()


def test_draws_stay_the_same_from_version_to_version() -> None:
    noisy = applied(Quality(label_noise=(LabelNoise(rate=0.3, clients=0.5),), feature_noise=(FeatureNoise(std=1.0),)))
    wrong = np.flatnonzero(noisy.train_y != data().train_y)
    assert wrong.tolist() == [2, 3, 8, 32, 33, 38]
    assert noisy.train_y[wrong].tolist() == [4, 2, 1, 4, 2, 1]
    np.testing.assert_allclose((noisy.train_x - data().train_x)[[0, 39], 0, 0, 0], [1.6822243, -0.6770630], atol=1e-4)


# Noisy inputs -------------------------------------------------------------------------------------------------------


def test_noise_of_inputs_has_the_deviation_asked_for_at_the_clients_named_and_in_their_own_tests() -> None:
    flat = from_arrays("flat", np.zeros((4000, 10), np.float32), np.arange(4000) % 2, np.zeros((1, 10)), [0])
    owned = [np.arange(0, 2000), np.arange(2000, 3900)]
    own_tests = [np.arange(3900, 3950), np.arange(3950, 4000)]
    quality = Quality(feature_noise=(FeatureNoise(std=0.5, clients=(1,)),))
    noisy, lines = with_noise(quality, flat, owned, own_tests, ("0", "1"), rng)
    assert not noisy.train_x[:2000].any()
    assert not noisy.train_x[3900:3950].any()
    values = noisy.train_x[np.r_[2000:3900, 3950:4000]]
    # 19,500 draws: mean and deviation within five standard errors.
    assert abs(values.mean()) < 5 * 0.5 / math.sqrt(values.size)
    assert abs(values.std() - 0.5) < 5 * 0.5 / math.sqrt(2 * values.size)
    assert not noisy.test_x.any()
    assert lines == ["noise of the inputs, 0.5, at clients 1"]


# Drift --------------------------------------------------------------------------------------------------------------


def drifted(*drifts: Drift, dataset: Dataset | None = None) -> Any:
    found = drifting(drifts, dataset or data(), NAMES, rng)
    assert found is not None
    return found


def test_labels_are_exchanged_and_shifted_from_their_instants_on_for_the_clients_named() -> None:
    changes = drifted(
        Drift(at=20.0, clients=("b",), shift=1),
        Drift(at=10.0, clients=("a", "b"), swap=((0, 1), ("3", "4"))),
    )
    assert changes.phases == Phases((10.0, 20.0), (0, 0, 0), 4)
    x, y, rows = changes.training(data().train_x, data().train_y, OWNED)
    assert len(rows) == 3 * 4
    first = [0, 1, 2, 3, 4] * 2
    swapped = [1, 0, 2, 4, 3] * 2
    assert [y[rows[client]].tolist() for client in range(4)] == [first] * 4
    assert [y[rows[4 + client]].tolist() for client in range(4)] == [swapped, swapped, first, first]
    shifted = [(label + 1) % 5 for label in swapped]
    assert [y[rows[8 + client]].tolist() for client in range(4)] == [swapped, shifted, first, first]
    assert len(x) == len(y) == 40 + 20 + 10  # what does not change is not copied
    assert np.array_equal(x[rows[9]], data().train_x[OWNED[1]])
    assert changes.about == [
        "from 10 s: swap = 0-1, 3-4 at clients a, b and not in the test set",
        "from 20 s: shift = 1 at clients b and not in the test set",
    ]


def test_inputs_turn_scale_and_move_and_the_test_set_changes_with_all_clients() -> None:
    changes = drifted(Drift(at=5.0, rotate=1, scale=-1.0, offset=1.0), Drift(at=7.0, clients=0.5, offset=10.0))
    assert changes.phases.tests == (0, 1, 1)
    x, y, rows = changes.training(data().train_x, data().train_y, OWNED)
    # Example 0 is [[0, 1], [2, 3]]: a quarter turn to the left, then 1 - x.
    assert x[rows[4]][0].tolist() == [[[0, -2], [1, -1]]]
    assert y[rows[4]].tolist() == data().train_y[OWNED[0]].tolist()
    moved = [client for client in range(4) if x[rows[8 + client]][0, 0, 0, 0] == x[rows[4 + client]][0, 0, 0, 0] + 10]
    assert len(moved) == 2
    tests_x, tests_y = changes.tests(data().test_x, data().test_y)
    assert len(tests_x) == 10  # phases 0 and 1; phase 2 has the set of phase 1
    assert tests_x[5].tolist() == [[[0, -2], [1, -1]]]
    assert tests_y.tolist() == [0, 1, 2, 3, 4] * 2
    told = (
        drifted(Drift(at=5.0, shift=1, test=False)).phases.tests,
        drifted(Drift(at=5.0, clients=0.5, shift=1, test=True)),
    )
    assert (told[0], told[1].phases.tests) == ((0, 0), (0, 1))


def test_own_test_sets_change_with_their_clients() -> None:
    changes = drifted(Drift(at=5.0, clients=("c",), shift=1))
    x, y, ends = changes.client_tests(data().train_x[:8], data().train_y[:8], np.array([2, 3, 6, 8]))
    assert ends.tolist() == [2, 3, 6, 8, 10, 11, 14, 16]
    assert y.tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 4, 0, 1, 1, 2]
    assert np.array_equal(x[8:], x[:8])


def test_noise_is_drawn_once_for_each_client_and_the_test_set() -> None:
    changes = drifted(Drift(at=5.0, noise=0.1), Drift(at=6.0, offset=1.0))
    x, _, rows = changes.training(data().train_x, data().train_y, OWNED)
    errors = x[rows[4]] - data().train_x[OWNED[0]]
    assert 0 < np.abs(errors).max() < 1
    np.testing.assert_allclose(x[rows[8]], x[rows[4]] + 1, rtol=1e-6)
    assert not np.array_equal(errors, x[rows[5]] - data().train_x[OWNED[1]])


def test_phases_begin_at_their_instants() -> None:
    phases = Phases((10.0, 20.0), (0, 0, 2), 5)
    assert [phases.at(time) for time in (0.0, 9.9, 10.0, 19.0, 20.0, 99.0)] == [0, 0, 1, 1, 2, 2]
    assert [phases.holder(3, time) for time in (0.0, 10.0, 20.0)] == [3, 8, 13]
    assert [phases.test_set("test", time) for time in (0.0, 10.0, 20.0)] == ["test", "test", "test@2"]
    assert [name_and_phase(in_phase("clients", phase)) for phase in (0, 12)] == [("clients", 0), ("clients", 12)]


# Errors and configurations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ({"label_noise": 0.3}, r"data.partition.label_noise: 0.3 is no table; give { ... }"),
        ({"label_noise": {"rate": 1.5}}, r"label_noise: rate"),
        ({"label_noise": {"rate": [0.9, 0.1]}}, r"rate = \[0.9, 0.1\]: must be \[low, high\] with low <= high"),
        ({"feature_noise": {"std": -1.0}}, r"feature_noise: std"),
        ({"drift": {"at": 5.0}}, r"drift: it changes nothing; set swap, shift, rotate"),
        ({"drift": {"at": 0.0, "shift": 1}}, r"drift: at = 0.0"),
        ({"drift": {"shift": 1}}, r"drift: at: "),
        ({"drift": {"at": 1.0, "rotate": 4}}, r"drift: rotate = 4"),
        ({"noise": {"rate": 0.1}}, r"data.partition.noise: unknown key"),
    ],
)
def test_tables_that_do_not_fit_are_rejected_in_one_line(table: Any, error: str) -> None:
    tables = BASE | {"data": {"partition": {"kind": "iid", **table}}, "strategy": {"name": "fedavg"}}
    with pytest.raises(ConfigError, match=error):
        parse(tables)


@pytest.mark.parametrize(
    ("dataset", "quality", "error"),
    [
        (data(), {"label_noise": {"rate": 0.1, "clients": ["e"]}}, r"label_noise.clients: no client is called 'e'"),
        (
            replace(data(), train_y=np.zeros(40, np.float32), test_y=np.zeros(5, np.float32)),
            {"label_noise": {"rate": 0.1}},
            r"label_noise: needs classes, two or more, and mine has numbers",
        ),
        (
            from_arrays("text", np.zeros((40, 3), int), np.arange(40) % 2, np.zeros((2, 3), int), [0, 1]),
            {"feature_noise": {"std": 0.1}},
            r"feature_noise: needs inputs that are numbers, and text has symbols",
        ),
    ],
)
def test_data_that_cannot_have_such_noise_are_named(dataset: Dataset, quality: Any, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        applied(Quality(**quality), dataset)


@pytest.mark.parametrize(
    ("drift", "dataset", "error"),
    [
        (Drift(at=1.0, swap=((0, 9),)), data(), r"drift.swap: no class 9"),
        (
            Drift(at=1.0, rotate=1),
            replace(data(), train_x=np.zeros((40, 1, 2, 3), np.float32), test_x=np.zeros((5, 1, 2, 3), np.float32)),
            r"drift.rotate = 1: needs square images",
        ),
        (
            Drift(at=1.0, rotate=2),
            replace(data(), train_x=np.zeros((40, 4), np.float32), test_x=np.zeros((5, 4), np.float32)),
            r"drift.rotate = 2: needs images; examples have the shape \(4,\)",
        ),
        (
            Drift(at=1.0, shift=1),
            replace(data(), train_y=np.zeros(40, np.float32), test_y=np.zeros(5, np.float32)),
            r"drift: swap and shift need classes, and mine has numbers",
        ),
    ],
)
def test_data_that_cannot_change_in_such_a_way_are_named(drift: Drift, dataset: Dataset, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        drifted(drift, dataset=dataset)


def test_clients_that_share_examples_cannot_differ() -> None:
    must_not_share(OWNED, 40)
    with pytest.raises(ConfigError, match=r"data.partition: clients share examples"):
        must_not_share([OWNED[0]] * 2, 40)


def test_a_share_is_rounded_and_names_may_be_numbers() -> None:
    assert drawn_members((3, "1"), ["0", "1", "2", "3"], rng("x"), "here") == [1, 3]
    assert [len(drawn_members(share, NAMES, rng("x"), "here")) for share in (0.0, 0.3, 0.6, 1.0)] == [0, 1, 2, 4]


def test_the_options_are_written_back_and_stay_with_any_partition(tmp_path: Any) -> None:
    quality = {
        "label_noise": {"rate": [0.1, 0.5], "clients": 0.5},
        "drift": [{"at": 5.0, "swap": [[0, 1]], "clients": ["a", 3]}, {"at": 9.0, "noise": 0.5, "test": True}],
    }
    for partition in ({"kind": "iid"}, {}):
        config = parse(BASE | {"data": {"partition": partition | quality}, "strategy": {"name": "fedavg"}})
        assert config.quality.given == ["label_noise", "drift"]
        assert (config.partition is None) == (partition == {})
        (path := tmp_path / "config.toml").write_text(config.dump())
        assert load(path).quality == config.quality
        assert load(path).partition == config.partition
        changed = config.with_changes({"data.partition.label_noise": {"rate": 0.2}})
        assert changed.quality.label_noise == (LabelNoise(rate=0.2),)
    with pytest.raises(ConfigError, match="label_noise"):
        partition_from({"kind": "iid", **quality})
