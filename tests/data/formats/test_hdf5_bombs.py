"""Small HDF5 files that would fill memory are rejected, in one line; skipped without h5py (extra `hdf5`)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

h5py = pytest.importorskip("h5py")

from tests.refusals import TAKES, Bomb, must_be_refused, outcomes_of  # noqa: E402


@contextmanager
def one_client(path: Path) -> Iterator[Any]:
    """Open a new file for the arrays of one client, which has four labels."""
    with h5py.File(path, "w") as file:
        group = file.create_group("examples/a")
        group["label"] = np.arange(4)
        yield group


def same_text(path: Path) -> None:
    """200,000 texts, all of them the same two million bytes."""
    with h5py.File(path, "w") as file:
        group = file.create_group("examples/a")
        texts = group.create_dataset("x", (200_000,), h5py.string_dtype(), chunks=(20_000,), compression="gzip")
        texts[0] = "z" * 2_000_000
        place = zlib.decompress(texts.id.read_direct_chunk((0,))[1])[:16]
        for number in range(10):
            texts.id.write_direct_chunk((number * 20_000,), zlib.compress(place * 20_000))


def overfull_chunk(path: Path) -> None:
    """A chunk of 32 bytes that unpacks to two billion."""
    packing = zlib.compressobj(9)
    content = b"".join(packing.compress(bytes(1_000_000)) for _ in range(2000)) + packing.flush()
    with one_client(path) as group:
        array = group.create_dataset("x", (4, 2), "f4", chunks=(4, 2), compression="gzip")
        array.id.write_direct_chunk((0, 0), content)


def large_chunk(path: Path) -> None:
    """Eight numbers in a chunk of 1.6 billion bytes."""
    with one_client(path) as group:
        group.create_dataset("x", (4, 2), "f4", maxshape=(None, None), chunks=(20_000, 20_000), compression="gzip")


def twice_packed(path: Path) -> None:
    """A chunk that was compressed by two filters."""
    with one_client(path) as group:
        created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        created.set_chunk((4, 2))
        for _ in range(2):
            created.set_deflate(9)
        h5py.h5d.create(group.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((4, 2)), created)


def unwritten_numbers(path: Path) -> None:
    """Two billion numbers, none of which was written."""
    with one_client(path) as group:
        group.create_dataset("x", (4, 500_000_000), "f4", chunks=(4, 1000))


BOMBS = {
    "same text": Bomb("tff", "a.h5", same_text, TAKES),
    "overfull chunk": Bomb("tff", "a.h5", overfull_chunk, "unpacks to more than 32 bytes"),
    "large chunk": Bomb("tff", "a.h5", large_chunk, TAKES),
    "two filters": Bomb("tff", "a.h5", twice_packed, "has the filters gzip, gzip"),
    "unwritten numbers": Bomb("tff", "a.h5", unwritten_numbers, TAKES),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return outcomes_of(BOMBS, tmp_path_factory.mktemp("bombs"))


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_does_not_fill_memory(name: str, outcomes: dict[str, str]) -> None:
    must_be_refused(outcomes[name], BOMBS[name].error)
