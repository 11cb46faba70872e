"""LEAF's JSON files (Caldas et al., 2018): users, and the examples of each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.by_client import Examples, from_clients
from fedtempo.data.cache import Arrays, content_key, remembered_arrays
from fedtempo.data.dataset import Dataset
from fedtempo.data.images import SUFFIXES, read_images
from fedtempo.data.pictures import check_form
from fedtempo.data.splitting import check_share
from fedtempo.data.texts import padded
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed

_SPLITS = ("train", "test")
_LARGEST_BYTES = 2**31
_WORTH_KEEPING_BYTES = 2**20
_FORMAT = "leaf-1"
_CODE_POINTS = 0x110000


def leaf(
    path: str,
    test_share: float = 0.2,
    shape: list[int] | None = None,
    field: int | None = None,
    length: int = 128,
    images: str | None = None,
    side: int | None = None,
    channels: int | None = None,
    task: str | None = None,
    inputs: str | None = None,
) -> Dataset:
    """LEAF's JSON files (users, user_data) in a folder, its subfolders train and test, or data/train and data/test.

    Each user is a client; users without examples are reported. Without a folder test, test_share of the examples of
    each user and label are for testing. Numbers are used unchanged; shape: of one example, such as [1, 28, 28] for the
    784 numbers of FEMNIST. If inputs are texts of one length and labels single characters, as in Shakespeare, the task
    is to predict the next character: symbols and classes are the characters of all texts, by code point. Any other text
    is its UTF-8 bytes, cut or padded with zeros to `length`; field: position of the text if an input is a list of
    texts, such as 4 for Sent140. images: folder of the images that inputs name, as in CelebA; side, channels: as for
    `folder:`. task, inputs: as for `npz:`.

    Raises ConfigError naming the file and the user of unusable examples.
    """
    check_share(test_share)
    check_form(side, channels)
    for name, value in (("field", field), ("length", length)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < (name == "length")):
            raise ConfigError(f"{name} = {value!r}: must be a whole number, {int(name == 'length')} or more")
    root = Path(path).expanduser()
    files = _find(root)
    arrays = _cached(files, field)
    train_name = next(iter(files))
    parts = {split: _examples(arrays, split) for split in files}
    train, test = parts[train_name], parts.get("test")
    everyone = arrays["everyone"].tolist()
    if test is not None and train.x.dtype.kind != test.x.dtype.kind:
        raise ConfigError(f"{root}: x holds {train.x.dtype} for training, {test.x.dtype} for testing; both must agree")
    named: dict[str, Any] = {"task": task, "inputs": inputs}
    if train.x.dtype.kind == "U":
        if images is not None or all(Path(x).suffix.lower() in SUFFIXES for x in train.x.tolist()):
            parts, about = _image_files(root, parts, images, side, channels)
        elif (characters := _characters(parts)) is not None:
            parts, about, extra = characters
            named |= extra
        else:
            parts = {split: part._replace(x=padded(part.x.tolist(), length)) for split, part in parts.items()}
            about = f"the first {length} bytes of each text"
            named["inputs"] = "symbols"
    elif shape is not None:
        parts, about = _reshaped(root, parts, shape), f"numbers of shape {' x '.join(map(str, shape))}"
    else:
        kind = "whole numbers" if train.x.dtype.kind == "i" else "numbers, not scaled,"
        about = f"{kind} of shape {' x '.join(map(str, train.x.shape[1:]))}"
    return from_clients(
        f"leaf:{path}",
        parts[train_name],
        parts.get("test"),
        test_share,
        everyone=everyone,
        about=f"LEAF: {about}",
        **named,
    )


def _find(root: Path) -> dict[str, list[Path]]:
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


def _cached(files: dict[str, list[Path]], field: int | None) -> Arrays:
    """Return the arrays of `_read`, which are kept in the user's cache folder if the files are large."""
    every = [file for paths in files.values() for file in paths]
    try:
        sizes = [file.stat().st_size for file in every]
        if (largest := max(sizes)) > _LARGEST_BYTES:
            raise ConfigError(f"{every[sizes.index(largest)]}: {largest:,} bytes, more than {_LARGEST_BYTES:,}")
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
        arrays |= _packed(f"{split}_clients", np.array(clients))
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


def _examples(arrays: Arrays, split: str) -> Examples:
    x, y, clients = (_unpacked(arrays, f"{split}_{name}") for name in ("x", "y", "clients"))
    return Examples(x, y, clients.tolist())


def _users(file: Path) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Yield name, inputs and labels of each user of a file. Raises ConfigError if it is not a file of LEAF."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
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
    return np.concatenate(arrays)


def _reshaped(root: Path, parts: dict[str, Examples], shape: list[int]) -> dict[str, Examples]:
    if not isinstance(shape, list) or not all(isinstance(n, int) and n > 0 for n in shape):
        raise ConfigError(f"shape = {shape!r}: must be a list of whole numbers, such as [1, 28, 28]")
    for part in parts.values():
        if (size := part.x[0].size) != np.prod(shape):
            raise ConfigError(f"shape = {shape}: an example of {root} has {size} numbers, not {np.prod(shape)}")
    return {split: part._replace(x=part.x.reshape(-1, *shape)) for split, part in parts.items()}


def _image_files(
    root: Path, parts: dict[str, Examples], images: str | None, side: int | None, channels: int | None
) -> tuple[dict[str, Examples], str]:
    """Return the examples with the images that their inputs name, and a description of them."""
    names = [name for part in parts.values() for name in part.x.tolist()]
    if images is None:
        raise ConfigError(f"{root}: inputs name images, such as {names[0]!r}; set images to their folder")
    pixels, about = read_images([inside(root / Path(images).expanduser(), name) for name in names], side, channels)
    values = np.split(pixels, np.cumsum([len(part.y) for part in parts.values()])[:-1])
    return {split: part._replace(x=x) for (split, part), x in zip(parts.items(), values)}, about


def _characters(parts: dict[str, Examples]) -> tuple[dict[str, Examples], str, dict[str, Any]] | None:
    """Return examples of the next character, a description, and arguments of `from_clients`.

    None unless inputs are texts of one length, and labels single characters.
    """
    lengths = [np.char.str_len(part.x) for part in parts.values()]
    length = int(lengths[0][0])
    if not length or not all((each == length).all() for each in lengths):
        return None
    if not all(part.y.dtype.kind == "U" and (np.char.str_len(part.y) == 1).all() for part in parts.values()):
        return None
    codes = {split: (_code_points(part.x), _code_points(part.y)[:, 0]) for split, part in parts.items()}
    used = np.zeros(_CODE_POINTS, dtype=bool)
    for x, y in codes.values():
        used[x] = used[y] = True
    alphabet = np.flatnonzero(used)
    symbol = np.cumsum(used) - 1
    symbols = {split: parts[split]._replace(x=symbol[x], y=symbol[y]) for split, (x, y) in codes.items()}
    named = {"n_classes": len(alphabet), "class_names": tuple(map(chr, alphabet.tolist())), "inputs": "symbols"}
    return symbols, f"the next character after {length}, {len(alphabet)} different characters", named


def _code_points(texts: npt.NDArray[np.str_]) -> npt.NDArray[np.uint32]:
    """Return the code points of texts of one length, shape (n, length)."""
    return np.ascontiguousarray(texts).view(np.uint32).reshape(len(texts), -1)


def inside(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder. Raises ConfigError if the name leads out of the folder."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"{name!r}: lies outside of {folder}")
    return path
