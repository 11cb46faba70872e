"""HDF5 files of TensorFlow Federated; skipped without h5py (extra `hdf5`)."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedtempo.data.sources import load
from fedtempo.errors import ConfigError
from fedtempo.parts import sizes


def test_without_h5py_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "a.h5").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"needs the library h5py: pip install 'fedtempo\[hdf5\]'"):
        load(f"tff:{tmp_path}")


def put(path: Path, clients: dict[str, dict[str, object]]) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        group = file.create_group("examples")
        for client, arrays in clients.items():
            of_client = group.create_group(client)
            for name, values in arrays.items():
                of_client[name] = values
    return path


def test_emnist_has_grey_images_of_writers(tmp_path: Path) -> None:
    clients = {
        f"f{n}": {"label": np.arange(2, dtype=np.int32), "pixels": np.full((2, 3, 4), n / 16, np.float32)}
        for n in (10, 2)
    }
    put(tmp_path / "fed_emnist_train.h5", clients)
    tests = {"label": np.int32([1]), "pixels": np.zeros((1, 3, 4), np.float32)}
    put(tmp_path / "fed_emnist_test.h5", {"f10": tests, "f2": tests, "f11": tests})
    data = load(f"tff:{tmp_path}")
    assert data.owner_names == ("f2", "f10")
    assert data.train_x.shape == (4, 1, 3, 4)
    assert data.train_owners is not None
    assert data.test_owners is not None
    assert sorted(zip(data.train_owners.tolist(), data.train_x[:, 0, 0, 0].tolist(), data.train_y.tolist())) == [
        (0, 0.125, 0),
        (0, 0.125, 1),
        (1, 0.625, 0),
        (1, 0.625, 1),
    ]
    assert (data.test_y.tolist(), data.test_owners.tolist()) == ([1, 1, 1], [1, -1, 0])
    assert data.about.startswith("TFF: float32 of shape 1 x 3 x 4, 2 clients: f2, f10")
    one = load(f"tff:{tmp_path}", clients=1)
    assert (one.owner_names, len(one.train_y), len(one.test_y)) == (("f2",), 2, 1)
    split = load(f"tff:{tmp_path}", test_split="train", test_share=0.5)
    assert (len(split.train_y), len(split.test_y), split.test_x.max()) == (2, 2, 0.625)


def test_cifar_has_colours_last_and_two_labels(tmp_path: Path) -> None:
    image = np.broadcast_to(np.uint8([0, 51, 255]), (4, 2, 2, 3))
    arrays = {"image": image, "label": np.int64([3, 1, 3, 0]), "coarse_label": np.int64([1, 0, 1, 0])}
    put(tmp_path / "fed_cifar100_train.h5", {"0": arrays, "1": arrays})
    data = load(f"tff:{tmp_path / 'fed_cifar100_train.h5'}", test_share=0.25)
    assert data.train_x.shape == (6, 3, 2, 2)
    assert data.train_x[0, :, 0, 0].tolist() == pytest.approx([0, 0.2, 1])
    assert data.n_classes == 4
    assert load(f"tff:{tmp_path}", test_share=0.25, label="coarse_label", feature="image").n_classes == 2
    with pytest.raises(ConfigError, match=r"label = 'kind': .* has the arrays coarse_label, image, label"):
        load(f"tff:{tmp_path}", label="kind")


def test_shakespeare_predicts_each_next_byte_of_a_role(tmp_path: Path) -> None:
    put(tmp_path / "s_train.h5", {"LEAR": {"snippets": [b"abc", b"de"]}, "FOOL": {"snippets": [b"a"]}})
    put(tmp_path / "s_test.h5", {"LEAR": {"snippets": ["xyz"]}})
    data = load(f"tff:{tmp_path}", length=2)
    assert data.task == "tokens"
    assert data.owner_names == ("LEAR",)
    assert [bytes(x.tolist()) for x in data.train_x] == [b"ab", b"c\n"]
    assert [bytes(y.tolist()) for y in data.train_y] == [b"bc", b"\nd"]
    assert data.warnings == ("1 of 2 clients have no training examples, so they take no part: FOOL",)
    with pytest.raises(ConfigError, match="no client has examples of 80 bytes; lower length"):
        load(f"tff:{tmp_path}")


def test_text_with_labels_is_classified(tmp_path: Path) -> None:
    arrays = {"tokens": [b"good", b"bad one"] * 2, "label": [b"yes", b"no"] * 2}
    put(tmp_path / "x.h5", {"a": arrays, "b": arrays})
    data = load(f"tff:{tmp_path / 'x.h5'}", length=4, test_share=0.5)
    assert {bytes(x.tolist()): y for x, y in zip(data.train_x, data.train_y.tolist())} == {b"good": 1, b"bad ": 0}
    assert data.class_names == ("no", "yes")


def test_unusable_files_are_named_and_links_are_not_followed(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.h5"
    for content in (b"", b"nonsense"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=rf"{path}: cannot be read as a file of TFF"):
            load(f"tff:{path}")
    with h5py.File(path, "w") as file:
        file["other"] = 1
    with pytest.raises(ConfigError, match="no 'examples' in /"):
        load(f"tff:{path}")
    put(path, {"a": {"x": np.zeros((3, 2)), "y": np.zeros(2)}})
    with pytest.raises(ConfigError, match="client 'a': 3 of 'x' and 2 of 'y'"):
        load(f"tff:{path}")
    put(path, {"a": {"x": np.zeros((2, 2)), "z": np.zeros((2, 2))}})
    with pytest.raises(ConfigError, match="the feature could be any of x, z; set feature"):
        load(f"tff:{path}")
    put(path, {"a": {"x": np.zeros((2, 2)), "y": [0, 1]}, "b": {"x": np.zeros((2, 3)), "y": [0, 1]}})
    with pytest.raises(ConfigError, match=r"the feature has the shapes \(2,\), \(3,\); must be the same"):
        load(f"tff:{path}")
    put(path, {"a": {"x": np.zeros((2, 2)), "y": [0, 1]}, "b": {"x": np.zeros((2, 2))}})
    with pytest.raises(ConfigError, match="client 'b': no array 'y'"):
        load(f"tff:{path}")
    with h5py.File(path, "a") as file:
        del file["examples/b"]
        file["examples/b"] = h5py.ExternalLink(str(tmp_path / "elsewhere.h5"), "/examples/a")
    put(tmp_path / "elsewhere.h5", {"a": {"x": np.zeros((2, 2)), "y": [0, 1]}})
    with pytest.raises(ConfigError, match="'b' in /examples is a link, which is not followed"):
        load(f"tff:{path}")
    with pytest.raises(ConfigError, match=r"has 2 files named \*_train\.h5; give the path of one file"):
        load(f"tff:{tmp_path}")


def texts_that_are_the_same_bytes(path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        part = file.create_dataset(
            "examples/a/x", (200_000,), h5py.string_dtype(), chunks=(20_000,), compression="gzip"
        )
        part[0] = "z" * 2_000_000
        reference = zlib.decompress(part.id.read_direct_chunk((0,))[1])[:16]
        for begin in range(0, 200_000, 20_000):
            part.id.write_direct_chunk((begin,), zlib.compress(20_000 * reference))


def chunk_of_two_gigabytes(path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    packer = zlib.compressobj(9)
    content = b"".join(packer.compress(bytes(1_000_000)) for _ in range(2_000)) + packer.flush()
    with h5py.File(path, "w") as file:
        file["examples/a/label"] = np.arange(4)
        part = file.create_dataset("examples/a/x", (4, 2), "f4", chunks=(4, 2), compression="gzip")
        part.id.write_direct_chunk((0, 0), content)


def large_chunk(path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["examples/a/label"] = np.arange(4)
        file.create_dataset(
            "examples/a/x", (4, 2), "f4", maxshape=(None, None), chunks=(20_000, 20_000), compression="gzip"
        )


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (texts_that_are_the_same_bytes, r"/examples/a/x takes [\d,]+ bytes of memory, more than"),
        (chunk_of_two_gigabytes, "a chunk of /examples/a/x unpacks to more than 32 bytes"),
        (large_chunk, r"a chunk of /examples/a/x: takes 1,600,000,000 bytes of memory, more than"),
    ],
)
def test_a_small_file_does_not_fill_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], complaint: str
) -> None:
    monkeypatch.setattr(sizes, "_usable", lambda: 2**29)
    make(tmp_path / "a.h5")
    assert (tmp_path / "a.h5").stat().st_size < 3_000_000
    with pytest.raises(ConfigError, match=complaint):
        load(f"tff:{tmp_path / 'a.h5'}")
