"""Data sources: `load("digits")`, `load("idx:/some/folder")`, ... Only data sets from the hub use the network."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.arrays import read_arrays
from fedtempo.data.audio import audio
from fedtempo.data.cache import Arrays, remembered_arrays
from fedtempo.data.cache_dir import data_folder
from fedtempo.data.dataset import Dataset, from_arrays, stacked
from fedtempo.data.formats.fedscale import fedscale
from fedtempo.data.formats.leaf import leaf
from fedtempo.data.formats.tff import tff
from fedtempo.data.hub import load_hub
from fedtempo.data.idx import read_idx_folder
from fedtempo.data.images import image_folder
from fedtempo.data.named import cifar10, cifar100, emnist, femnist, ham10000, mnist
from fedtempo.data.shakespeare import shakespeare
from fedtempo.data.splitting import TEST_SHARE, check_share
from fedtempo.data.tables import table
from fedtempo.data.texts import text
from fedtempo.data.validation import Split
from fedtempo.errors import ConfigError
from fedtempo.parts.plugins import imported, outside
from fedtempo.parts.user_code import user_code


def digits(test_share: float = TEST_SHARE) -> Dataset:
    """The 1,797 handwritten digits, 8 by 8, that come with scikit-learn, in [0, 1].

    test_share: share of each class for testing, rounded. The split is the same in every run, with every class on both
    sides. Raises ConfigError for a share that leaves a class without examples.
    """
    check_share(test_share)
    content = remembered_arrays(f"digits-{metadata.version('scikit-learn')}", _load_digits)
    images, labels = content["images"], content["labels"]
    rng = np.random.default_rng(list(b"digits: train and test"))
    train, test = [], []
    for label in range(10):
        members = rng.permutation(np.flatnonzero(labels == label))
        n_test = round(test_share * len(members))
        if n_test == len(members) or (test_share and not n_test):
            raise ConfigError(f"test_share = {test_share}: leaves class {label} without training or test examples")
        test.append(members[:n_test])
        train.append(members[n_test:])
    x = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    train_i, test_i = np.sort(np.concatenate(train)), np.sort(np.concatenate(test))
    return from_arrays("digits", x[train_i], labels[train_i], x[test_i], labels[test_i], 10)


def _load_digits() -> Arrays:
    from sklearn.datasets import load_digits  # a second or more, most of it the import

    images, labels = load_digits(return_X_y=True)
    return {"images": images, "labels": labels}


def fashion_mnist() -> Dataset:
    """Fashion-MNIST (Xiao et al., 2017): 60,000 and 10,000 images of clothes, 28 by 28, in 10 classes.

    Four IDX files in the folder fashion-mnist of $FEDTEMPO_DATA if that variable is set, otherwise of
    /usr/share/datasets, where Debian's package installs them. Raises ConfigError if the folder does not exist.
    """
    folder = data_folder("fashion-mnist")
    if not folder.is_dir():
        unset = "unset FEDTEMPO_DATA and " if os.environ.get("FEDTEMPO_DATA") else ""
        raise ConfigError(
            f"fashion-mnist: no folder {folder}; {unset}run `apt-get install dataset-fashion-mnist`, "
            "or put the four IDX files into a folder and set source = 'idx:<folder>'"
        )
    return read_idx_folder(folder, "fashion-mnist")


def idx(folder: str) -> Dataset:
    """Four IDX files in a folder, named like those of MNIST (gzipped or not)."""
    return read_idx_folder(Path(folder).expanduser(), f"idx:{folder}")


def npz(
    path: str,
    task: str | None = None,
    inputs: str | None = None,
    test_split: str | None = None,
    test_share: float = TEST_SHARE,
    ignore: int | None = None,
) -> Dataset:
    """The arrays train_x, train_y, test_x, test_y of an .npz file.

    Optional: validation_x and validation_y; n_classes; train_owners and test_owners, the client of each example, by
    number or name; train_groups, such as the patient of each example, which are never split; train_times, of which the
    latest of each client are held out. Without test_x and test_y, or with test_split = "train", test_share of the
    training examples of each client and class are for testing; test_split = "validation" tests on those examples.
    A file of MedMNIST (train_images, train_labels, ...) is read, too.

    Labels that are whole numbers are classes, rows of them are tokens, other numbers are predicted as numbers; inputs
    that are bytes are pixels. task: "classes", "multilabel", "numbers", "segmentation" or "tokens", for ambiguous
    labels. inputs: "numbers" or "symbols" (default: integers of 32 or 64 bits without negative values are symbols, as
    embeddings need them). ignore: value of the pixels of masks that have no label. A folder stands for the only .npz
    file in it. Nothing is unpickled. Raises ConfigError for a bad file.
    """
    return read_arrays(
        path,
        f"npz:{path}",
        task=task,
        inputs=inputs,
        ignore=ignore,
        test_split=test_split,
        test_share=test_share,
    )


def folder(
    path: str,
    side: int | None = None,
    test_share: float = TEST_SHARE,
    task: str | None = None,
    inputs: str | None = None,
    test_split: str | None = None,
    channels: int | None = None,
) -> Dataset:
    """Images stored as `<class>/<file>` or `<client>/<class>/<file>`, optionally below `train` and `test`.

    Each `<client>` folder becomes a client. A folder `validation` (or `val`) holds validation images. Without `test`,
    or with test_split = "train", test_share of the images of each client and class are for testing; test_split =
    "validation" tests on the validation images. side: scale images to this height and width, pixels. channels: 1
    (grey), 3 (colour) or 4 (colour and transparency); default: 1 if all images are grey, otherwise 3. Bytes are divided
    by 255, grey of 16 bits by 65535. An .npz file, or a folder that holds one, is read as by `npz:`; task, inputs:
    options of that. Raises ConfigError naming the unusable file.
    """
    root = Path(path).expanduser()
    if root.suffix == ".npz" or root.is_file() or any(root.glob("*.npz")):
        known_as = f"folder:{path}"
        for option, number in (("side", side), ("channels", channels)):
            if number is not None:
                raise ConfigError(f"{option} = {number!r}: applies to folders of images only; remove it for .npz files")
        return read_arrays(path, known_as, task=task, inputs=inputs, test_split=test_split, test_share=test_share)
    for option, value in (("task", task), ("inputs", inputs)):
        if value is not None:
            raise ConfigError(f"{option} = {value!r}: applies to .npz files only; remove it for folders of images")
    return image_folder(path, side, test_share, test_split, channels)


def user_function(target: str, **options: Any) -> Dataset:
    """Return the data set that a user's `module:function` returns for `options`.

    The function returns a Dataset; (train_x, train_y, test_x, test_y), and perhaps (validation_x, validation_y) after
    these; or two sequences of (input, label) pairs, for training and testing, such as PyTorch data sets, and perhaps a
    third for validation. Inputs may be dicts or tuples, and an item may be a dict of inputs and "labels". task, inputs
    and ignore are those of `npz`, unless the function takes options of these names. Raises ConfigError if there is no
    such function or it returns something else.
    """
    function = imported(target, "data.source")
    with user_code(f"data.source = {target!r}", function):
        return _returned(target, function, options)


def _returned(target: str, function: Callable[..., Any], options: Mapping[str, Any]) -> Dataset:
    """Return what a user's function returns, as a data set."""
    ours = {name for name in ("task", "inputs", "ignore") if name in options and not _takes(function, name)}
    result = function(**{name: value for name, value in options.items() if name not in ours})
    if ours and isinstance(result, Dataset):
        raise ConfigError(f"data.options.{min(ours)}: {target} returns a Dataset, which has it already; remove it")
    return _as_dataset(target, result, **{name: options[name] for name in ours})


