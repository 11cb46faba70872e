"""Data sets from the Hugging Face hub or a folder, through the `datasets` library. No other source uses the network."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import Dataset, FloatArray, IntArray, from_arrays, stacked
from fedtempo.data.held_out import as_times, check_options, held_out_rows, numbered, strata_of
from fedtempo.data.labels import LABELS
from fedtempo.data.leaks import find_leak, is_named_as_id
from fedtempo.data.pictures import check_form, common_format, header, pixels
from fedtempo.data.splitting import BoolArray, both, check_share
from fedtempo.data.texts import SYMBOLS, blocks, encoded, padded
from fedtempo.data.tokenizing import tokenized
from fedtempo.data.validation import NAMES as VALIDATION_NAMES
from fedtempo.data.validation import Split, must_be_labelled
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed, natural

_FEATURES = ("Image", "Array2D", "Array3D", "Sequence", "List", "LargeList")
_NUMBERS = {"uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "float16", "float32", "float64"}
_SAVED = ("dataset_dict.json", "state.json")


def load_hub(
    name: str,
    subset: str | None = None,
    feature: str | None = None,
    label: str | None = None,
    client: str | None = None,
    length: int = 128,
    test_share: float = 0.2,
    task: str | None = None,
    inputs: str | None = None,
    group: str | None = None,
    tokenizer: str | None = None,
    time: str | None = None,
    test_split: str | None = None,
    validation_split: str | None = None,
    side: int | None = None,
    channels: int | None = None,
) -> Dataset:
    """A data set on the Hugging Face hub, or a local folder that the library `datasets` can load.

    subset: configuration of the data set, if it has several. feature, label: columns. The default feature is the only
    column of images, arrays or sequences, or else of text; the default label is the column named label, target, class
    or y, or else the only column of class labels, of integers, or of numbers, except identifiers. Text is its UTF-8
    bytes, cut or padded with zeros to `length`; without a label the task is to predict each next byte of `length`, over
    all texts joined. tokenizer: folder, or name at the hub, of a tokenizer (extra `transformers`) that turns text into
    input_ids and attention_mask of `length` tokens instead. client: column that names the client of an example; each of
    its values becomes a client. task, inputs: what labels and inputs are, as for `npz:`.

    test_split: the split of the test examples, such as "validation" if the labels of the split test are secret
    (default: "test" if there is one); "train" for test_share of the training examples, as without a split test.
    validation_split: the split of the validation examples (default: "validation", "valid", "val" or "dev" if there is
    one). Of the training examples, group: column whose values are never split between training and test examples;
    time: column of times, numbers or dates, of which the last test_share of each client's examples are for testing.

    side, channels: form of images, as for `folder:`. Without a network, a data set must be in the library's cache,
    which `fedtempo fetch` fills.

    Raises ConfigError if the library is missing or cannot load the data set, or if columns cannot be determined.
    """
    check_share(test_share)
    check_form(side, channels)
    check_options(group, time)
    texts = {"subset": subset, "feature": feature, "label": label, "client": client, "group": group, "time": time}
    texts |= {"tokenizer": tokenizer, "test_split": test_split, "validation_split": validation_split}
    for option, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{option} = {value!r}: must be text")
    types: Any = {"task": task, "inputs": inputs, "tokenizer": tokenizer, "side": side, "channels": channels}
    wanted: Any = {"group": group, "time": time, "test_split": test_split, "validation_split": validation_split}
    return from_hub(f"hf:{name}", name, subset, feature, label, client, length, test_share, **wanted, **types)


def from_hub(
    known_as: str,
    name: str,
    subset: str | None,
    feature: str | None,
    label: str | None,
    client: str | None = None,
    length: int = 128,
    test_share: float | None = None,
    *,
    task: str | None = None,
    inputs: str | None = None,
    group: str | None = None,
    tokenizer: str | None = None,
    time: str | None = None,
    test_split: str | None = None,
    validation_split: str | None = None,
    side: int | None = None,
    channels: int | None = None,
) -> Dataset:
    """Do as `load_hub`. known_as: name of the data set in results. test_share: None requires a split test."""
    everything = hub_splits(name, subset, needed=("train", "test") if test_share is None else ("train",))
    splits = by_purpose(name, everything, test_split, validation_split)
    unused = [split for split, rows in everything.items() if not any(rows is used for used in splits.values())]
    features: Mapping[str, Any] = splits["train"].features
    aside = [column for column in (client, group, time) if column is not None]
    need_columns(name, features, [*(column for column in (feature, label) if column is not None), *aside])
    label = label or _named_label([column for column in features if column not in (feature, *aside)])
    remaining = [column for column in features if column not in aside]
    feature = feature or _feature(name, [column for column in remaining if column != label], features)
    label = label or _label(name, [column for column in remaining if column != feature], features, feature)
    used = [*(column for column in (feature, label) if column is not None), *aside]
    for part in splits.values():
        need_columns(name, part.features, [column for column in used if column not in aside])
    parts = {
        split: {column: list(rows[column]) for column in used if column in rows.features}
        for split, rows in splits.items()
    }
    validation = next((split for split, rows in everything.items() if rows is splits.get("validation")), None)
    _must_be_complete(name, parts, label, validation)
    for option, column in (("group", group), ("time", time)):
        if column is not None and "test" in parts:
            raise ConfigError(
                f"{option} = {column!r}: {known_as} has a split test already; remove {option}, or set test_split = "
                "'train' to test on a part of the training examples"
            )
    for option, value in (("tokenizer", tokenizer), ("group", group), ("time", time)):
        if label is None and value is not None:
            raise ConfigError(f"{option} = {value!r}: {known_as} has no label; set label, or remove {option}")
    if label is None:
        return _next_bytes(known_as, feature, parts, length, test_share)
    inputs_of = {part: rows[feature] for part, rows in parts.items()}
    x, kind = _inputs(known_as, name, feature, features[feature], inputs_of, tokenizer, length, side, channels)
    y = {part: np.asarray(rows[label]) for part, rows in parts.items()}
    owners = {
        part: np.asarray([str(owner) for owner in rows[client]] if client in rows else [])
        for part, rows in parts.items()
    }
    groups = None if group is None else numbered(parts["train"][group])
    times = None if time is None else as_times(parts["train"][time], partial(_bad_time, name, time))
    test = np.zeros(0, dtype=bool)
    if "test" not in parts:
        test = _held_out(y["train"], owners["train"] if client else None, test_share or 0.0, groups, times)
        both(test, known_as)
        x, y = (part | {"train": part["train"][~test], "test": part["train"][test]} for part in (x, y))
        owners = owners | {"train": owners["train"][~test], "test": owners["train"][test]} if client else owners
        groups, times = None if groups is None else groups[~test], None if times is None else times[~test]
    warning = None
    if group is None and time is None:
        warning = _leak(splits, [column for column in features if column not in used], features, test)
    names = sorted(set(owners["train"].tolist()), key=natural)
    number = {owner: i for i, owner in enumerate(names)}
    whose = f", {len(names)} clients by {client!r}: {listed(names)}" if client else ""
    together = "" if group is None else f", rows of one {group!r} kept together"
    together += "" if time is None else f", the latest rows by {time!r} held out"
    together += f"; splits not used: {listed(map(str, unused))}" if unused else ""
    is_class = _kind(features[label]) == "ClassLabel" and task in (None, "classes")
    return from_arrays(
        known_as,
        x["train"],
        y["train"],
        x["test"],
        y["test"],
        getattr(features[label], "num_classes", None),
        np.array([number[owner] for owner in owners["train"].tolist()], dtype=np.int64) if client else None,
        np.array([number.get(owner, -1) for owner in owners["test"].tolist()], dtype=np.int64)
        if client and len(owners["test"])
        else None,
        task=task,
        inputs=inputs,
        owner_names=tuple(names),
        class_names=tuple(getattr(features[label], "names", None) or ()) if is_class else (),
        about=f"{kind}, {_kind(features[label])} of {label!r}{whose}{together}",
        warnings=() if warning is None else (warning,),
        validation=Split(x["validation"], y["validation"]) if "validation" in parts else None,
        train_groups=groups,
        train_times=times,
    )


def _inputs(
    known_as: str,
    name: str,
    column: str,
    kind: Any,
    parts: Mapping[str, Sequence[Any]],
    tokenizer: str | None,
    length: int,
    side: int | None,
    channels: int | None,
) -> tuple[dict[str, Any], str]:
    """Return the inputs of each split as arrays, and what they are, for people. kind: type of their column."""
    if tokenizer is not None and not _is_text(kind):
        raise ConfigError(f"tokenizer = {tokenizer!r}: column {column!r} of {known_as} is no text; set feature")
    pictures, form = _pictures(name, parts, side, channels)
    if tokenizer is not None:
        tokens = {part: tokenized(rows, tokenizer, length) for part, rows in parts.items()}
        return tokens, f"{length} tokens of {column!r}"
    if _is_text(kind):
        return {part: padded(rows, length) for part, rows in parts.items()}, f"text of {column!r}"
    arrays = pictures or {
        part: stacked(f"hf:{name}", _arrays(name, column, rows, kind)) for part, rows in parts.items()
    }
    return arrays, f"{_kind(kind)} of {column!r}{form}"


def _held_out(
    y: npt.NDArray[Any],
    owners: npt.NDArray[np.str_] | None,
    share: float,
    groups: IntArray | None,
    times: FloatArray | None,
) -> BoolArray:
    """Return a mask of the examples to test on, of each client and class."""
    labels = strata_of(y)
    if owners is None:
        return held_out_rows(share, len(y), [labels], None, groups=groups, times=times)
    numbers = numbered(owners)
    names = np.unique(owners)
    return held_out_rows(
        share, len(y), [numbers, labels], numbers, groups=groups, times=times, name_of=lambda owner: str(names[owner])
    )


def by_purpose(
    name: str, splits: Mapping[str, Any], test_split: str | None, validation_split: str | None
) -> dict[str, Any]:
    """Return the splits as "train", and "test" and "validation" if there are any. Raises ConfigError for unknown ones.

    The arguments are those of `load_hub`.
    """
    for option, value in (("test_split", test_split), ("validation_split", validation_split)):
        if value is not None and value not in splits:
            raise ConfigError(
                f"{option} = {value!r}: hf:{name} has no such split; its splits are {', '.join(map(str, splits))}"
            )
    if validation_split == "train" or (validation_split is not None and validation_split == test_split):
        raise ConfigError(f"validation_split = {validation_split!r}: used for another purpose already; choose another")
    test = test_split or ("test" if "test" in splits else "train")
    validation = validation_split or next((each for each in VALIDATION_NAMES if each in splits and each != test), None)
    chosen = {"train": "train", "test": test, "validation": validation}
    return {
        purpose: splits[split]
        for purpose, split in chosen.items()
        if split is not None and (purpose == "train" or split != "train")
    }


def _must_be_complete(
    name: str, parts: Mapping[str, Mapping[str, Sequence[Any]]], label: str | None, validation: str | None
) -> None:
    """Raise ConfigError if an example lacks a value in a column that is used, or if all test labels are missing.

    validation: name of the validation split, None without one.
    """
    for split, columns in parts.items():
        for column, values in columns.items():
            missing = [row for row, value in enumerate(values) if value is None]
            if not missing:
                continue
            way_out = "remove such examples from the data, for example with Dataset.filter"
            if split == "test" and column == label and len(missing) == len(values):
                way_out = f"set data.options.test_split = {validation or 'train'!r}"
            raise ConfigError(
                f"hf:{name}: {len(missing):,} of {len(values):,} {split} examples have no {column!r}, such as example "
                f"{missing[0]}; {way_out}"
            )
    if label is not None and "test" in parts:
        try:
            must_be_labelled(parts["train"][label], parts["test"][label], validation)
        except ValueError as error:
            raise ConfigError(f"hf:{name}: {error}") from None


def _bad_time(name: str, column: str, row: int, what: str) -> ConfigError:
    return ConfigError(f"hf:{name}: example {row}: {column!r} {what}")


def _leak(
    splits: Mapping[str, Any], columns: Sequence[str], features: Mapping[str, Any], test: BoolArray
) -> str | None:
    """Return a warning if training and test rows share a person or the like; None if they do not.

    test: mask of the test rows within the split train; empty if the data set has a split test.
    """
    named = [column for column in columns if is_named_as_id(column) and _kind(features[column]) == "Value"]

    def learned(column: str) -> list[Any]:
        rows = list(splits["train"][column])
        return [value for value, is_test in zip(rows, test) if not is_test] if len(test) else rows

    def tested(column: str) -> list[Any]:
        rows = list(splits["train" if len(test) else "test"][column])
        return [value for value, is_test in zip(rows, test) if is_test] if len(test) else rows

    leak = find_leak(named, (), learned, tested)
    if leak is None:
        return None
    if not len(test):
        return f"{leak} (the data set comes with this split)"
    return f"{leak}; set data.options.group = {leak.column!r} to keep each value on one side"


def _next_bytes(
    known_as: str, feature: str, parts: Mapping[str, Any], length: int, test_share: float | None
) -> Dataset:
    """Return text without labels as examples whose labels are the next bytes."""
    train = encoded(parts["train"][feature])
    if "test" in parts:
        test = encoded(parts["test"][feature])
    else:
        cut = round((1 - (test_share or 0.0)) * len(train))
        train, test = train[:cut], train[cut:]
    texts = [train, test, *([encoded(parts["validation"][feature])] if "validation" in parts else [])]
    if (fewest := min(map(len, texts))) <= length:
        raise ConfigError(f"{known_as}: {fewest} bytes of text are too few for examples of {length}; lower length")
    learn, check, *held = (
        Split(part[:, :-1], part[:, 1:]) for part in (blocks(part, length, length) for part in texts)
    )
    about = f"each next byte of {length} of the text of {feature!r}"
    validation = held[0] if held else None
    return from_arrays(known_as, learn.x, learn.y, check.x, check.y, SYMBOLS, about=about, validation=validation)


def hub_splits(name: str, subset: str | None = None, *, needed: Iterable[str]) -> Mapping[str, Any]:
    """Return the splits of a data set as the library has them. Raises ConfigError if a needed one is missing."""
    splits: Mapping[str, Any] = _ask_library(name, lambda library: _splits(library, name, subset))
    for split in needed:
        if split not in splits:
            raise ConfigError(f"hf:{name}: no split {split!r}; its splits are {', '.join(map(str, splits))}")
    return splits


def _splits(library: Any, name: str, subset: str | None) -> Mapping[str, Any]:
    """Return what `load_dataset` loads, or `load_from_disk` for a folder of `save_to_disk`; a single split is train."""
    if not any((Path(name) / file).is_file() for file in _SAVED):
        splits: Mapping[str, Any] = library.load_dataset(name, subset)
        return splits
    saved = library.load_from_disk(name)
    return saved if isinstance(saved, Mapping) else {"train": saved}


def hub_files(name: str, files: Iterable[str], offline: str) -> list[Path]:
    """Download files of a repository, unchanged, into the library's cache and return their paths.

    offline: what to do without a network, for the error.
    """
    urls = [f"hf://datasets/{name}/{file}" for file in files]
    downloaded = _ask_library(name, lambda library: library.DownloadManager().download(urls), offline)
    return [Path(path) for path in downloaded]


def fetch_hub(name: str, subset: str | None = None, out: Path | None = None) -> dict[str, int]:
    """Download a data set into the cache of the library; return the number of rows of each split.

    out: new folder to which to save it, for other machines. Raises ConfigError if it exists, or like `load_hub`.
    """
    if out is not None and out.exists():
        raise ConfigError(f"{out} already exists; choose another folder (nothing was overwritten)")
    splits: Any = _ask_library(name, lambda library: library.load_dataset(name, subset))
    if out is not None:
        _ask_library(name, lambda _: splits.save_to_disk(str(out)))
    return {str(split): len(rows) for split, rows in splits.items()}


def need_columns(name: str, features: Iterable[str], needed: Iterable[str]) -> None:
    """Raise ConfigError if a needed column is missing."""
    for column in needed:
        if column not in features:
            raise ConfigError(f"hf:{name}: no column {column!r}; its columns are {', '.join(features)}")


def _ask_library(name: str, ask: Callable[[Any], Any], offline: str = "") -> Any:
    """Return `ask(datasets)`. Raises ConfigError if the library is missing or fails.

    offline: what to do without a network (default: use `fedtempo fetch` elsewhere).
    """
    try:
        library = importlib.import_module("datasets")
    except ImportError as error:
        raise ConfigError(f"hf:{name}: needs the datasets library: pip install 'fedtempo[hf]'") from error
    try:
        return ask(library)
    except Exception as error:  # errors of the library, the network and files
        reason = " ".join(str(error).split())
        if isinstance(error, ConnectionError):
            way_out = f"run `fedtempo fetch hf:{name}` where there is one, with --out FOLDER to copy it to this machine"
            raise ConfigError(
                f"hf:{name}: not in the cache of the datasets library, and there is no network ({reason}); "
                f"{offline or way_out}"
            ) from error
        raise ConfigError(f"hf:{name}: could not be loaded: {type(error).__name__}: {reason}") from error


def _pictures(
    name: str, parts: Mapping[str, Sequence[Any]], side: int | None, channels: int | None
) -> tuple[dict[str, npt.NDArray[Any]], str]:
    """Return pictures by split as arrays (n, channels, height, width) of one form, and a description of it.

    Empty if the rows are no pictures.
    """
    rows = [(f"hf:{name}: example {i} of {part}", row) for part, rows in parts.items() for i, row in enumerate(rows)]
    if not rows or not all(hasattr(row, "mode") for _, row in rows):
        for option, value in (("side", side), ("channels", channels)):
            if value is not None:
                raise ConfigError(f"{option} = {value!r}: hf:{name} has no images; remove it")
        return {}, ""
    try:
        form = common_format([header(row) for _, row in rows], [where for where, _ in rows], side, channels)
    except ValueError as error:
        raise ConfigError(f"hf:{name}: {error}") from error
    arrays = {part: np.stack([pixels(row, form) for row in rows]) for part, rows in parts.items()}
    return arrays, f" ({form.about})"


def _arrays(name: str, column: str, rows: Sequence[Any], feature: Any) -> list[npt.NDArray[Any]]:
    """Return examples, which the library gives as lists, as arrays of their column's type."""
    kind, arrays = _number_type(feature), []
    for number, row in enumerate(rows):
        try:
            arrays.append(np.asarray(row, kind))
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(
                f"hf:{name}: example {number} of {column!r} is not an array of {kind}: {error}"
            ) from error
    return arrays


