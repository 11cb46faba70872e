"""Windows of a table by client and time: rows, labels, splits and errors, worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.data.sources import load
from fedtempo.data.windows import window_rows
from fedtempo.errors import ConfigError
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from tests.strategies.test_every_strategy import BASE


def table(tmp_path: Path, lines: list[str], name: str = "load.csv") -> str:
    Path(tmp_path, name).write_text("\n".join(lines) + "\n")
    return f"table:{tmp_path / name}"


def loads(tmp_path: Path, **options: Any) -> Any:
    """Return the windows of two clients: a has loads 10, 11, ..., 19 at hours 0 to 9, b 50, ..., 54 at 0 to 4.

    The rows of a come in reverse, and mixed with those of b.
    """
    a = [f"a,{hour},{10 + hour},{hour % 2}" for hour in reversed(range(10))]
    b = [f"b,{hour},{50 + hour},{hour % 2}" for hour in range(5)]
    lines = ["site,hour,load,open", *a[:3], *b, *a[3:]]
    settings = {"label": "load", "client": "site", "time": "hour", "task": "numbers", "test_share": 0.4}
    return load(table(tmp_path, lines), **(settings | options))


def test_windows_are_rows_of_one_series_in_the_order_of_time() -> None:
    series, times = np.array([0, 1, 0, 0, 1, 0]), np.array([3.0, 1.0, 1.0, 2.0, 0.0, 4.0])
    everything = np.arange(6)
    assert window_rows(series, times, everything, 2, 1).tolist() == [[2, 3], [3, 0], [0, 5], [4, 1]]
    assert window_rows(series, times, everything, 2, 2).tolist() == [[2, 3], [0, 5], [4, 1]]
    assert window_rows(series, times, np.array([0, 2, 5]), 3, 1).tolist() == [[2, 0, 5]]
    assert window_rows(series, times, everything, 5, 1).shape == (0, 5)


def test_the_next_row_is_predicted_from_the_rows_before_and_no_window_crosses_the_split(tmp_path: Path) -> None:
    """Of a's ten rows the last four are test rows, of b's five the last two."""
    data = loads(tmp_path, window=2)
    assert (data.task, data.n_classes, data.owner_names) == ("numbers", 1, ("a", "b"))
    # a's training rows are 10 to 15: windows (10, 11) -> 12, ..., (13, 14) -> 15; b's are 50 to 52.
    assert data.train_y.tolist() == [12, 13, 14, 15, 52]
    assert data.train_x[:, :, 0].tolist() == [[10, 11], [11, 12], [12, 13], [13, 14], [50, 51]]
    assert data.train_x[0].tolist() == [[10, 0], [11, 1]]  # the load itself, then "open"
    assert data.train_owners.tolist() == [0, 0, 0, 0, 1]
    assert data.train_times.tolist() == [2, 3, 4, 5, 2]
    assert data.train_starts is None
    assert data.test_y.tolist() == [18, 19]  # from 16 to 19; b's 53 and 54 are too few
    assert data.test_x[:, :, 0].tolist() == [[16, 17], [17, 18]]
    assert data.test_owners.tolist() == [0, 0]
    assert data.about == (
        "numbers of 'load' of the next row, from windows of 2 rows of load, open by 'hour', 2 clients by 'site': a, b, "
        "the latest rows by 'hour' held out"
    )
    assert data.warnings == ()


def test_several_rows_ahead_are_predicted_together(tmp_path: Path) -> None:
    data = loads(tmp_path, window=2, horizon=2, features=["open"], stride=2)
    assert data.train_y.tolist() == [[12, 13], [14, 15]]
    assert data.train_x.tolist() == [[[0], [1]], [[0], [1]]]
    assert data.test_y.tolist() == [[18, 19]]
    assert data.train_starts.tolist() == [2, 4]
    assert (data.n_classes, data.task) == (2, "numbers")
    assert data.warnings == ("clients with fewer than 4 training rows have no window: b",)


def test_the_class_of_the_last_row_is_predicted_from_its_window(tmp_path: Path) -> None:
    data = loads(tmp_path, window=3, horizon=0, label="open", task="classes", features=["load"])
    assert data.train_y.tolist() == [0, 1, 0, 1, 0]  # of hours 2 to 5 of a, and 2 of b
    assert data.train_x[0].tolist() == [[10], [11], [12]]
    assert (data.n_classes, data.class_names) == (2, ("0", "1"))
    assert "classes of 'open': 0, 1 of their last row" in data.about
    next_class = loads(tmp_path, window=2, label="open", task="classes")
    assert next_class.train_y.tolist() == [0, 1, 0, 1, 0]
    assert next_class.train_x[0].tolist() == [[0, 10], [1, 11]]


def test_a_file_of_test_rows_has_windows_of_its_own(tmp_path: Path) -> None:
    table(
        tmp_path,
        ["site,hour,load,open", "a,20,70,0", "a,21,71,1", "a,22,72,0", "c,5,1,0", "c,6,2,0", "c,7,3,0"],
        "new.csv",
    )
    data = loads(tmp_path, window=2, test="new.csv", test_share=0.2)
    assert data.test_y.tolist() == [72, 3]
    assert data.test_owners.tolist() == [0, -1]
    assert len(data.train_y) == 8 + 3
    table(tmp_path, ["hour,load,open", "20,70,0"], "nobody.csv")
    with pytest.raises(ConfigError, match=r"nobody.csv: no column 'site'"):
        loads(tmp_path, window=2, test="nobody.csv", test_share=0.2)


def test_standardised_windows_scale_by_the_training_rows_and_scale_the_label(tmp_path: Path) -> None:
    data = loads(tmp_path, window=2, standardize=True)
    rows = np.array([10, 11, 12, 13, 14, 15, 50, 51, 52], dtype=np.float64)
    scaled = (rows - rows.mean()) / rows.std()
    np.testing.assert_allclose(data.train_y, scaled[[2, 3, 4, 5, 8]], rtol=1e-6)
    np.testing.assert_allclose(data.train_x[0, :, 0], scaled[:2], rtol=1e-6)
    assert f"numbers of 'load' in units of {rows.std():.4g} from {rows.mean():.4g} of the next row" in data.about
    assert loads(tmp_path, window=2, horizon=0, features=["open"], standardize=True).train_y[0] == 11


def test_dates_order_rows_and_gaps_are_said(tmp_path: Path) -> None:
    days = [
        "2024-03-01",
        "2024-03-02",
        "2024-03-03",
        "2024-03-04",
        "2024-03-20",
        "2024-03-21",
        "2024-03-22",
        "2024-03-23",
    ]
    lines = ["day,y", *(f"{day},{i + 0.5}" for i, day in enumerate(days))]
    data = load(table(tmp_path, lines[:1] + lines[:0:-1]), label="y", time="day", window=2, test_share=0.4)
    assert data.train_y.tolist() == [2.5, 3.5, 4.5]
    assert data.warnings == (
        "1 of 7 steps of 'day' are longer than the usual 86400, and windows, which are numbers of rows, cross them",
    )


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"window": 2, "time": None}, r"window = 2: set time to the column"),
        ({"window": 0}, r"window = 0: must be a whole number of rows, 1 or more"),
        ({"window": 2, "horizon": -1}, r"horizon = -1: must be a whole number of rows, 0 or more"),
        ({"window": 2, "stride": 0}, r"stride = 0: must be a whole number of rows, 1 or more"),
        ({"window": 2.5}, r"window = 2.5: must be a whole number of rows"),
        ({"horizon": 3}, r"horizon = 3: needs window"),
        (
            {"window": 2, "horizon": 2, "label": "open", "task": "classes"},
            r"horizon = 2: 'open' holds classes, of which",
        ),
        ({"window": 2, "horizon": 0, "features": ["load"]}, r"features: 'load' would be predicted from itself"),
        ({"window": 8}, r"window = 8, horizon = 1: no client has 9 training rows; use a shorter window"),
        ({"window": 4, "horizon": 1, "test_share": 0.1}, r"no client has 5 test rows"),
        ({"window": 2, "tokenizer": "x"}, r"window = 2: does not work with tokenizer"),
    ],
)
def test_options_that_do_not_fit_are_rejected_in_one_line(tmp_path: Path, options: Any, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        loads(tmp_path, **options)


def test_two_rows_of_a_client_with_the_same_time_are_an_error(tmp_path: Path) -> None:
    lines = ["site,hour,load", "a,1,3.5", "b,1,4.5", "a,2,5.5", "a,1,6.5"]
    with pytest.raises(ConfigError, match=r"load.csv: row 5: 'hour' has the same 'hour' as another row of its client"):
        load(table(tmp_path, lines), label="load", client="site", time="hour", window=1)


@pytest.mark.parametrize(
    "network", [{"network": "gru", "hidden": 16}, {"network": "cnn-1d", "channels": [8, 8], "kernel": 3}]
)
def test_a_run_learns_to_predict_a_wave(tmp_path: Path, network: Any) -> None:
    lines = ["site,hour,load"]
    for site in range(2):
        lines += [f"{site},{hour},{300 + 50 * np.sin(2 * np.pi * (hour + 3 * site) / 12):.4f}" for hour in range(90)]
    options = {"label": "load", "client": "site", "time": "hour", "window": 12, "standardize": True}
    tables = {
        **BASE,
        "run": {"horizon": 90.0, "evaluate_every": 30.0},
        "data": {"source": table(tmp_path, lines), "options": options},
        "model": network,
        "training": {"lr": 0.1, "momentum": 0.9, "batch_size": 10},
        "strategy": {"name": "fedavg", "clients_per_round": 2},
        "executor": {"kind": "inline"},
    }
    summary, _, _ = run(parse(tables))
    assert summary["final_accuracy"] > 0.9  # R²
