"""Deployments train on numbers and tokens with the same bits as simulations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.data.sources import load
from fedtempo.deploy.client.answers import Answers
from fedtempo.deploy.client.settings import parse_client
from fedtempo.deploy.live.messages import DataNames
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.errors import ConfigError, RunError
from fedtempo.record import load_run
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import run
from tests.deploy.live.deployments import config
from tests.deploy.live.loopback import Loopback

MODULE = """
import numpy as np

def numbers(columns=1):
    x = np.random.default_rng(1).normal(size=(90, 3)).astype(np.float32)
    y = (x @ np.arange(3.0 * columns).reshape(3, columns) + 3).astype(np.float32)
    y = y[:, 0] if columns == 1 else y
    return x[:60], y[:60], x[60:], y[60:]

def validated():
    x, y, test_x, test_y = numbers()
    return x, y, test_x[:15], test_y[:15], test_x[15:], test_y[15:]

def tokens(symbols=6):
    x = np.random.default_rng(1).integers(0, symbols, (90, 5))
    return x[:60], (x[:60] + 1) % symbols, x[60:], (x[60:] + 1) % symbols
"""
LSTM = {"network": "char-lstm", "hidden": 8, "n_layers": 1, "every_step": True}


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "live_data.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "live_data", raising=False)


def settings(source: str, **changes: Any) -> Config:
    """Return the small configuration on other data; for tokens with a network for sequences."""
    base = config(data__source=source, **changes)
    return base if source in ("live_data:numbers", "live_data:validated") else parse({**base.given, "model": LSTM})


@pytest.fixture
def grids() -> Iterator[Any]:
    opened: list[Loopback] = []

    def grid(source: str, **options: Any) -> Loopback:
        data = {"source": source, "clients": 3, "examples_per_client": 20, "options": options}
        clients = [
            Answers(parse_client({"name": f"c{i}", "insecure": True, "data": {**data, "part": i}})) for i in range(3)
        ]
        opened.append(Loopback(clients))
        return opened[-1]

    yield grid
    for grid_ in opened:
        grid_.close()


@pytest.mark.parametrize("source", ["live_data:numbers", "live_data:tokens"])
def test_numbers_and_tokens_have_the_bits_of_the_simulation(source: str, tmp_path: Path, grids: Any) -> None:
    configured = settings(source)
    simulated, records, _ = run(configured)
    summary = deploy_to_folder(configured, tmp_path / "run", grids(source))
    assert summary["model_sha256"] == simulated["model_sha256"]
    assert summary["measure"] == simulated["measure"] != "accuracy"
    deployed = load_run(tmp_path / "run")
    for column in ("accuracy", "loss", "mae"):
        np.testing.assert_array_equal(deployed.evaluations[column], records.evaluations[column])
    assert deployed.facts["data"]["task"] == records.facts["data"]["task"]


def test_the_servers_validation_examples_are_evaluated_and_decide(tmp_path: Path, grids: Any) -> None:
    configured = settings("live_data:validated", run__patience={"evaluations": 2, "min_delta": 10.0})
    simulated, records, _ = run(configured)
    summary = deploy_to_folder(configured, tmp_path / "run", grids("live_data:validated"))
    assert summary["model_sha256"] == simulated["model_sha256"]
    assert (summary["ended"], summary["end_reason"]) == (simulated["ended"], simulated["end_reason"])
    assert "R² on the validation set did not improve" in str(summary["end_reason"])
    deployed = load_run(tmp_path / "run")
    np.testing.assert_array_equal(deployed.evaluations["accuracy"], records.evaluations["accuracy"])
    for column in ("version", "name", "value"):
        np.testing.assert_array_equal(deployed.further["metrics"][column], records.further["metrics"][column])
    assert set(deployed.further["metrics"]["name"]) == {"validation-r2", "validation-loss", "validation-mae"}


def test_clients_with_other_inputs_or_labels_are_rejected(tmp_path: Path, grids: Any) -> None:
    said: list[str] = []
    grid = grids("digits")
    with pytest.raises(RunError, match="0 of 3 clients joined"):
        deploy_to_folder(settings("live_data:numbers", deploy__wait_s=1.0), tmp_path / "run", grid, say=said.append)
    assert any("its examples have shape (1, 8, 8), not (3,)" in line for line in said)
    (tmp_path / "other_data.py").write_text(
        MODULE.replace(".astype(np.float32)\n    y = y[", ".astype(np.int64) % 2\n    y = y[")
    )
    said.clear()
    with pytest.raises(RunError, match="0 of 3 clients joined"):
        deploy_to_folder(
            settings("live_data:numbers", deploy__wait_s=1.0),
            tmp_path / "two",
            grids("other_data:numbers"),
            say=said.append,
        )
    assert any("its labels are classes, not numbers" in line for line in said)


@pytest.mark.parametrize(
    ("source", "options", "why"),
    [
        ("live_data:numbers", {"columns": 2}, "its labels have 2 numbers each, but the server's have 1"),
        ("live_data:tokens", {"symbols": 9}, "its tokens go up to 8, but the server has 6 tokens"),
    ],
)
def test_labels_unlike_those_of_the_server_are_rejected(
    source: str, options: dict[str, Any], why: str, tmp_path: Path, grids: Any
) -> None:
    configured = settings(source)
    grid, refusals = grids(source, **options), []
    answer = Answers.answer
    for client in grid.clients.values():

        def heard(kind: str, *rest: Any, client: Any = client) -> Any:
            reply = answer(client, kind, *rest)
            refusals.append(reply[0].get("refused"))
            return reply

        client.answer = heard  # type: ignore[method-assign]
    deploy_to_folder(configured.with_changes({"run.horizon": 2.0}), tmp_path / "run", grid)
    assert why in refusals


@pytest.mark.parametrize("key", ["tell_labels", "share_examples"])
def test_settings_for_classes_are_rejected_for_numbers(key: str, tmp_path: Path, grids: Any) -> None:
    configured = settings("live_data:numbers").with_changes({f"data.{key}": True if key == "tell_labels" else 0.5})
    with pytest.raises(
        ConfigError,
        match=f"data.{key}: real clients count and share examples by class, but the labels of live_data:numbers",
    ):
        deploy_to_folder(configured, tmp_path / "run", grids("live_data:numbers"))


def test_classes_are_numbered_as_on_the_server(tmp_path: Path) -> None:
    """If a client's file lacks a class, the other classes keep their numbers."""
    rng = np.random.default_rng(3)
    kinds = ["ash", "birch", "cedar"]

    def table(name: str, of: list[str], rows: int = 20) -> str:
        lines = [f"{rng.normal(kinds.index(kind)):.3f},{rng.normal():.3f},{kind}" for kind in of for _ in range(rows)]
        (tmp_path / name).write_text("\n".join(["height,width,tree", *lines]))
        return f"table:{tmp_path / name}"

    held = [["cedar"], ["birch", "cedar"], kinds]
    clients = [
        Answers(parse_client({"name": f"c{i}", "insecure": True, "tell_labels": True, "data": data}))
        for i, of in enumerate(held)
        if (data := {"source": table(f"client{i}.csv", of), "options": {"label": "tree"}})
    ]
    assert clients[0]._y.max() == 0
    grid = Loopback(clients)
    configured = config(data__source=table("server.csv", kinds), data__options={"label": "tree"}, run__max_commits=2)
    deploy_to_folder(configured.with_changes({"data.examples_per_client": 1}), tmp_path / "run", grid)
    assert set(clients[0]._y) == {2}
    assert set(clients[1]._y) == {1, 2}
    counts = np.array(load_run(tmp_path / "run").facts["label_histograms"])
    assert (counts > 0).tolist() == [[False, False, True], [False, True, True], [True, True, True]]
    stranger = {"source": table("stranger.csv", kinds).replace("server", "stranger"), "options": {"label": "tree"}}
    (tmp_path / "stranger.csv").write_text((tmp_path / "stranger.csv").read_text().replace("ash", "willow"))
    odd = Answers(parse_client({"name": "odd", "insecure": True, "data": stranger}))
    reply, _ = odd.answer("describe", {"class_names": kinds}, ())
    assert reply == {"refused": "its class 'willow' is not among the server's: ash, birch, cedar"}
    grid.close()


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (
            ["height", "ward", "width"],
            "its features lack the server's ward = a and have height, which the server's lack",
        ),
        (
            ["width", "ward"],
            "its features are in another order, width, ward = a, ward = b, than the server's, ward = a",
        ),
        (["ward", "width"], None),
    ],
)
def test_a_client_with_other_features_is_rejected(tmp_path: Path, columns: list[str], says: str | None) -> None:
    """Columns in another order, and other categories, may have the same shape."""
    rows = [f"{i / 7},{'ab'[i % 2]},{i / 9},{'xy'[i // 2 % 2]}" for i in range(20)]
    lines = ["width,ward,height,kind", *rows]
    (tmp_path / "server.csv").write_text("\n".join(lines) + "\n")
    if "height" in columns:
        lines = [lines[0], *(line.replace(",a,", ",b,") for line in rows)]
    (tmp_path / "client.csv").write_text("\n".join(lines) + "\n")
    options = {"label": "kind", "features": columns}
    data = {"source": f"table:{tmp_path / 'client.csv'}", "options": options}
    client = Answers(parse_client({"name": "c", "insecure": True, "data": data}))
    servers = load(f"table:{tmp_path / 'server.csv'}", label="kind", features=["ward", "width"]).feature_names
    assert servers == ("ward = a", "ward = b", "width")
    reply, _ = client.answer("describe", DataNames(["x", "y"], servers).all, ())
    if says is None:
        assert reply["num_examples"] == 20
    else:
        assert str(reply["refused"]).startswith(says)
    assert "refused" not in client.answer("describe", {"call": "again"}, ())[0]
