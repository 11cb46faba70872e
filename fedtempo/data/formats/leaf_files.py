"""Read LEAF's JSON files, and keep the arrays of large ones in the user's cache folder. No file is trusted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.cache import Arrays, content_key, remembered_arrays
from fedtempo.data.formats.by_client import Examples
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed
from fedtempo.parts.sizes import must_fit, text_array_must_fit
from fedtempo.parts.text_files import parse_json, read_text

_SPLITS = ("train", "test")
_LARGEST_BYTES = 2**31
_WORTH_KEEPING_BYTES = 2**20
_FORMAT = "leaf-1"
"""Version of the cached arrays; change it with the rules of reading."""


def find_leaf(root: Path) -> dict[str, list[Path]]:
    """Return the files by split, "train" and "test", or "all" if they are not split."""
    if root.is_file():
        return {"all": [root]}
    for base in (root, root / "data"):
        if all((base / split).is_dir() for split in _SPLITS):
            return {split: _json_files(base / split) for split in _SPLITS}
    for base in (root, root / "data" / "all_data", root / "all_data"):
        if any(base.glob("*.json")):
            return {"all": _json_files(base)}
    raise ConfigError(f"{root}: no .json files, and no folders train and test with such files")


def _json_files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.json"))
    if not files:
        raise ConfigError(f"{folder}: no .json files")
    return files


def read_leaf(files: dict[str, list[Path]], field: int | None) -> Arrays:
    """Return the arrays of `_read`, which are kept in the user's cache folder if the files are large."""
    every = [file for paths in files.values() for file in paths]
    try:
        sizes = [file.stat().st_size for file in every]
        must_fit(every[sizes.index(max(sizes))], max(sizes), "split it", _LARGEST_BYTES)
        if sum(sizes) < _WORTH_KEEPING_BYTES:
            return _read(files, field)
        counts = {split: len(paths) for split, paths in files.items()}
        return remembered_arrays(content_key(_FORMAT, every, counts, field), lambda: _read(files, field))
    except OSError as error:
        raise ConfigError(f"{every[0].parent}: cannot be read: {error.strerror or error}") from error


def _read(files: dict[str, list[Path]], field: int | None) -> Arrays:
    """Return x and y of each split, the names of their clients, and `everyone`: all users.

    Arrays of text are stored as their bytes, and where each text ends.
    """
    arrays: Arrays = {}
    everyone: dict[str, None] = {}
    for split, paths in files.items():
        xs, ys, clients = [], [], []
        seen: dict[str, Path] = {}
        for file in paths:
            for user, x, y in _users(file):
                everyone[user] = None
                if user in seen:
                    raise ConfigError(f"{file}: user {user!r} is in {seen[user]}, too; remove one")
                seen[user] = file
                if len(y):
                    xs.append(_inputs(file, user, x, field))
                    ys.append(_labels(file, user, y))
                    clients += [user] * len(y)
        if not xs:
            raise ConfigError(f"{paths[0].parent}: no user has examples")
        for name, parts in (("x", xs), ("y", ys)):
            arrays |= _packed(f"{split}_{name}", _joined(paths[0].parent, name, parts))
        text_array_must_fit(f"{paths[0].parent}: the names of users", clients)
        arrays |= _packed(f"{split}_clients", np.array(clients))
    text_array_must_fit("the names of users", list(everyone))
    return arrays | {"everyone": np.array(list(everyone))}


def _packed(name: str, values: npt.NDArray[Any]) -> Arrays:
    if values.dtype.kind != "U":
        return {name: values}
    texts = [text.encode() for text in values.tolist()]
    ends = np.cumsum([len(text) for text in texts])
    return {f"{name}_bytes": np.frombuffer(b"".join(texts), np.uint8), f"{name}_ends": ends}


def _unpacked(arrays: Arrays, name: str) -> npt.NDArray[Any]:
    if name in arrays:
        return arrays[name]
    content, ends = arrays[f"{name}_bytes"].tobytes(), arrays[f"{name}_ends"].tolist()
    return np.array([content[begin:end].decode() for begin, end in zip([0, *ends[:-1]], ends)])


def examples_of(arrays: Arrays, split: str) -> Examples:
    x, y, clients = (_unpacked(arrays, f"{split}_{name}") for name in ("x", "y", "clients"))
    return Examples(x, y, clients.tolist())


