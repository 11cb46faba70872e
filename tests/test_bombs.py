"""Small files that would fill memory are rejected, in one line, by a process that may map 1 GB."""

from __future__ import annotations

import pytest

from tests import bombs
from tests.refusals import TAKES, Bomb, must_be_refused, outcomes_of

BOMBS = {
    "npz, overlapping arrays": Bomb("npz", "a.npz", bombs.overlapping_npz, "its arrays overlap"),
    "npz, compressed": Bomb("npz", "a.npz", bombs.compressed_npz, TAKES),
    "npz, long header": Bomb("npz", "a.npz", bombs.long_npy_header, "EOF: reading array header"),
    "npz, items of no bytes": Bomb("npz", "a.npz", bombs.empty_items, r"announces the shape \(1099511627776,\)"),
    "IDX, compressed": Bomb("idx", "a", bombs.packed_idx, TAKES),
    "Parquet, dictionary": Bomb("table", "a.parquet", bombs.dictionary_parquet, TAKES),
    "Parquet, type with a dictionary": Bomb("table", "a.parquet", bombs.dictionary_typed_parquet, TAKES),
    "Parquet, equal numbers": Bomb("table", "a.parquet", bombs.equal_numbers_parquet, TAKES),
    "Parquet, compressed": Bomb("table", "a.parquet", bombs.packed_parquet, TAKES),
    "Parquet, texts with the same beginning": Bomb("table", "a.parquet", bombs.common_beginnings_parquet, TAKES),
    "CSV, columns": Bomb("table", "a.csv", bombs.wide_csv, TAKES),
    "trace": Bomb("trace", "a.csv", bombs.trace_csv, "its rows would take"),
    "configuration, dotted key": Bomb("configuration", "a.toml", bombs.dotted_toml, "more than 50 parts"),
    "configuration, quoted key": Bomb("configuration", "a.toml", bombs.quoted_dotted_toml, "more than 50 parts"),
    "configuration, tables": Bomb("configuration", "a.toml", bombs.many_tables_toml, "its values would take"),
    "configuration, values": Bomb("configuration", "a.toml", bombs.values_of_toml, "its values would take"),
    "client, dotted key": Bomb("client", "a.toml", bombs.dotted_toml, "more than 50 parts"),
    "run, config.toml": Bomb("run", "config.toml", bombs.dotted_toml, "config.toml cannot be read: a key has more"),
    "run, summary.json": Bomb(
        "run", "summary.json", bombs.values_of_json, "summary.json cannot be read: its values would"
    ),
    "run, database": Bomb("run", "run.sqlite", bombs.shared_pages, "commits holds more rows than the file"),
    "devices": Bomb("devices", "a.json", bombs.values_of_json, "its values would take"),
    "events": Bomb("events", "a.json", bombs.values_of_json, "its values would take"),
    "events, deep": Bomb("events", "a.json", bombs.deep_json, "its values would take|within each other"),
    "LEAF, values": Bomb("leaf", "a.json", bombs.values_of_json, "its values would take"),
    "LEAF, texts": Bomb("leaf", "a.json", bombs.wide_leaf_texts, "the longest text decides"),
    "LEAF, names": Bomb("leaf", "a.json", bombs.wide_leaf_names, "the longest text decides"),
    "image, pixels": Bomb("folder", "a", bombs.large_png, f"decoding it {TAKES}"),
    "images, together": Bomb("folder", "a", bombs.many_pictures, TAKES),
    "sounds, slow": Bomb("audio", "a", bombs.slow_sounds, f"resampling from 1 to 16,000 samples per second: {TAKES}"),
    "sounds, fast": Bomb("audio", "a", bombs.fast_sounds, f"resampling from 4,294,967,295 .*{TAKES}"),
    "sounds, announced": Bomb("audio", "a", bombs.announcing_sounds, "cannot be read as a WAV file"),
    "model, header": Bomb("model", "a.safetensors", bombs.long_tensor_header, "is damaged"),
    "initial model, list": Bomb("tensors", "a.safetensors", bombs.listed_tensors, "the list of its tensors takes"),
    "initial model, zeros": Bomb("tensors", "a.pt", bombs.zeros_pt, "holds more than tensors"),
    "initial model, repeated value": Bomb("tensors", "a.pt", bombs.repeated_pt, TAKES),
    "initial model, sparse": Bomb("tensors", "a.pt", bombs.sparse_pt, TAKES),
    "initial model, overlapping records": Bomb("tensors", "a.pt", bombs.overlapping_pt, "its records overlap"),
    "initial model, objects": Bomb("tensors", "a.pt", bombs.objects_pt, "its objects take"),
    "journal": Bomb("journal", "journal.jsonl", bombs.deep_json, "is damaged"),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What reading each file said."""
    return outcomes_of(BOMBS, tmp_path_factory.mktemp("bombs"))


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_does_not_fill_memory(name: str, outcomes: dict[str, str]) -> None:
    must_be_refused(outcomes[name], BOMBS[name].error)
