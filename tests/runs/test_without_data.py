"""Schedules of clients without examples: from no data, distributions, columns, and beyond what the data hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.errors import ConfigError
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import run
from fedtempo.runs.world import build_world
from fedtempo.studies.plan import predict

FLEET = {"compute": {"unit": "s/example", "speed": 0.5}, "link": "none", "estimates": "exact"}
BASE: dict[str, Any] = {
    "run": {"horizon": 100.0},
    "model": {"size_bytes": 1000},
    "fleet": FLEET,
    "strategy": {"name": "fedavg"},
    "executor": {"kind": "none"},
}


def config(data: dict[str, Any], **changes: Any) -> Config:
    return parse({**BASE, "data": data}).with_changes({key.replace("__", "."): value for key, value in changes.items()})


def counts(data: dict[str, Any], **changes: Any) -> list[int]:
    return [client.num_examples for client in build_world(config(data, **changes)).clients]


def test_more_clients_than_the_data_have_examples() -> None:
    world = build_world(config({"clients": 100_000, "examples_per_client": 20}))
    assert (len(world.clients), world.owned, world.histograms) == (100_000, [], [])
    assert {client.num_examples for client in world.clients} == {20}
    assert world.dataset.about == "none: 100,000 clients that count 20 examples each"


def test_what_the_data_hold_is_dealt_as_before() -> None:
    world = build_world(config({"clients": 70, "examples_per_client": 20}))  # 1,400 of 1,438
    assert [len(rows) for rows in world.owned] == [20] * 70
    assert build_world(config({"clients": 80, "examples_per_client": 20})).owned == []


def test_visits_take_the_time_of_the_counted_examples() -> None:
    # 20 examples of 0.5 s: ten rounds of 10 s within the horizon.
    summary, records, _ = run(config({"clients": 5000, "examples_per_client": 20}, strategy__clients_per_round=3))
    assert (summary["commits"], summary["visits"], summary["examples_trained"]) == (10, 30, 600)
    assert records.facts["data"]["train"] == 100_000
    assert records.facts["label_histograms"] is None


def test_a_range_and_distributions() -> None:
    drawn = counts({"source": "none", "clients": 1000, "examples_per_client": [3, 5]})
    assert set(drawn) == {3, 4, 5}
    few = counts({"source": "none", "clients": 1000, "examples_per_client": {"kind": "exponential", "mean": 0.5}})
    assert set(few) >= {1, 2}
    assert min(few) == 1  # no client is without examples
    listed = {"kind": "list", "values": [1.4, 2.6, 30.0]}
    assert counts({"source": "digits", "clients": 3, "examples_per_client": listed}) == [1, 3, 30]


def test_sizes_depend_on_the_seed_alone() -> None:
    data = {"source": "none", "clients": 50, "examples_per_client": {"kind": "uniform", "low": 10, "high": 99}}
    assert counts(data) == counts(data, strategy__name="fedbuff")
    assert counts(data) != counts(data, run__seed=2)


def test_a_column(tmp_path: Path) -> None:
    table = tmp_path / "phones.csv"
    table.write_text("phone,images\na,12\nb,3.6\nc,0\n", encoding="utf-8")
    column = {"file": str(table), "column": "images"}
    assert counts({"source": "none", "examples_per_client": column}) == [12, 4, 1]
    for data, message in (
        ({"clients": 4, "examples_per_client": column}, r"phones\.csv has 3 rows for 4 clients; give one row per"),
        ({"examples_per_client": {**column, "column": "image"}}, r"has no column 'image'; did you mean 'images'\?"),
        ({"examples_per_client": {**column, "column": "phone"}}, r"phones\.csv, line 2: 'a' is no number"),
        ({"examples_per_client": {**column, "file": "no.csv"}}, r"no\.csv cannot be read: No such file"),
    ):
        with pytest.raises(ConfigError, match=r"data\.examples_per_client: .*" + message):
            counts({"source": "none", **data})
    table.write_text("images\n5\n-1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"client 1 has -1; it must lie in 0 to 1e\+12"):
        counts({"source": "none", "examples_per_client": column})


@pytest.mark.parametrize(
    ("data", "changes", "message"),
    [
        ({"source": "none"}, {}, r"data\.examples_per_client is missing: without data, say how many"),
        (
            {"clients": 9999},
            {},
            r"more clients than examples \(1438\); lower clients; or set data\.examples_per_client",
        ),
        (
            {"source": "none", "clients": 3, "examples_per_client": 5},
            {"executor__kind": "inline"},
            r"data\.source = 'none': nothing to train on",
        ),
        (
            {"clients": 3, "examples_per_client": {"kind": "constant", "value": 5}},
            {"executor__kind": "inline"},
            r"data\.examples_per_client: a distribution or a column is for executor\.kind = 'none' and plans",
        ),
        (
            {"clients": 9999, "examples_per_client": 20},
            {"executor__kind": "inline"},
            r"9999 clients need 199980 examples, but the data have 1438; lower examples_per_client or clients",
        ),
        ({"examples_per_client": {"kind": "triangle"}}, {}, r"data\.examples_per_client: .*triangle"),
        ({"examples_per_client": {"file": "x.csv"}}, {}, r"data\.examples_per_client: column: column: "),
    ],
)
def test_what_cannot_be_planned(data: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        build_world(config(data, **changes))
    assert "\n" not in str(caught.value)


def test_without_data_the_size_of_a_model_must_be_given() -> None:
    data = {"source": "none", "clients": 3, "examples_per_client": 5}
    with pytest.raises(ConfigError, match=r"model\.size_bytes is missing: without data, give the bytes of a model"):
        predict(config(data, model__size_bytes=None))


def test_a_plan_from_a_configuration_that_trains() -> None:
    trains = {**BASE, "executor": {"kind": "inline"}, "data": {"clients": 3000, "examples_per_client": [10, 30]}}
    summary = predict(parse(trains), quiet=True).summary
    assert summary["visits"] > 0
    assert (summary["final_accuracy"], summary["data"]["about"]) == (
        None,
        "none: 3,000 clients that count 10 to 30 examples each",
    )


@pytest.mark.parametrize(
    ("strategy", "settings"),
    [
        ("fedbuff", {"clients_at_once": 10}),
        ("oort", {}),
        ("fedcs", {}),
        ("psfl", {"width": 3, "length": 4}),
        ("fedasync", {}),
        ("csgd", {"n_clusters": 3}),
    ],
)
def test_strategies_plan_without_data(strategy: str, settings: dict[str, Any]) -> None:
    data = {"source": "none", "clients": 2000, "examples_per_client": {"kind": "uniform", "low": 5, "high": 50}}
    tables = {**BASE, "data": data, "strategy": {"name": strategy, **settings}}
    summary = predict(parse(tables), quiet=True).summary
    assert summary["visits"] > 0
    again = predict(parse(tables), quiet=True).summary
    assert summary["events_sha256"] == again["events_sha256"]


def test_strategies_that_need_examples_say_so() -> None:
    data = {"source": "none", "clients": 20, "examples_per_client": 5, "share_examples": 1.0}
    tables = {**BASE, "data": data, "strategy": {"name": "hybrid-fl"}}
    with pytest.raises(ConfigError):
        predict(parse(tables), quiet=True)
    clustered = {**BASE, "data": data, "strategy": {"name": "hybrid"}}
    with pytest.raises(ConfigError, match="label"):
        predict(parse(clustered), quiet=True)


def test_clients_do_not_train_on_their_own_test_sets() -> None:
    data = {"source": "none", "clients": 4, "examples_per_client": 10, "client_test_share": 0.25}
    assert counts(data) == [8, 8, 8, 8]  # 2.5 is rounded to the even number


def test_sizes_of_a_million_clients_are_arrays() -> None:
    world = build_world(config({"source": "none", "clients": 200_000, "examples_per_client": [10, 100]}))
    sizes = np.array([client.num_examples for client in world.clients])
    assert sizes.mean() == pytest.approx(55, abs=0.5)