def _users(file: Path) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Yield name, inputs and labels of each user of a file. Raises ConfigError if it is not a file of LEAF."""
    try:
        content = parse_json(read_text(file))
    except ValueError as error:
        raise ConfigError(f"{file}: not a JSON file: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("user_data"), dict):
        raise ConfigError(f"{file}: must hold an object with users and user_data, as LEAF's files do")
    users, data = content.get("users", list(content["user_data"])), content["user_data"]
    if not isinstance(users, list) or not all(isinstance(user, str) for user in users):
        raise ConfigError(f"{file}: users must be a list of names")
    if strange := [user for user in data if user not in set(users)]:
        raise ConfigError(f"{file}: user_data has {listed(map(repr, strange))}, which users does not list")
    counts = content.get("num_samples", [None] * len(users))
    if not isinstance(counts, list) or len(counts) != len(users):
        raise ConfigError(f"{file}: num_samples must be a list as long as users ({len(users)})")
    for user, count in zip(users, counts):
        examples = data.get(user, {"x": [], "y": []})
        x, y = (examples.get(name) if isinstance(examples, dict) else None for name in ("x", "y"))
        if not isinstance(x, list) or not isinstance(y, list):
            raise ConfigError(f"{file}: user {user!r}: must have lists x and y; LEAF's Reddit is not supported")
        if len(x) != len(y) or (count is not None and count != len(y)):
            said = "" if count is None else f", num_samples says {count}"
            raise ConfigError(f"{file}: user {user!r}: {len(x)} inputs and {len(y)} labels{said}")
        yield user, x, y


def _inputs(file: Path, user: str, x: list[Any], field: int | None) -> npt.NDArray[Any]:
    """Return the inputs of a user: float32 or int64 (n, ...), or text (n,)."""
    values = _array(file, user, "x", x)
    if values.dtype.kind == "U" and values.ndim == 2:
        if field is None or not field < values.shape[1]:
            raise ConfigError(
                f"{file}: user {user!r}: an input is a list of {values.shape[1]} texts, such as {_short(x[0])}; set "
                f"field to the position of the text, 0 to {values.shape[1] - 1}"
            )
        return values[:, field]
    if field is not None:
        raise ConfigError(f"field = {field}: an input of user {user!r} in {file} is no list of texts; remove it")
    if values.ndim < 2 and values.dtype.kind != "U":
        raise ConfigError(f"{file}: user {user!r}: x must hold lists of numbers, or texts")
    if values.ndim > 2 and values.dtype.kind == "U":
        raise ConfigError(f"{file}: user {user!r}: nested lists of text are not supported, such as those of Reddit")
    return values.astype(np.float32) if values.dtype.kind == "f" else values


def _labels(file: Path, user: str, y: list[Any]) -> npt.NDArray[Any]:
    values = _array(file, user, "y", y)
    if values.ndim > 2 or (values.ndim == 2 and values.dtype.kind == "U"):
        raise ConfigError(f"{file}: user {user!r}: a label must be a number, a text, or a list of numbers")
    return values


def _array(file: Path, user: str, name: str, rows: list[Any]) -> npt.NDArray[Any]:
    text_array_must_fit(f"{file}: user {user!r}: {name}", _texts(rows))
    try:
        values = np.array(rows)
    except ValueError as error:  # lists of different lengths
        raise ConfigError(f"{file}: user {user!r}: {name} has rows of different shapes") from error
    if values.dtype.kind == "b":
        return values.astype(np.int64)
    is_mixed = values.dtype.kind == "U" and not _all_text(rows)
    if values.dtype.kind not in "ifU" or is_mixed:
        raise ConfigError(f"{file}: user {user!r}: {name} must hold numbers or texts only, not {_short(rows[0])}")
    return values


def _texts(rows: list[Any]) -> Sequence[str]:
    """Return the texts among rows, which may be lists of texts."""
    inner = [row for row in rows if isinstance(row, list)]
    return [text for row in [rows, *inner] for text in row if isinstance(text, str)]


def _all_text(rows: Any) -> bool:
    return isinstance(rows, str) or (isinstance(rows, list) and all(map(_all_text, rows)))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _joined(folder: Path, name: str, arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the arrays of all users as one. Raises ConfigError if they do not fit together."""
    text = {values.dtype.kind == "U" for values in arrays}
    shapes = {values.shape[1:] for values in arrays}
    if len(text) > 1 or len(shapes) > 1:
        shown = "numbers and texts" if len(text) > 1 else listed(sorted(map(str, shapes)))
        raise ConfigError(f"{folder}: {name} differs between users: {shown}; all must have the same shape and type")
    size = max(values.dtype.itemsize for values in arrays) * sum(values.size for values in arrays)
    must_fit(f"{folder}: {name}", size, "the longest text decides; shorten it" if True in text else "")
    return np.concatenate(arrays)