def _takes(function: Callable[..., Any], name: str) -> bool:
    parameters = inspect.signature(function).parameters
    return name in parameters or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


def _as_dataset(target: str, result: Any, **types: Any) -> Dataset:
    """Return a function's result as a data set. types: task, inputs, ignore. Raises ConfigError for other results."""
    if isinstance(result, Dataset):
        return result
    if isinstance(result, tuple) and len(result) in (4, 6):
        validation = Split(*result[4:]) if len(result) == 6 else None
        return from_arrays(target, *result[:4], validation=validation, **types)
    if isinstance(result, tuple) and len(result) in (2, 3):
        train, test, *held = (
            Split(*_pairs(part, f"{target}: {split}")) for part, split in zip(result, ("train", "test", "validation"))
        )
        return from_arrays(target, train.x, train.y, test.x, test.y, validation=held[0] if held else None, **types)
    raise ConfigError(
        f"{target}: returned {type(result).__name__}; must return a Dataset, or a tuple of four arrays or two data "
        "sets (six or three with validation examples)"
    )


def _pairs(examples: Any, name: str) -> tuple[Any, npt.NDArray[Any]]:
    """Return inputs and labels of a sequence of pairs. Raises ConfigError naming an example that is no pair."""
    inputs, labels = [], []
    try:
        size = len(examples)
    except TypeError as error:
        raise ConfigError(f"{name}: {type(examples).__name__} has no length; must be a sequence of pairs") from error
    for row in range(size):
        try:
            x, y = _pair(examples[row])
            inputs.append(x)
            labels.append(np.asarray(y))
        except Exception as error:  # whatever the user's data set raises
            raise ConfigError(f"{name}, example {row}: {type(error).__name__}: {error}") from error
    return _stacked_inputs(f"{name}, inputs", inputs), stacked(f"{name}, labels", labels)


