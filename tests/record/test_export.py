"""Exported tables keep their types and missing values."""

import json

import pyarrow.csv
import pyarrow.parquet
import pytest

from fedtempo.errors import ConfigError, RunError
from fedtempo.record import Recorder, load_run
from fedtempo.record.export import export
from fedtempo.record.recorder import VisitRow


@pytest.fixture
def run(tmp_path):
    recorder = Recorder(tmp_path)
    recorder.fact("client_names", ["a, b", 'c "d"'])
    recorder.note("clusters", [0, 1])
    recorder.visit(VisitRow(0, 1, None, 0, 0.0, 0.0, 0.5, None, 2.0, "cut", 100, None))
    recorder.visit(VisitRow(1, 0, 4, 0, 0.0, 0.0, 0.5, 1.5, 2.0, "done", 100, 0.25))
    recorder.commit(1, 2.0, 0)
    recorder.close()
    return load_run(tmp_path)


@pytest.mark.parametrize("to", ["parquet", "csv"])
def test_exported_tables_read_back_unchanged(run, to, tmp_path):
    paths = export(run, to, tmp_path / "tables")
    read = pyarrow.parquet.read_table if to == "parquet" else pyarrow.csv.read_csv
    tables = {path.stem: read(path).to_pydict() for path in paths}
    assert sorted(tables) == ["commits", "evaluations", "facts", "notes", "visits"]
    assert tables["visits"]["number"] == [0, 1]
    assert tables["visits"]["group"] == [None, 4]
    assert tables["visits"]["computed"] == [None, 1.5]
    assert tables["visits"]["outcome"] == ["cut", "done"]
    assert tables["visits"]["loss"] == [None, 0.25]
    assert tables["commits"] == {"version": [1], "time": [2.0], "staleness": [0]}
    assert tables["evaluations"]["accuracy"] == []
    facts = dict(zip(tables["facts"]["name"], tables["facts"]["value"]))
    assert json.loads(facts["client_names"]) == ["a, b", 'c "d"']
    assert tables["notes"] == {"name": ["clusters"], "value": ["[0, 1]"]}


def test_an_unknown_format_and_an_unwritable_folder_are_rejected(run, tmp_path):
    with pytest.raises(ConfigError, match="to = 'xlsx': must be parquet or csv"):
        export(run, "xlsx", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="could not be written"):
        export(run, "csv", tmp_path / "file")
