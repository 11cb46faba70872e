"""A model's file has the content that its name, a hash, promises, or reading it is an error."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fedtempo.errors import RunError
from fedtempo.record.models import ModelFiles, model_sha256, read_arrays, write_arrays


def test_a_model_gets_its_name_only_after_it_is_synced(
    models: ModelFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = models.add(np.arange(5, dtype=np.float32))
    assert models.names() == set()
    assert ModelFiles(tmp_path / "models").add(np.arange(5, dtype=np.float32)) == name  # unsynced files do not count
    synced = []
    monkeypatch.setattr("os.fsync", lambda _: synced.append(models.names()))
    models.sync()
    assert synced == [set(), {name}]  # the file, then its name in the folder
    models.sync()
    assert models.names() == {name}


@pytest.fixture
def models(tmp_path: Path) -> ModelFiles:
    return ModelFiles(tmp_path / "models")


def test_a_model_is_read_back_to_the_bit(models: ModelFiles) -> None:
    model = np.array([0.0, -0.0, np.nan, np.inf, 1e-45, 0.1], dtype=np.float32)
    name = models.add(model)
    models.sync()
    assert models.read(name).tobytes() == model.tobytes()
    assert models.add(model) == name == model_sha256(model)
    assert models.names() == {name}


def test_any_flipped_byte_is_detected(models: ModelFiles) -> None:
    model = np.arange(5, dtype=np.float32)
    path = models.path(models.add(model))
    models.sync()
    content = path.read_bytes()
    named = 0
    for position in range(len(content)):
        path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        with contextlib.suppress(RunError):
            np.testing.assert_array_equal(models.read(path.stem), model)  # the flipped byte had no meaning
            continue
        named += 1
    assert named >= model.nbytes


def test_only_models_to_keep_remain(models: ModelFiles, tmp_path: Path) -> None:
    models.keep(set())
    assert not (tmp_path / "models").exists()
    names = [models.add(np.full(3, value, dtype=np.float32)) for value in (1, 2, 3)]
    models.sync()
    (tmp_path / "models" / "half.new").write_bytes(b"x")
    models.keep({names[1]})
    assert [path.name for path in (tmp_path / "models").iterdir()] == [f"{names[1]}.safetensors"]
    with pytest.raises(RunError, match="could not be read: No such file"):
        models.read(names[0])


def test_the_same_named_tensors_give_the_same_bytes(tmp_path: Path) -> None:
    arrays: dict[str, npt.NDArray[Any]] = {
        "b": np.arange(3, dtype=np.float32),
        "ä.weight": np.ones((2, 2), np.float32),
        "n": np.zeros((), np.int64),
    }
    metadata = {"format": "pt", "one": "1", "zwei": "ü", "another": '{"order": ["b", "a"]}'}
    contents = set()
    for number in range(10):
        path = tmp_path / f"{number}.safetensors"
        write_arrays(path, arrays, dict(sorted(metadata.items(), reverse=number % 2 == 0)))
        contents.add(path.read_bytes())
    assert len(contents) == 1
    read = read_arrays(tmp_path, "0.safetensors")
    assert read is not None
    assert read[1] == metadata
    assert {name: array.tolist() for name, array in read[0].items()} == {k: v.tolist() for k, v in arrays.items()}