def _number_type(feature: Any) -> str | None:
    """Return the type of the numbers in a column of arrays or of (nested) lists; None if it holds no numbers."""
    while feature is not None:
        if (dtype := getattr(feature, "dtype", None)) is not None:
            return str(dtype) if str(dtype) in _NUMBERS else None
        feature = feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)
    return None


def _kind(feature: object) -> str:
    """Return the name of a column's type; a plain Python list stands for a sequence."""
    return "List" if isinstance(feature, list) else type(feature).__name__


def _is_text(feature: object) -> bool:
    return _kind(feature) == "Value" and str(getattr(feature, "dtype", "")) in ("string", "large_string")


def _feature(name: str, columns: Sequence[str], features: Mapping[str, Any]) -> str:
    """Return the only column of images, arrays or sequences, or else of text."""
    candidates = [column for column in columns if _kind(features[column]) in _FEATURES]
    candidates = candidates or [column for column in columns if _is_text(features[column])]
    if not candidates:
        raise ConfigError(
            f"hf:{name}: no column of images, arrays or text; set feature, or read a table of numbers with source = "
            "'table:FILE.parquet'"
        )
    return _only(name, "feature", candidates)


def _named_label(columns: Iterable[str]) -> str | None:
    """Return the only column whose name marks it as the label, or None."""
    candidates = [column for column in columns if column.lower() in LABELS]
    candidates = [column for column in candidates if column.lower() == LABELS[0]] or candidates
    return candidates[0] if len(candidates) == 1 else None


def _label(name: str, columns: Sequence[str], features: Mapping[str, Any], feature: str) -> str | None:
    """Return the only column of class labels, or else of integers, or else of numbers; None for text without one.

    Columns named like identifiers are left out.
    """
    columns = [column for column in columns if not is_named_as_id(column)]
    candidates = [column for column in columns if _kind(features[column]) == "ClassLabel"]
    for numbers in (("int", "uint", "bool"), ("float",)):
        candidates = candidates or [
            column
            for column in columns
            if _kind(features[column]) == "Value" and str(features[column].dtype).startswith(numbers)
        ]
    if not candidates and feature in features and _is_text(features[feature]):
        return None
    return _only(name, "label", candidates)


def _only(name: str, option: str, columns: list[str]) -> str:
    if len(columns) != 1:
        reason = f"could be any of {', '.join(columns)}" if columns else "not found"
        raise ConfigError(f"hf:{name}: the column of the {option} is unclear ({reason}); set {option}")
    return columns[0]
