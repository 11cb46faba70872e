"""LEAF's JSON files (Caldas et al., 2018): users, and the examples of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import Dataset
from fedtempo.data.formats.by_client import Examples, from_clients
from fedtempo.data.formats.leaf_files import examples_of, find_leaf, read_leaf
from fedtempo.data.images import SUFFIXES, inside, read_images
from fedtempo.data.pictures import check_form
from fedtempo.data.splitting import TEST_SHARE, check_share
from fedtempo.data.texts import padded
from fedtempo.data.validation import check_test_split
from fedtempo.errors import ConfigError

_CODE_POINTS = 0x110000


def leaf(
    path: str,
    test_share: float = TEST_SHARE,
    shape: list[int] | None = None,
    field: int | None = None,
    length: int = 128,
    images: str | None = None,
    side: int | None = None,
    channels: int | None = None,
    task: str | None = None,
    inputs: str | None = None,
    test_split: str | None = None,
) -> Dataset:
    """LEAF's JSON files (users, user_data) in a folder, its subfolders train and test, or data/train and data/test.

    Each user is a client; users without examples are reported. Without a folder test, test_share of the examples of
    each user and label are for testing; test_split = "train" leaves out the folder test. Numbers are used unchanged;
    lists of whole numbers from 0 are symbols. shape: of one example, such as [1, 28, 28] for the 784 numbers of
    FEMNIST. If inputs are texts of one length and labels single characters, as in Shakespeare, the task is to predict
    the next character: symbols and classes are the characters of all texts, by code point. Any other text is its UTF-8
    bytes, cut or padded with zeros to `length`; field: position of the text if an input is a list of texts, such as 4
    for Sent140. images: folder of the images that inputs name, as in CelebA; side, channels: as for `folder:`. task,
    inputs: as for `npz:`.

    Raises ConfigError naming the file and the user of unusable examples.
    """
    check_share(test_share)
    check_test_split(test_split)
    check_form(side, channels)
    for name, value in (("field", field), ("length", length)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < (name == "length")):
            raise ConfigError(f"{name} = {value!r}: must be a whole number, {int(name == 'length')} or more")
    root = Path(path).expanduser()
    files = find_leaf(root)
    if test_split == "train":
        files.pop("test", None)
    arrays = read_leaf(files, field)
    train_name = next(iter(files))
    parts = {split: examples_of(arrays, split) for split in files}
    train, test = parts[train_name], parts.get("test")
    everyone = arrays["everyone"].tolist()
    if test is not None and train.x.dtype.kind != test.x.dtype.kind:
        raise ConfigError(f"{root}: x holds {train.x.dtype} for training, {test.x.dtype} for testing; both must agree")
    named: dict[str, Any] = {"task": task, "inputs": inputs}
    is_text = train.x.dtype.kind == "U"
    names_images = is_text and (images is not None or all(_is_image(name) for name in train.x.tolist()))
    _check_used(root, {"shape": shape}, used=not is_text, what="numbers")
    _check_used(root, {"images": images, "side": side, "channels": channels}, used=names_images, what="names of images")
    if is_text:
        if names_images:
            parts, about = _image_files(root, parts, images, side, channels)
        elif (characters := _characters(parts)) is not None:
            parts, about, extra = characters
            named |= extra
        else:
            parts = {split: part._replace(x=padded(part.x.tolist(), length)) for split, part in parts.items()}
            about = f"the first {length} bytes of each text"
            named["inputs"] = "symbols"
    else:
        parts = parts if shape is None else _reshaped(root, parts, shape)
        x = parts[train_name].x
        if inputs is None and x.dtype.kind == "i":
            may_be_symbols = x.ndim == 2 and all(part.x.min() >= 0 for part in parts.values())
            named["inputs"] = "symbols" if may_be_symbols else "numbers"
        kind = "symbols" if named["inputs"] == "symbols" else "numbers, not scaled,"
        about = f"{kind} of shape {' x '.join(map(str, x.shape[1:]))}"
    return from_clients(
        f"leaf:{path}",
        parts[train_name],
        parts.get("test"),
        test_share,
        test_split=test_split,
        everyone=everyone,
        about=f"LEAF: {about}",
        **named,
    )


def _is_image(name: str) -> bool:
    return Path(name).suffix.lower() in SUFFIXES


def _check_used(root: Path, options: dict[str, object], *, used: bool, what: str) -> None:
    """Raise ConfigError for an option that is given, but has no use because inputs are of another kind."""
    for option, value in options.items():
        if value is not None and not used:
            raise ConfigError(f"{option} = {value!r}: the inputs of {root} are no {what}; remove it")


def _reshaped(root: Path, parts: dict[str, Examples], shape: list[int]) -> dict[str, Examples]:
    if not isinstance(shape, list) or not all(type(n) is int and n > 0 for n in shape):
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
