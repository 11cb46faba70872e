"""Splits that do not leak: clients, groups and validation examples of a whole configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from fedtempo.errors import ConfigError
from fedtempo.runs.choosing import for_choosing
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import run
from fedtempo.runs.world import World, build_world, load_data

SPEEDS = [float(i) for i in range(1, 13)]


def config(data: dict[str, Any], speed: Any = 1.0, **sections: Any) -> Config:
    tables = {
        "run": {"horizon": 6.0, "evaluate_every": 2.0},
        "data": data,
        "model": {"network": "logistic"},
        "training": {"lr": 0.1},
        "fleet": {"compute": {"unit": "s/visit", "speed": speed}, "link": "none", "estimates": "exact"},
        "strategy": {"name": "fedavg"},
        "executor": {"kind": "inline"},
    }
    return parse({**tables, **sections})


def visits(folder: Path, n_clients: int = 12, each: int = 10) -> dict[str, Any]:
    """Write a table of `each` rows for each client, whose feature is the row's number, in a shuffled order."""
    rows = np.random.default_rng(0).permutation(n_clients * each)
    client = (rows % n_clients + 1).tolist()
    table = {
        "row": rows.tolist(),
        "client": client,
        "patient": (rows // 2 // n_clients * n_clients + rows % n_clients).tolist(),
        "day": (rows // n_clients).tolist(),
        "label": (rows // n_clients % 2).tolist(),
    }
    parquet.write_table(pa.table(table), folder / "visits.parquet")
    options = {"client": "client", "label": "label", "features": ["row"]}
    return {"source": f"table:{folder / 'visits.parquet'}", "options": options}


def with_options(data: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {**data, "options": {**data["options"], **options}}


def numbers(world: World, rows: Any) -> list[int]:
    """Return the rows of the table that these training examples are."""
    return world.dataset.train_x[rows, 0].astype(int).tolist()  # type: ignore[no-any-return]


def as_sources(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the same twelve clients as integers, as text, as folders and in arrays, each in a shuffled order."""
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(1, 13), 6))
    labels = (np.arange(72) % 2).tolist()
    sources = {}
    for kind, values in (("integers", order.tolist()), ("texts", list(map(str, order.tolist())))):
        file = folder / f"{kind}.parquet"
        parquet.write_table(pa.table({"x": list(range(72)), "who": values, "label": labels}), file)
        sources[kind] = {"source": f"table:{file}", "options": {"client": "who"}}
        np.savez(folder / f"{kind}.npz", train_x=np.zeros((72, 2)), train_y=labels, train_owners=np.array(values))
        sources[f"{kind} in arrays"] = {"source": f"npz:{folder / f'{kind}.npz'}"}
    for client in range(1, 13):
        for i in range(4):
            path = folder / "photos" / str(client) / "ab"[i % 2] / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (2, 2), i).save(path)
    sources["folders"] = {"source": f"folder:{folder / 'photos'}"}
    return sources


def test_a_list_of_speeds_means_the_same_however_clients_are_named(tmp_path: Path) -> None:
    for kind, data in as_sources(tmp_path).items():
        world = build_world(config(data, SPEEDS))
        assert [client.name for client in world.clients] == [str(i) for i in range(1, 13)], kind
        assert world.fleet.speed.values.tolist() == SPEEDS
        by_name = {str(i): float(i) for i in range(1, 13)}
        assert build_world(config(data, by_name)).fleet.speed.values.tolist() == SPEEDS


def test_clients_that_are_tested_on_do_not_train(tmp_path: Path) -> None:
    data = {**visits(tmp_path), "test_clients": ["2", "10"]}
    world = build_world(config(data, SPEEDS))
    names = [client.name for client in world.clients]
    assert names == ["1", "3", "4", "5", "6", "7", "8", "9", "11", "12"]
    assert world.fleet.speed.values.tolist() == [1.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 11.0, 12.0]
    tested = world.test.inputs(world.dataset)[:, 0].astype(int)
    assert sorted(tested.tolist()) == [i for i in range(120) if i % 12 + 1 in (2, 10)]
    for name, rows in zip(names, world.owned, strict=True):
        assert {i % 12 + 1 for i in numbers(world, rows)} == {int(name)}
        assert len(rows) == 8
    assert "tested on 20 examples of clients that do not take part (2): 2, 10; 20 other test" in world.dataset.about
    assert world.data_sha256 != build_world(config(visits(tmp_path))).data_sha256
    summary, records, _ = run(config(data, SPEEDS))
    assert (summary["data"]["train"], summary["data"]["test"]) == (80, 20)
    assert records.facts["client_names"] == names
    own = build_world(config({**data, "client_test_share": "data"}, SPEEDS))
    assert own.client_tests is not None
    assert list(map(len, own.client_tests)) == [2] * 10
    assert len(build_world(config({**data, "test_examples": 7}, SPEEDS)).test) == 7
    with pytest.raises(ConfigError, match=r"test_examples = 21: table:.* has 20 for testing"):
        build_world(config({**data, "test_examples": 21}, SPEEDS))


@pytest.mark.parametrize(
    "held_out",
    [
        {},
        {"test_clients": ["2"]},
        {"validation_share": 0.25},
        {"client_test_share": 0.25},
        {"test_clients": ["2"], "validation_share": 0.25, "client_test_share": 0.25},
    ],
    ids=["nothing", "clients", "validation", "clients' tests", "all"],
)
@pytest.mark.parametrize("fit", ["all", "client"])
def test_statistics_come_from_examples_that_are_trained_on(tmp_path: Path, fit: str, held_out: dict[str, Any]) -> None:
    data = {**visits(tmp_path), **held_out}
    plain = build_world(config(data))
    scaled = build_world(config(with_options(data, standardize=True, fit=fit)))
    assert all(map(np.array_equal, plain.owned, scaled.owned))
    raw, values = plain.dataset.train_x[:, 0].astype(float), scaled.dataset.train_x[:, 0]
    trained = np.concatenate(plain.owned)
    clients = np.full(len(raw), -1)
    for client, rows in enumerate(plain.owned):
        clients[rows] = client
    for row in range(len(raw)):
        of_client = fit == "client" and clients[row] >= 0
        if fit == "client" and clients[row] < 0 and row not in plain.test.train:
            continue  # of a client that trains
        fitted = raw[plain.owned[clients[row]] if of_client else trained]
        assert values[row] == pytest.approx((raw[row] - fitted.mean()) / fitted.std(), abs=1e-6)


def test_medians_come_from_examples_that_are_trained_on(tmp_path: Path) -> None:
    rows = [f"{i if i % 5 else ''},{i % 4},{i % 2}" for i in range(60)]
    (tmp_path / "t.csv").write_text("x,client,label\n" + "\n".join(rows) + "\n")
    options = {"client": "client", "label": "label", "features": ["x"], "missing": {"x": "median"}}
    data = {"source": f"table:{tmp_path / 't.csv'}", "options": options}
    world = build_world(config({**data, "validation_share": 0.25, "test_clients": ["3"]}))
    values = world.dataset.train_x[:, 0]
    assert world.dataset.train_missing is not None
    holes = world.dataset.train_missing == 1
    trained = np.concatenate(world.owned)
    known = trained[~holes[trained]]
    assert set(values[holes].tolist()) == {float(np.median(values[known]))}
    assert float(np.median(values[~holes])) != float(np.median(values[known]))


def test_statistics_of_transformed_data_come_from_examples_that_are_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "doubling.py").write_text("def twice(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    data = with_options({**visits(tmp_path), "validation_share": 0.25}, standardize=True)
    world = build_world(config({**data, "transform": "doubling:twice"}))
    values = world.dataset.train_x[np.concatenate(world.owned), 0]
    assert values.mean() == pytest.approx(0.0, abs=1e-6)
    assert values.std() == pytest.approx(2.0, abs=1e-6)


def test_windows_are_scaled_by_rows_of_windows_that_are_trained_on(tmp_path: Path) -> None:
    rows = [f"{day},{client},{day + 100 * client}" for client in (1, 2) for day in range(20)]
    (tmp_path / "t.csv").write_text("day,client,y\n" + "\n".join(rows) + "\n")
    options = {"client": "client", "label": "y", "time": "day", "window": 2, "features": ["y"], "task": "numbers"}
    data = {"source": f"table:{tmp_path / 't.csv'}", "options": {**options, "standardize": True}}
    world = build_world(config({**data, "test_clients": ["2"]}))
    assert len(world.clients) == 1
    days = np.arange(16)  # a fifth of the days, the last ones, are for testing
    expected = (100 + days - 100 - days.mean()) / days.std()
    windows = world.dataset.train_x[world.owned[0], :, 0]
    assert windows[:, 0].tolist() == pytest.approx(expected[:14].tolist(), abs=1e-5)
    assert world.dataset.train_y[world.owned[0]].tolist() == pytest.approx(expected[2:].tolist(), abs=1e-5)


def test_a_table_that_changes_while_it_is_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {**visits(tmp_path), "validation_share": 0.25}
    asked = config(with_options(data, standardize=True))
    dataset = load_data(asked)
    visits(tmp_path, each=9)
    monkeypatch.setattr("fedtempo.runs.world.load_data", lambda _: dataset)
    with pytest.raises(ConfigError, match=r"visits.parquet: it changed while it was read; start again"):
        build_world(asked)


def test_dealt_clients_are_called_by_number_if_some_are_tested_on() -> None:
    data = {"source": "digits", "clients": 6, "test_clients": {"folds": 3, "fold": 1}}
    world = build_world(config(data, {str(i): i + 1.0 for i in range(6)}))
    assert len(world.clients) == 4
    assert world.fleet.speed.values.tolist() == [int(client.name) + 1.0 for client in world.clients]
    assert len(world.test) == 1438 - sum(map(len, world.owned))
    seeds = [
        build_world(config({**data, "test_clients": {"folds": 3}}, run={"horizon": 1.0, "seed": s})) for s in (1, 2, 3)
    ]
    left_out = [set("012345") - {client.name for client in each.clients} for each in seeds]
    assert set.union(*left_out) == set("012345")
    assert sum(map(len, left_out)) == 6


def test_examples_and_groups_at_both_kinds_of_clients_are_not_trained_on(tmp_path: Path) -> None:
    """Each patient has two rows, dealt at random: nobody trains on a patient who is tested on."""
    data = with_options(visits(tmp_path), group="patient")
    data |= {"partition": "iid", "clients": 8, "test_clients": 0.25}
    world = build_world(config(data))
    groups = world.dataset.train_groups
    assert groups is not None
    trained = np.concatenate(world.owned)
    assert set(groups[trained]).isdisjoint(groups[world.test.train])
    left_out = len(groups) - len(trained) - len(world.test)
    assert left_out > 0
    assert f"; {left_out} training examples left out, whose groups are tested on" in world.dataset.about
    shared = {"source": "digits", "clients": 4, "examples_per_client": 1438, "test_clients": ["0"]}
    with pytest.raises(
        ConfigError, match=r"nothing is left for client '1' to train on .* all its examples are also at"
    ):
        build_world(config({**shared, "partition": {"kind": "classes", "mean": 10.0, "std": 0.0, "share": True}}))


@pytest.mark.parametrize("how", ["plain", "group", "day"])
def test_validation_examples_are_held_out_of_each_client(how: str, tmp_path: Path) -> None:
    options = {"plain": {}, "group": {"group": "patient"}, "day": {"time": "day"}}[how]
    world = build_world(config({**with_options(visits(tmp_path), **options), "validation_share": 0.25}))
    assert world.validation is not None
    held, trained = world.validation.train, np.concatenate(world.owned)
    assert sorted([*held, *trained]) == list(range(96))
    assert set(numbers(world, held)).isdisjoint(world.test.inputs(world.dataset)[:, 0])
    clients = np.array(numbers(world, held)) % 12
    assert np.bincount(clients, minlength=12).tolist() == [2] * 12  # a quarter of eight
    if world.dataset.train_groups is not None:
        groups = world.dataset.train_groups
        assert set(groups[held]).isdisjoint(groups[trained])
    if world.dataset.train_times is not None:
        times, owners = world.dataset.train_times, world.dataset.train_owners
        assert owners is not None
        for client in range(12):
            latest = times[[row for row in held if owners[row] == client]]
            assert latest.min() > times[[row for row in trained if owners[row] == client]].max()
            assert sorted(latest.tolist()) == [6.0, 7.0]  # days 8 and 9 are those of the test


def test_clients_own_test_sets_respect_groups_and_times(tmp_path: Path) -> None:
    data = with_options(visits(tmp_path), time="day")
    world = build_world(config({**data, "client_test_share": 0.25}))
    assert world.client_tests is not None
    assert world.dataset.train_times is not None
    for rows, tests in zip(world.owned, world.client_tests, strict=True):
        assert world.dataset.train_times[tests].min() > world.dataset.train_times[rows].max()


def test_what_evaluations_may_use(tmp_path: Path) -> None:
    data = {**visits(tmp_path), "validation_share": 0.25}
    beside = build_world(config(data))
    instead = build_world(config(data, run={"horizon": 6.0, "evaluate_on": "validation"}))
    assert beside.validation is not None
    assert instead.validation is None
    assert np.array_equal(instead.test.train, beside.validation.train)
    assert not len(instead.test.test)
    with pytest.raises(ConfigError, match=r"run\.evaluate_on = 'validation': table:.* has no validation examples; set"):
        build_world(config(visits(tmp_path), run={"horizon": 6.0, "evaluate_on": "validation"}))
    written = with_options(visits(tmp_path), validation="visits.parquet")
    assert build_world(config(written)).validation is not None
    with pytest.raises(ConfigError, match=r"data\.validation_share = 0\.2: table:.* has a validation split already"):
        build_world(config({**written, "validation_share": 0.2}))


def test_settings_are_chosen_on_the_validation_examples(tmp_path: Path) -> None:
    chosen = for_choosing(config({**visits(tmp_path), "validation_share": 0.25}))
    assert chosen.config.run.evaluate_on == "validation"
    assert chosen.note == "chosen on the validation examples; the test examples were not used"
    assert for_choosing(chosen.config) == chosen
    plain = for_choosing(config(visits(tmp_path)))
    assert plain.config.run.evaluate_on is None
    assert plain.note == "chosen on the test examples, so optimistic: set data.validation_share = 0.1"
    own = with_options(visits(tmp_path), validation="visits.parquet")
    assert for_choosing(config(own)).config.run.evaluate_on == "validation"
    asked = for_choosing(config(own, run={"horizon": 6.0, "evaluate_on": "test"}))
    assert asked.config.run.evaluate_on == "test"
    assert asked.note.endswith("set run.evaluate_on = 'validation'")


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("test_clients", 1.5, "data.test_clients"),
        ("test_clients", [], r"test_clients = \[\]: name at least one client"),
        ("test_clients", {"folds": 1}, "folds"),
        ("test_clients", {"folds": 3, "fold": 4}, "fold = 4: must be at most folds = 3"),
        ("validation_share", 1.0, "validation_share"),
    ],
)
def test_settings_that_make_no_split_are_rejected(key: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        config({"source": "digits", key: value})


def test_clients_without_examples_cannot_be_tested_on() -> None:
    data = {"source": "none", "examples_per_client": 10, "clients": 4, "test_clients": 0.5}
    without = config(data, executor={"kind": "none"}, model={"size_bytes": 100})
    with pytest.raises(ConfigError, match=r"data\.test_clients: clients hold no examples of the data here"):
        build_world(without)
