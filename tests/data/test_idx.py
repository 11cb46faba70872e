from __future__ import annotations

import gzip
import os
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtempo.data import idx as idx_module
from fedtempo.data.idx import read_idx, read_idx_folder
from fedtempo.errors import ConfigError


def encode(array: np.ndarray, magic: int | None = None, shape: tuple[int, ...] | None = None) -> bytes:
    magic = 0x0800 | array.ndim if magic is None else magic
    return struct.pack(f">{1 + array.ndim}I", magic, *(shape or array.shape)) + array.astype(np.uint8).tobytes()


IMAGES = np.arange(2 * 3 * 4).reshape(2, 3, 4)


def write_folder(folder: Path, names: dict[str, str], compress: bool = False) -> None:
    pieces = {
        "train_x": np.arange(3 * 2 * 2).reshape(3, 2, 2),
        "train_y": np.array([0, 1, 2]),
        "test_x": np.full((2, 2, 2), 51),
        "test_y": np.array([2, 0]),
    }
    for piece, name in names.items():
        content = encode(pieces[piece])
        path = folder / (name + ".gz" * compress)
        path.write_bytes(gzip.compress(content) if compress else content)


MNIST = {
    "train_x": "train-images-idx3-ubyte",
    "train_y": "train-labels-idx1-ubyte",
    "test_x": "t10k-images-idx3-ubyte",
    "test_y": "t10k-labels-idx1-ubyte",
}
DOTTED = {piece: name.replace("-idx", ".idx") for piece, name in MNIST.items()}
EMNIST = {piece: f"emnist-balanced-{name.replace('t10k', 'test')}" for piece, name in MNIST.items()}


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("names", [MNIST, DOTTED, EMNIST], ids=["mnist", "dotted", "emnist"])
def test_a_folder_of_four_files_is_read(tmp_path: Path, names: dict[str, str], compress: bool) -> None:
    write_folder(tmp_path, names, compress)
    (tmp_path / "README").write_text("not data")
    data = read_idx_folder(tmp_path, "mine")
    assert data.train_x.shape == (3, 1, 2, 2)
    assert data.train_y.tolist() == [0, 1, 2]
    assert np.all(data.test_x == np.float32(51) / np.float32(255))
    assert data.n_classes == 3


def test_a_plain_file_takes_precedence_over_a_compressed_one(tmp_path: Path) -> None:
    write_folder(tmp_path, MNIST, compress=True)
    write_folder(tmp_path, MNIST)
    (tmp_path / f"{MNIST['train_x']}.gz").write_bytes(b"rubbish")
    assert len(read_idx_folder(tmp_path, "mine").train_x) == 3


def test_missing_ambiguous_and_unequal_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one file named like train-images-idx3-ubyte"):
        read_idx_folder(tmp_path, "mine")
    with pytest.raises(ConfigError, match="not a readable folder"):
        read_idx_folder(tmp_path / "nowhere", "mine")
    write_folder(tmp_path, MNIST)
    (tmp_path / MNIST["test_y"]).write_bytes(encode(np.array([1])))
    with pytest.raises(ConfigError, match="2 test images but 1 test labels"):
        read_idx_folder(tmp_path, "mine")
    write_folder(tmp_path, EMNIST)
    with pytest.raises(ConfigError, match="2 match: "):
        read_idx_folder(tmp_path, "mine")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "too short"),
        (b"\0\0\x08", "too short"),
        (encode(IMAGES, magic=0x0D03), "begins with 0x00000d03"),
        (encode(IMAGES[0]), "begins with 0x00000802"),
        (encode(IMAGES)[:-1], "more than it can hold|but holds 23"),
        (encode(IMAGES) + b"\0", "but holds more"),
        (encode(IMAGES, shape=(2**32 - 1, 2**32 - 1, 2**32 - 1)), "more than it can hold"),
        (encode(IMAGES, shape=(1000, 1000, 1000)), "more than it can hold"),
    ],
)
@pytest.mark.parametrize("compress", [False, True])
def test_malformed_files_are_rejected(tmp_path: Path, content: bytes, says: str, compress: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(content) if compress else content)
    with pytest.raises(ConfigError, match=says):
        read_idx(path, 3)


def test_a_missing_file_and_a_folder_in_its_place_are_rejected(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(ConfigError, match="not a readable IDX file"):
            read_idx(path, 3)


def test_a_gzip_bomb_is_unpacked_only_to_the_announced_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(encode(IMAGES) + bytes(50_000_000)))
    sizes: list[int] = []
    plain = gzip.GzipFile.read

    def counting(file: gzip.GzipFile, size: int | None = -1) -> bytes:
        content = plain(file, size)
        sizes.append(len(content))
        return content

    monkeypatch.setattr(gzip.GzipFile, "read", counting)
    with pytest.raises(ConfigError, match="but holds more"):
        read_idx(path, 3)
    assert sum(sizes) == 16 + IMAGES.size + 1


def test_the_largest_size_is_read_and_one_more_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(encode(IMAGES))
    assert read_idx(path, 3).tolist() == IMAGES.tolist()
    monkeypatch.setattr(idx_module, "LARGEST_BYTES", IMAGES.size - 1)
    with pytest.raises(ConfigError, match="takes 24 bytes of memory, more than 23"):
        read_idx(path, 3)


@settings(max_examples=300, deadline=None)
@given(
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=4),
    st.integers(0, 60) | st.none(),
    st.binary(max_size=8),
)
def test_mutated_files_are_read_or_rejected_with_a_config_error(
    compress: bool, changes: list[tuple[int, int]], length: int | None, tail: bytes
) -> None:
    content = bytearray(encode(IMAGES))
    if compress:
        content = bytearray(gzip.compress(bytes(content), mtime=0))
    for position, value in changes:
        content[position % len(content)] = value
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(bytes(content[:length]) + tail)
        try:
            array = read_idx(path, 3)
        except ConfigError:
            return
        assert array.dtype == np.uint8
        assert array.ndim == 3


def test_compressed_files_are_decoded_once_and_again_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(idx_module, "_WORTH_KEEPING_BYTES", 1)
    folder = tmp_path / "data"
    folder.mkdir()
    write_folder(folder, MNIST, compress=True)
    first = read_idx_folder(folder, "mine")
    with monkeypatch.context() as without:
        without.setattr(idx_module, "read_idx", lambda *_: pytest.fail("decoded again"))
        again = read_idx_folder(folder, "mine")
    assert isinstance(again.train_x.base, np.memmap)
    assert again.sha256 == first.sha256
    file = folder / f"{MNIST['train_y']}.gz"
    before = file.stat()
    file.write_bytes(gzip.compress(encode(np.array([2, 2, 2]))))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # the content decides, not the time of the change
    assert read_idx_folder(folder, "mine").train_y.tolist() == [2, 2, 2]
    moved = folder.rename(tmp_path / "moved")
    with monkeypatch.context() as without:
        without.setattr(idx_module, "read_idx", lambda *_: pytest.fail("decoded again"))
        assert read_idx_folder(moved, "mine").train_y.tolist() == [2, 2, 2]
