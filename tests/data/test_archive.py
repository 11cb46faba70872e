"""Archives whose arrays declare more than they hold, or unpack to more than memory."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fedtempo.data import archive
from fedtempo.data.archive import read_npz
from fedtempo.errors import ConfigError


def npy(shape: tuple[int, ...], content: bytes, descr: str = "<f4") -> bytes:
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def write(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_read_back_unchanged(tmp_path: Path, save) -> None:
    arrays = {"a": np.arange(12, dtype=np.float32).reshape(3, 4), "b": np.array(7), "c": np.empty((0, 5))}
    save(tmp_path / "x.npz", **arrays)
    read_back = read_npz(tmp_path / "x.npz")
    assert read_back.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(read_back[name], array)
        assert read_back[name].dtype == array.dtype


@pytest.mark.parametrize("shape", [(2**40,), (10**9, 10**9, 10**9), (2**63, 0, 1), (5,)])
def test_a_header_larger_than_the_file_is_rejected(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = write(tmp_path / "x.npz", {"x.npy": npy(shape, b"\0" * 16)})
    with pytest.raises(ConfigError, match=r"not an \.npz file of plain arrays"):
        read_npz(path)


def test_a_zip_bomb_is_rejected_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 50_000_000
    content = npy((size,), bytes(size), "|u1")
    packed = write(tmp_path / "packed.npz", {"x.npy": content}, zipfile.ZIP_DEFLATED)
    assert packed.stat().st_size < size / 500
    assert read_npz(packed)["x"].shape == (size,)
    monkeypatch.setattr(archive, "LARGEST_BYTES", size - 1)
    with pytest.raises(ConfigError, match=r"compressed arrays take 50,000,\d+ bytes of memory, more than 49,999,999"):
        read_npz(packed)
    half = npy((size // 2,), bytes(size // 2), "|u1")
    several = write(tmp_path / "several.npz", {f"{i}.npy": half for i in range(3)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(ConfigError, match="its compressed arrays take 75,000,"):
        read_npz(several)
    assert read_npz(write(tmp_path / "plain.npz", {"x.npy": content}))["x"].shape == (size,)


class Harm:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickles_in_an_archive_are_not_loaded(tmp_path: Path) -> None:
    mark = tmp_path / "harmed"
    file = io.BytesIO()
    np.save(file, np.array([Harm(mark)], dtype=object), allow_pickle=True)
    for content in (file.getvalue(), pickle.dumps(Harm(mark))):
        with pytest.raises(ConfigError, match=r"not an \.npz file of plain arrays"):
            read_npz(write(tmp_path / "x.npz", {"x.npy": content}))
    (tmp_path / "y.npz").write_bytes(pickle.dumps(Harm(mark)))
    with pytest.raises(ConfigError, match=r"not an \.npz file of plain arrays"):
        read_npz(tmp_path / "y.npz")
    assert not mark.exists()
