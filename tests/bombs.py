"""Small files whose content would fill the memory of whoever reads them, one for each kind of file that is read."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet

from tests.data.test_idx import encode


def npy(shape: tuple[int, ...], dtype: str = "|u1") -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def overlapping_zip(head: Callable[[int], bytes], name: str, members: int, size: int = 2_000_000) -> bytes:
    """Return an archive whose members each hold their own head and all members after them."""
    local, data, offsets = bytes(size), bytes(size), []
    for number in reversed(range(members)):
        data = head(len(local)) + local
        stored = (zlib.crc32(data), len(data), len(data))
        label = name.format(number).encode()
        local = struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 0, *stored, len(label), 0) + label + data
        offsets.append((stored, label, len(local)))
    central = b""
    for stored, label, length in reversed(offsets):
        entry = struct.pack(
            "<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 0, *stored, len(label), *[0] * 5, len(local) - length
        )
        central += entry + label
    return local + central + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, members, members, len(central), len(local), 0)


def overlapping_npz(path: Path) -> None:
    path.write_bytes(overlapping_zip(lambda left: npy((left,)), "{}.npy", 60))


def compressed_npz(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("train_x.npy", "w") as file:
        file.write(npy((200_000_000,)))
        for _ in range(200):
            file.write(bytes(1_000_000))


def long_npy_header(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("train_x.npy", "w") as file:
        file.write(b"\x93NUMPY\x02\x00" + struct.pack("<I", 90_000_000))
        for _ in range(90):
            file.write(b" " * 1_000_000)


def empty_items(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("train_x.npy", npy((2**40,), "|V0"))


def packed_idx(path: Path) -> None:
    path.mkdir()
    with gzip.open(path / "train-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">4I", 0x803, 200_000, 20, 50))
        for _ in range(200):
            file.write(bytes(1_000_000))
    (path / "train-labels-idx1-ubyte").write_bytes(encode(np.zeros(200_000, np.uint8)))
    (path / "t10k-images-idx3-ubyte").write_bytes(encode(np.zeros((2, 20, 50), np.uint8)))
    (path / "t10k-labels-idx1-ubyte").write_bytes(encode(np.zeros(2, np.uint8)))


def dictionary_parquet(path: Path) -> None:
    parquet.write_table(_same_text(), path, compression="zstd", store_schema=False)


def dictionary_typed_parquet(path: Path) -> None:
    parquet.write_table(_same_text(), path, compression="none")


def _same_text() -> pa.Table:
    texts = pa.DictionaryArray.from_arrays(np.zeros(3000, np.int32), ["x" * 1_000_000])
    return pa.table({"x": texts, "kind": ["a", "b"] * 1500})


def equal_numbers_parquet(path: Path) -> None:
    rows = np.zeros(30_000_000, np.int8)
    parquet.write_table(pa.table({"x": rows, "kind": rows}), path)


def packed_parquet(path: Path) -> None:
    rows = np.zeros(15_000_000)
    parquet.write_table(pa.table({"x": rows, "kind": rows}), path, compression="zstd", use_dictionary=False)


def common_beginnings_parquet(path: Path) -> None:
    texts = [("x" * 1_000_000) + str(i) for i in range(200)]
    kinds = {"x": "DELTA_BYTE_ARRAY", "kind": "PLAIN"}
    rows = pa.table({"x": texts, "kind": ["a", "b"] * 100})
    parquet.write_table(
        rows, path, compression="none", use_dictionary=False, column_encoding=kinds, data_page_size=2**30
    )


def wide_csv(path: Path) -> None:
    n = 100_000
    path.write_text(",".join(f"{i:x}" for i in range(n)) + ",kind\n" + "".join("1," * n + f"{k}\n" for k in "abab"))


def dotted_toml(path: Path) -> None:
    path.write_text(".".join("a" * 30_000) + " = 1\n")


def quoted_dotted_toml(path: Path) -> None:
    path.write_text('x = { y = "q \'", ' + " . ".join([r'"\""'] * 15_000) + ' = "\'.b.c" }\n')


def many_tables_toml(path: Path) -> None:
    path.write_text("".join(f"[{i:x}.a.b.c.d.e.f.g]\n" for i in range(200_000)))


def values_of_toml(path: Path) -> None:
    path.write_text("x = [" + "{}," * 1_800_000 + "]\n")


def values_of_json(path: Path) -> None:
    path.write_text('{"x": [' + '{"":{}},' * 700_000 + "0]}")


def deep_json(path: Path) -> None:
    path.write_text('{"x":' + "[" * 2_000_000)


def wide_leaf_texts(path: Path) -> None:
    x = ["q" * 1_000_000] + ["z"] * 9_999
    path.write_text(json.dumps({"users": ["a"], "user_data": {"a": {"x": x, "y": ["k"] * 10_000}}}))


def wide_leaf_names(path: Path) -> None:
    name = "n" * 1_000_000
    path.write_text(json.dumps({"users": [name], "user_data": {name: {"x": [[1]] * 10_000, "y": [0, 1] * 5_000}}}))


def trace_csv(path: Path) -> None:
    path.write_text("client,begin_s,end_s\n" + "\n" * 5_500_000)


def png(side: int, bits: int, colour: int) -> bytes:
    """Return a black picture. colour: PNG's number of how pixels are stored."""
    packer = zlib.compressobj(9)
    row = bytes(1 + side * bits // 8)
    rows = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    size = struct.pack(">2I5B", side, side, min(bits, 8), colour, 0, 0, 0)
    chunks = [(b"IHDR", size), (b"IDAT", rows), (b"IEND", b"")]
    content = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + content


def large_png(path: Path) -> None:
    _several(path, "png", png(4000, 32, 6))


def many_pictures(path: Path) -> None:
    _several(path, "png", png(2000, 1, 0), 40)


def sound(rate: int, announced: int | None = None, samples: int = 500_000) -> bytes:
    form = struct.pack("<IHHIIHH", 16, 1, 1, rate, rate, 1, 8)
    size = samples if announced is None else announced
    return (
        b"RIFF"
        + struct.pack("<I", 36 + samples)
        + b"WAVEfmt "
        + form
        + b"data"
        + struct.pack("<I", size)
        + bytes(samples)
    )


def slow_sounds(path: Path) -> None:
    _several(path, "wav", sound(1))


def fast_sounds(path: Path) -> None:
    _several(path, "wav", sound(2**32 - 1))


def announcing_sounds(path: Path) -> None:
    _several(path, "wav", sound(8000, 2**32 - 1))


def _several(path: Path, kind: str, content: bytes, number: int = 5) -> None:
    (path / "a").mkdir(parents=True)
    for i in range(number):
        (path / "a" / f"{i}.{kind}").write_bytes(content)


def listed_tensors(path: Path) -> None:
    table = {f"{i:x}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(90_000)}
    header = json.dumps(table, separators=(",", ":")).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)


def long_tensor_header(path: Path) -> None:
    path.write_bytes(struct.pack("<Q", 2**60) + b"{}")


class Zeros:
    def __reduce__(self) -> tuple[type, tuple[int]]:
        return bytearray, (2**31,)


def zeros_pt(path: Path) -> None:
    content = pickle.dumps({"w": Zeros()}, protocol=2)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/version", "3\n")


def repeated_pt(path: Path) -> None:
    torch.save({"w": torch.zeros(1).expand(10_000, 100_000)}, path)


def sparse_pt(path: Path) -> None:
    torch.save({"w": torch.sparse_coo_tensor(torch.zeros(2, 1, dtype=torch.int64), [1.0], (100_000, 10_000))}, path)


def overlapping_pt(path: Path) -> None:
    path.write_bytes(overlapping_zip(lambda left: b"", "archive/data/{}", 400))


def objects_pt(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + b"]" * 5_000_000 + b".")
        archive.writestr("archive/version", "3\n")


def shared_pages(path: Path) -> None:
    """Change the database of a run: the table of commits has one page of pages, 400 times."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("DELETE FROM commits")
        connection.executemany("INSERT INTO commits VALUES (?, 1.0, 0)", ((i,) for i in range(120_000)))
    (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'commits'").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    page = bytes(content[(root - 1) * size : root * size])
    assert page[0] == 5  # the table has pages of pages
    number = len(content) // size + 1
    cells = [struct.pack(">I", number) + bytes([0x81 + (i >> 7), i & 127]) for i in range(400)]
    begin = size - 6 * len(cells)
    head = struct.pack(">BHHHBI", 5, 0, len(cells), begin, 0, number)
    places = b"".join(struct.pack(">H", begin + 6 * i) for i in range(len(cells)))
    content[(root - 1) * size : root * size] = (head + places).ljust(begin, b"\0") + b"".join(cells)
    content[28:32] = struct.pack(">I", number)
    path.write_bytes(bytes(content) + page)
