"""HDF5 files of TensorFlow Federated's data sets: one group per client, with one array per part of an example."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import Dataset
from fedtempo.data.formats.by_client import Examples, check_clients, from_clients
from fedtempo.data.formats.hdf5_storage import blocks_of, must_be_stored_plainly
from fedtempo.data.labels import LABELS
from fedtempo.data.splitting import TEST_SHARE, check_share
from fedtempo.data.texts import SYMBOLS, blocks, encoded, padded
from fedtempo.data.validation import check_test_split
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed, natural
from fedtempo.parts.sizes import must_fit, must_hold, text_array_must_fit

_CLIENTS = "examples"
_LARGEST_BYTES = 2**32


def tff(
    path: str,
    feature: str | None = None,
    label: str | None = None,
    length: int = 80,
    clients: int | None = None,
    test_share: float = TEST_SHARE,
    task: str | None = None,
    inputs: str | None = None,
    test_split: str | None = None,
) -> Dataset:
    """A data set of TensorFlow Federated: a file name_train.h5 beside name_test.h5, the folder of both, or one file.

    Needs the extra hdf5. Each group in `examples` is a client. feature, label: names of the arrays (default: the label
    is the one named label, the feature the only other one, or the only one of several dimensions). Bytes are pixels;
    images (height, width) get one channel, colours come first. Without a label, as in fed_shakespeare, the task is to
    predict each next byte of `length` of a client's text; with one, a text is its first `length` bytes. clients: use
    only this number of clients, the first in natural order. test_share: share of the examples of each client that are
    for testing if there is no test file, or with test_split = "train". task, inputs: as for `npz:`.

    Raises ConfigError if h5py is missing, or naming the file and the client that cannot be read.
    """
    check_share(test_share)
    check_test_split(test_split)
    check_clients(clients)
    if not isinstance(length, int) or isinstance(length, bool) or length < 1:
        raise ConfigError(f"length = {length!r}: must be a whole number, 1 or more")
    files = _find(Path(path).expanduser())[: 1 if test_split == "train" else None]
    contents = [_read(file, feature, label) for file in files]
    names = sorted(contents[0], key=natural)
    if clients is not None:
        kept = set(islice(names, clients))
        contents = [{name: part for name, part in content.items() if name in kept} for content in contents]
    is_text = next(iter(contents[0].values()))[0].dtype.kind == "U"
    has_label = next(iter(contents[0].values()))[1] is not None
    splits = [
        _joined(file, content, length, is_text=is_text, has_label=has_label) for file, content in zip(files, contents)
    ]
    x = splits[0].x
    kind = "text" if is_text else "bytes divided by 255" if x.dtype == np.uint8 else str(x.dtype)
    what = f"the first {length} bytes of text" if has_label else f"each next byte of {length} of text"
    shape = " x ".join(map(str, x.shape[1:]))
    named: dict[str, Any] = {} if has_label else {"n_classes": SYMBOLS, "task": "tokens"}
    return from_clients(
        f"tff:{path}",
        splits[0],
        splits[1] if len(splits) > 1 else None,
        test_share,
        test_split=test_split,
        everyone=contents[0],
        about=f"TFF: {what if is_text else f'{kind} of shape {shape}'}",
        **{"task": task, "inputs": "symbols" if is_text else inputs} | named,
    )


def _find(path: Path) -> list[Path]:
    """Return the training file and, if there is one, the test file."""
    if path.is_dir():
        trains = sorted(path.glob("*_train.h5")) or sorted(path.glob("*.h5"))
        if len(trains) != 1:
            raise ConfigError(f"{path}: has {len(trains)} files named *_train.h5; give the path of one file")
        path = trains[0]
    test = path.with_name(f"{path.stem.removesuffix('_train')}_test{path.suffix}")
    return [path, test] if path.stem.endswith("_train") and test.is_file() else [path]


Parts = tuple[npt.NDArray[Any], npt.NDArray[Any] | None]


def _read(file: Path, feature: str | None, label: str | None) -> dict[str, Parts]:
    """Return inputs and labels of each client by its name."""
    try:
        h5py = importlib.import_module("h5py")
    except ImportError as error:
        raise ConfigError(f"{file}: needs the library h5py: pip install 'fedtempo[hdf5]'") from error
    try:
        with h5py.File(file, "r") as content:
            group = _own(h5py, content, _CLIENTS)
            if not isinstance(group, h5py.Group) or not len(group):
                raise ConfigError(f"{file}: no clients in the group {_CLIENTS!r}")
            arrays = {client: _arrays(h5py, file, client, _own(h5py, group, client)) for client in group}
            every = [part for parts in arrays.values() for part in parts.values()]
            must_fit(file, sum(part.nbytes for part in every), "split it", _LARGEST_BYTES)
            for part in every:
                must_be_stored_plainly(file, part)
            first = next(iter(arrays.values()))
            shapes = {name: part.ndim for name, part in first.items()}
            feature, label = _named(file, shapes, feature, label)
            return {client: _parts(file, client, parts, feature, label) for client, parts in arrays.items()}
    except ConfigError:
        raise
    except Exception as error:  # a damaged file raises errors of many types
        raise ConfigError(f"{file}: cannot be read as a file of TFF: {' '.join(str(error).split())}") from error


def _own(h5py: Any, group: Any, name: str) -> Any:
    """Return a member of a group. Raises ConfigError if it is missing, or a link to another file."""
    if name not in group:
        raise ConfigError(f"{group.file.filename}: no {name!r} in {group.name}")
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise ConfigError(f"{group.file.filename}: {name!r} in {group.name} is a link, which is not followed")
    return group[name]


def _arrays(h5py: Any, file: Path, client: str, group: Any) -> dict[str, Any]:
    """Return the arrays of a client, not read yet."""
    if not isinstance(group, h5py.Group):
        raise ConfigError(f"{file}: client {client!r} is no group")
    arrays = {name: _own(h5py, group, name) for name in group}
    for name, part in arrays.items():
        if not isinstance(part, h5py.Dataset) or part.ndim < 1 or part.external or part.is_virtual:
            raise ConfigError(f"{file}: client {client!r}: {name!r} is no array stored in this file")
    return arrays


def _named(file: Path, shapes: Mapping[str, int], feature: str | None, label: str | None) -> tuple[str, str | None]:
    """Return the names of feature and label. shapes: number of dimensions of each array."""
    for option, name in (("feature", feature), ("label", label)):
        if name is not None and name not in shapes:
            raise ConfigError(f"{option} = {name!r}: {file} has the arrays {', '.join(shapes)}")
    others = [name for name in shapes if name != feature]
    label = label or next((name for name in others if name.lower() in LABELS), None)
    others = [name for name in others if name != label]
    if feature is None:
        deep = [name for name in others if shapes[name] > 1]
        chosen = others if len(others) == 1 else deep
        if len(chosen) != 1:
            raise ConfigError(f"{file}: the feature could be any of {', '.join(chosen or others)}; set feature")
        feature = chosen[0]
    return feature, label


def _parts(file: Path, client: str, parts: Mapping[str, Any], feature: str, label: str | None) -> Parts:
    """Return the inputs and labels of a client."""
    for name in (feature, label):
        if name is not None and name not in parts:
            raise ConfigError(f"{file}: client {client!r}: no array {name!r}")
    x = _values(parts[feature])
    y = None if label is None else _values(parts[label])
    if y is not None and len(x) != len(y):
        raise ConfigError(f"{file}: client {client!r}: {len(x)} of {feature!r} and {len(y)} of {label!r}")
    return x, y


def _values(part: Any) -> npt.NDArray[Any]:
    """Return an array as numbers or as text."""
    if part.dtype.kind not in "OSU":
        return np.asarray(part[...])
    rows: list[str] = []
    size = 0
    for block in blocks_of(part):
        texts = [row.decode() if isinstance(row, bytes) else row for row in block]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{part.name} holds neither numbers nor texts")
        size += sum(map(len, texts))
        must_hold(f"{part.name} takes", size)
        rows += texts
    text_array_must_fit(part.name, rows)
    return np.array(rows, dtype=np.str_)


def _joined(file: Path, content: Mapping[str, Parts], length: int, *, is_text: bool, has_label: bool) -> Examples:
    """Return the examples of all clients."""
    xs: list[npt.NDArray[Any]] = []
    ys: list[npt.NDArray[Any]] = []
    clients: list[str] = []
    for client, (x, y) in content.items():
        if is_text != (x.dtype.kind == "U"):
            raise ConfigError(f"{file}: client {client!r}: holds {x.dtype}, unlike other clients")
        if y is None:
            if not is_text:
                raise ConfigError(f"{file}: no label; set label")
            rows = encoded(x.tolist())
            windows = blocks(rows, length, length) if len(rows) > length else np.empty((0, length + 1), np.int64)
            x, y = windows[:, :-1], windows[:, 1:]
        elif is_text:
            x = padded(x.tolist(), length)
        if len(x):
            xs.append(_channels_first(x))
            ys.append(y)
            clients += [client] * len(x)
    if not xs:
        raise ConfigError(f"{file}: no client has examples{'' if has_label else f' of {length} bytes; lower length'}")
    for name, arrays in (("feature", xs), ("label", ys)):
        if len(shapes := {array.shape[1:] for array in arrays}) > 1:
            raise ConfigError(f"{file}: the {name} has the shapes {listed(sorted(map(str, shapes)))}; must be the same")
    return Examples(np.concatenate(xs), np.concatenate(ys), clients)


def _channels_first(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return images (n, height, width) with one channel, and images in colour with their channels first."""
    if x.ndim == 3:
        return x[:, np.newaxis]
    return np.moveaxis(x, -1, 1) if x.ndim == 4 and x.shape[-1] == 3 else x
