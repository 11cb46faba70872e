"""What each client holds, before anything trains: by hand, in a frame, in a picture and in the terminal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from fedtempo import ConfigError, Experiment
from fedtempo.cli import app
from fedtempo.runs.data_description import DataDescription

ROWS = """client,patient,age,label
site10,a,61,yes
site10,b,40,no
site2,c,58,yes
site2,d,70,yes
site2,e,33,no
site1,f,20,no
site1,g,21,no
"""
REST = """
run = { horizon = 5.0 }
strategy = { name = "fedavg" }
fleet = { compute = { unit = "s/visit", speed = [1.0, 2.0, 10.0] }, link = "none", estimates = "exact" }
"""


def written(folder: Path, rows: str = ROWS, data: str = "", options: str = "") -> Path:
    (folder / "rows.csv").write_text(rows, encoding="utf-8")
    (folder / "later.csv").write_text("client,patient,age,label\nsite1,h,5,yes\nsite2,i,6,no\n", encoding="utf-8")
    columns = 'client = "client", label = "label", features = ["age"], test = "later.csv"'
    path = folder / "data.toml"
    path.write_text(
        f'{REST}\n[data]\nsource = "table:rows.csv"\noptions = {{ {columns}{options} }}\n{data}\n', encoding="utf-8"
    )
    return path


def described(path: Path) -> DataDescription:
    return Experiment.from_toml(path).describe_data()


def test_each_client_is_counted_in_natural_order(tmp_path: Path) -> None:
    data = described(written(tmp_path))
    assert [client.name for client in data.clients] == ["site1", "site2", "site10"]
    assert [client.examples for client in data.clients] == [2, 3, 2]
    assert data.class_names == ("no", "yes")
    assert data.counts.tolist() == [[2, 0], [1, 2], [1, 1]]
    assert [(split.name, split.examples, split.counts.tolist()) for split in data.splits] == [
        ("training", 7, [4, 3]),
        ("test", 2, [1, 1]),
    ]
    assert (data.task, data.shape) == ("classes", [1])
    frame = data.frame()
    assert frame.columns.tolist() == ["name", "trains", "examples", "validation", "tests", "missing", "no", "yes"]
    assert frame["yes"].tolist() == [0, 2, 1]


def test_examples_that_are_held_out_are_counted_apart(tmp_path: Path) -> None:
    held = 'test_clients = ["site10"]\nvalidation_share = 0.3\nclient_test_share = 0.4'
    data = described(written(tmp_path, ROWS + "site1,j,1,no\nsite1,k,2,no\n", held))
    assert [(each.name, each.trains, each.examples, each.validation, each.tests) for each in data.clients] == [
        ("site1", True, 2, 1, 1),  # four: 1.2 round to 1, then 1.2 of three
        ("site2", True, 1, 1, 1),  # three: 0.9 rounds to 1, then 0.8 of two
        ("site10", False, 2, 0, 0),
    ]
    names = [(split.name, split.examples) for split in data.splits]
    assert names == [("training", 3), ("validation", 2), ("test", 2)]
    assert data.about.endswith(
        "tested on 2 examples of clients that do not take part (1): site10; 2 other test examples of the data not used"
    )
    chosen = Experiment.from_toml(tmp_path / "data.toml", 'run.evaluate_on="validation"').describe_data()
    assert [split.name for split in chosen.splits] == ["training", "validation, in place of the test set"]


def test_missing_values_of_features_are_counted(tmp_path: Path) -> None:
    rows = (
        ROWS.replace("site2,c,58", "site2,c,").replace("site10,a,61", "site10,a,NA").replace("site1,g,21", "site1,g,?")
    )
    path = written(tmp_path, rows, options=', missing = "median"')
    data = described(path)
    assert [client.missing for client in data.clients] == [1, 1, 1]
    assert [split.missing for split in data.splits] == [3, None]
    held = Experiment.from_toml(path, 'data.test_clients=["site2"]').describe_data()
    assert [client.missing for client in held.clients] == [1, 1, 1]
    assert held.splits[0].missing == 2
    fleet = {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"}
    digits = Experiment(data={"source": "digits", "clients": 3}, fleet=fleet, strategy="fedavg", run={"horizon": 1.0})
    assert [client.missing for client in digits.describe_data().clients] == [None] * 3


def test_numbers_have_mean_and_deviation_and_tokens_neither(tmp_path: Path) -> None:
    written(tmp_path, ROWS.replace("yes", "3.5").replace("no", "1.25"), options=', task = "numbers"')
    later = tmp_path / "later.csv"
    later.write_text("client,patient,age,label\nsite1,h,5,2.5\n", encoding="utf-8")
    numbers = described(tmp_path / "data.toml")
    assert [client.mean for client in numbers.clients] == [1.25, 2.75, 2.375]
    assert numbers.clients[2].std == 1.125
    assert numbers.class_names == ()
    for name in ("anna", "bob"):
        (tmp_path / "letters" / f"{name}.txt").parent.mkdir(exist_ok=True)
        (tmp_path / "letters" / f"{name}.txt").write_text("dear all, " * 30, encoding="utf-8")
    data = {"source": f"text:{tmp_path / 'letters'}", "options": {"length": 20}}
    fleet = {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"}
    letters = Experiment(data=data, fleet=fleet, strategy="fedavg", run={"horizon": 1.0}).describe_data()
    assert [client.name for client in letters.clients] == ["anna.txt", "bob.txt"]
    assert letters.clients[0].mean is None
    assert not letters.counts.size
    letters.save_figure(tmp_path / "letters.png")


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app.app, list(arguments), terminal_width=100)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_the_command_prints_tables_and_draws_a_picture(tmp_path: Path) -> None:
    path, picture = written(tmp_path, data='test_clients = ["site10"]'), tmp_path / "data.png"
    output = printed("describe", "data", str(path), "--out", str(picture))
    assert "task classes of 2 classes: no, yes; one example has the shape 1" in output
    assert "clients that train: 2, on 2 to 3 examples (median 2); clients that are tested on: 1" in output
    rows = [line.split() for line in output.splitlines()]
    assert ["site2", "3", "trains", "0", "2", "of", "2"] in rows
    assert ["site10", "2", "tested", "on", "0", "2", "of", "2"] in rows
    assert ["site2", "1", "2"] in rows
    assert ["training", "3", "2"] in rows
    with Image.open(picture) as image:
        assert image.size[0] > 500
    many = printed(
        "describe", "data", str(path), "--set", "data.source=digits", "--set", "data.options={}",
        "--set", "data.clients=100", "--set", "data.test_clients=0.1", "--set", "fleet.compute.speed=1.0",
    )  # fmt: skip
    assert len([line for line in many.splitlines() if line.strip().startswith("...")]) == 2
    assert "clients that train: 90" in many


def test_other_names_take_no_configuration(tmp_path: Path) -> None:
    for arguments in (["lr", str(written(tmp_path))], ["data", "--out", "x.png"], ["fedavg", "--set", "a.b=1"]):
        with pytest.raises(ConfigError, match="only `fedtempo describe data CONFIG` takes a configuration"):
            printed("describe", *arguments)
    with pytest.raises(ConfigError, match="there are no data to describe"):
        Experiment(data="none", strategy="fedavg", fleet="psfl-uniform", run={"horizon": 1.0}).describe_data()


def test_many_classes_are_drawn_as_an_image(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "many.npz", train_x=np.zeros((300, 2)), train_y=np.arange(300) % 30, train_owners=np.arange(300) % 4
    )
    fleet = {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"}
    data = {"source": f"npz:{tmp_path / 'many.npz'}"}
    many = Experiment(data=data, fleet=fleet, strategy="fedavg", run={"horizon": 1.0}).describe_data()
    assert many.counts.shape == (4, 30)
    for suffix in ("png", "svg", "pdf"):
        assert many.save_figure(tmp_path / f"data.{suffix}").stat().st_size > 1000
