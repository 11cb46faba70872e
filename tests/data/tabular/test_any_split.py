"""Splits by group, time, window and file of any table: read without leaks, or rejected in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from tests.data.tabular.test_any_table import ANY, COLUMN, arrow_tables, check, files, options_of_tables

FEWER = settings(ANY, max_examples=60)
SPLITS = st.fixed_dictionaries(
    {},
    optional={
        "group": COLUMN,
        "time": COLUMN,
        "validation": st.sampled_from(["test.csv", "none.csv"]),
        "window": st.integers(0, 3),
        "horizon": st.integers(-1, 2),
        "stride": st.integers(0, 2),
    },
)


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    """Return some options of tables, and some of splits."""
    return {**draw(options_of_tables()), **draw(SPLITS)}


@FEWER
@given(content=files(), tests=files(), chosen=options())
def test_any_table_is_split_or_rejected(tmp_path: Path, content: bytes, tests: bytes, chosen: dict[str, Any]) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    (tmp_path / "test.csv").write_bytes(tests)
    check(f"table:{tmp_path / 't.csv'}", chosen)


@FEWER
@given(table=arrow_tables(), chosen=options())
def test_any_parquet_table_is_split_or_rejected(tmp_path: Path, table: pa.Table, chosen: dict[str, Any]) -> None:
    parquet.write_table(table, tmp_path / "t.parquet")
    parquet.write_table(table, tmp_path / "test.parquet")
    named = {option: "test.parquet" for option in ("test", "validation") if option in chosen}
    check(f"table:{tmp_path / 't.parquet'}", {**chosen, **named})


@FEWER
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 5), st.sampled_from("ab")),
        min_size=12,
        max_size=40,
    ),
    share=st.floats(0.1, 0.6),
    by=st.sampled_from(["time", "group"]),
    dated=st.booleans(),
)
def test_no_split_leaks(
    tmp_path: Path, rows: list[tuple[int, int, int, str]], share: float, by: str, dated: bool
) -> None:
    """The row's number is the only feature, so that each example is known again."""
    who, when, patient, label = zip(*rows)
    times = [f"2024-01-{1 + day:02}" for day in when] if dated else list(when)
    columns = {"n": list(range(len(rows))), "who": who, "when": times, "patient": patient, "label": label}
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    column = {"time": "when", "group": "patient"}[by]
    split = {by: column, "client": "who", "features": ["n"], "test_share": share}
    data = check(f"table:{tmp_path / 't.parquet'}", split)
    if data is None:
        return
    train, test = (x[:, 0].astype(int) for x in (data.train_x, data.test_x))
    assert sorted([*train, *test]) == list(range(len(rows)))
    if by == "group":
        assert {patient[i] for i in train}.isdisjoint(patient[i] for i in test)
        assert data.train_groups is not None
        assert len(set(zip(data.train_groups.tolist(), [patient[i] for i in train]))) == len(
            {patient[i] for i in train}
        )
    else:
        last = {client: max(when[i] for i in train if who[i] == client) for client in {who[i] for i in train}}
        assert all(when[i] > last[who[i]] for i in test)
        assert data.train_times is not None
        order = np.argsort(data.train_times, kind="stable")
        assert (np.diff(np.array(when)[train[order]]) >= 0).all()