def _pair(example: Any) -> tuple[Any, Any]:
    """Return inputs and label; a dict that contains both is split at the key "labels" or "label"."""
    if isinstance(example, Mapping):
        inputs = dict(example)
        key = "labels" if "labels" in inputs else "label"
        return inputs, inputs.pop(key)
    x, y = example
    return x, y


def _stacked_inputs(name: str, inputs: list[Any]) -> Any:
    """Return inputs as an array, or as a dict or tuple of arrays if the first example has several."""
    first = inputs[0] if inputs else None
    if isinstance(first, Mapping):
        return {key: stacked(f"{name} {key!r}", [example[key] for example in inputs]) for key in first}
    if isinstance(first, tuple) and all(hasattr(part, "shape") for part in first):
        return tuple(stacked(f"{name} {i}", [example[i] for example in inputs]) for i in range(len(first)))
    return stacked(name, inputs)


NOTHING = "none"
"""Name of the source without examples."""


def no_data() -> Dataset:
    """No data, for schedules without training: set data.examples_per_client and model.size_bytes."""
    x, y = np.zeros((1, 1), np.float32), np.zeros(1, np.int64)
    return Dataset(NOTHING, x, y, x, y, 1)


SOURCES: dict[str, Callable[..., Dataset]] = {
    "cifar10": cifar10,
    "cifar100": cifar100,
    "digits": digits,
    "emnist": emnist,
    "fashion-mnist": fashion_mnist,
    "femnist": femnist,
    "ham10000": ham10000,
    "mnist": mnist,
    NOTHING: no_data,
    "shakespeare": shakespeare,
}
PREFIXES: dict[str, Callable[..., Dataset]] = {
    "audio": audio,
    "fedscale": fedscale,
    "folder": folder,
    "hf": load_hub,
    "idx": idx,
    "leaf": leaf,
    "npz": npz,
    "table": table,
    "text": text,
    "tff": tff,
}


def options_of_files(source: str) -> set[str]:
    """Return the names of the options of a source that reads the files that it names; empty for other sources."""
    prefix, _, rest = source.partition(":")
    return {*inspect.signature(PREFIXES[prefix]).parameters} if rest and prefix in PREFIXES else set()


def load(source: str, /, **options: Any) -> Dataset:
    """Return the data set that a configuration names. options: those of the source.

    source: a name of `SOURCES` or of an installed package's entry point, a prefix of `PREFIXES` with what it reads,
    such as `folder:<folder>`, or `<module>:<function>`. Raises ConfigError for an unknown source or option, and for
    missing or bad data.
    """
    prefix, colon, rest = source.partition(":")
    if source in SOURCES:
        return _call(source, SOURCES[source], (), options)
    if colon and rest:
        if prefix in PREFIXES:
            return _call(source, PREFIXES[prefix], (rest,), options)
        return user_function(source, **options)
    if not colon and (function := outside(source, "sources", "data.source")) is not None:
        with user_code(f"data.source = {source!r}", function):
            return _as_dataset(source, _call(source, function, (), options))
    similar = difflib.get_close_matches(source, [*SOURCES, *PREFIXES], n=1)
    hint = f"; did you mean {similar[0]!r}?" if similar else ""
    forms = ", ".join([*SOURCES, *(f"{kind}:..." for kind in PREFIXES), "module:function"])
    raise ConfigError(f"data.source = {source!r}: unknown source{hint} (choose from {forms})")


def _call(
    source: str, function: Callable[..., Dataset], arguments: tuple[str, ...], options: dict[str, Any]
) -> Dataset:
    parameters = [*inspect.signature(function).parameters][len(arguments) :]
    for option in options:
        if option not in parameters:
            raise ConfigError(
                f"data.options: {source} has no option {option!r} (it has {', '.join(parameters) or 'none'})"
            )
    for option, kind in inspect.get_annotations(function).items():
        value = options.get(option)
        if kind in (str, "str", "str | None") and value is not None and not isinstance(value, str):
            raise ConfigError(f"{option} = {value!r}: must be text")
    return function(*arguments, **options)
