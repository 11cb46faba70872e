"""Small files that would fill memory are rejected, in one line, by a process that may map 1 GB."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import bombs
from tests.report.fake_runs import fake_run

TAKES = r"takes? [\d,]+ bytes of memory, more than [\d,]+"


RUN_FILES = {"config.toml", "summary.json", "run.sqlite"}
BOMBS: dict[str, tuple[str, str, Callable[[Path], None], str]] = {
    "npz, overlapping arrays": ("npz", "a.npz", bombs.overlapping_npz, "its arrays overlap"),
    "npz, compressed": ("npz", "a.npz", bombs.compressed_npz, TAKES),
    "npz, long header": ("npz", "a.npz", bombs.long_npy_header, "EOF: reading array header"),
    "npz, items of no bytes": ("npz", "a.npz", bombs.empty_items, r"announces the shape \(1099511627776,\)"),
    "IDX, compressed": ("idx", "a", bombs.packed_idx, TAKES),
    "Parquet, dictionary": ("table", "a.parquet", bombs.dictionary_parquet, TAKES),
    "Parquet, type with a dictionary": ("table", "a.parquet", bombs.dictionary_typed_parquet, TAKES),
    "Parquet, equal numbers": ("table", "a.parquet", bombs.equal_numbers_parquet, TAKES),
    "Parquet, compressed": ("table", "a.parquet", bombs.packed_parquet, TAKES),
    "Parquet, texts with the same beginning": ("table", "a.parquet", bombs.common_beginnings_parquet, TAKES),
    "CSV, columns": ("table", "a.csv", bombs.wide_csv, TAKES),
    "trace": ("trace", "a.csv", bombs.trace_csv, "its rows would take"),
    "configuration, dotted key": ("configuration", "a.toml", bombs.dotted_toml, "more than 50 parts"),
    "configuration, quoted key": ("configuration", "a.toml", bombs.quoted_dotted_toml, "more than 50 parts"),
    "configuration, tables": ("configuration", "a.toml", bombs.many_tables_toml, "its values would take"),
    "configuration, values": ("configuration", "a.toml", bombs.values_of_toml, "its values would take"),
    "client, dotted key": ("client", "a.toml", bombs.dotted_toml, "more than 50 parts"),
    "run, config.toml": ("run", "config.toml", bombs.dotted_toml, "config.toml cannot be read: a key has more"),
    "run, summary.json": ("run", "summary.json", bombs.values_of_json, "summary.json cannot be read: its values would"),
    "run, database": ("run", "run.sqlite", bombs.shared_pages, "commits holds more rows than the file"),
    "devices": ("devices", "a.json", bombs.values_of_json, "its values would take"),
    "events": ("events", "a.json", bombs.values_of_json, "its values would take"),
    "events, deep": ("events", "a.json", bombs.deep_json, "its values would take|within each other"),
    "LEAF, values": ("leaf", "a.json", bombs.values_of_json, "its values would take"),
    "LEAF, texts": ("leaf", "a.json", bombs.wide_leaf_texts, "the longest text decides"),
    "LEAF, names": ("leaf", "a.json", bombs.wide_leaf_names, "the longest text decides"),
    "image, pixels": ("folder", "a", bombs.large_png, f"decoding it {TAKES}"),
    "images, together": ("folder", "a", bombs.many_pictures, TAKES),
    "sounds, slow": ("audio", "a", bombs.slow_sounds, f"resampling from 1 to 16,000 samples per second: {TAKES}"),
    "sounds, fast": ("audio", "a", bombs.fast_sounds, f"resampling from 4,294,967,295 .*{TAKES}"),
    "sounds, announced": ("audio", "a", bombs.announcing_sounds, "cannot be read as a WAV file"),
    "model, header": ("model", "a.safetensors", bombs.long_tensor_header, "is damaged"),
    "initial model, list": ("tensors", "a.safetensors", bombs.listed_tensors, "the list of its tensors takes"),
    "initial model, zeros": ("tensors", "a.pt", bombs.zeros_pt, "holds more than tensors"),
    "initial model, repeated value": ("tensors", "a.pt", bombs.repeated_pt, TAKES),
    "initial model, sparse": ("tensors", "a.pt", bombs.sparse_pt, TAKES),
    "initial model, overlapping records": ("tensors", "a.pt", bombs.overlapping_pt, "its records overlap"),
    "initial model, objects": ("tensors", "a.pt", bombs.objects_pt, "its objects take"),
    "journal": ("journal", "journal.jsonl", bombs.deep_json, "is damaged"),
}


ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What reading each file said."""
    root = tmp_path_factory.mktemp("bombs")
    for number, (name, (_, file, make, _)) in enumerate(BOMBS.items()):
        path = root / str(number) / file
        if file in RUN_FILES:
            fake_run(path.parent, "hybrid", 1, n_clients=20, horizon=50.0)
        else:
            path.parent.mkdir()
        make(path)
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        assert sum(each.stat().st_size for each in files) < bombs.MOST_BYTES, name
    program = [sys.executable, "-m", "tests.read_bombs", str(root), json.dumps([row[:2] for row in BOMBS.values()])]
    environment = {**os.environ, "XDG_CACHE_HOME": str(root / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(program, capture_output=True, text=True, timeout=550, env=environment, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(BOMBS, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_does_not_fill_memory(name: str, outcomes: dict[str, str]) -> None:
    assert "\n" not in outcomes[name]
    assert re.search(f"^(ConfigError|RunError): .*({BOMBS[name][3]})", outcomes[name]), outcomes[name][:500]
