"""Data sets from the Hugging Face hub or a folder, through the `datasets` library. No other source uses the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fedtempo.data.about import by_client, held_out_by
from fedtempo.data.dataset import Dataset, FloatArray, IntArray, from_arrays
from fedtempo.data.held_out import as_times, check_options, held_out_rows, numbered, strata_of
from fedtempo.data.hub_columns import HubColumns, columns_of, is_text, kind_of
from fedtempo.data.hub_inputs import InputForm, input_reader
from fedtempo.data.hub_library import hub_splits
from fedtempo.data.leaks import find_leak, is_named_as_id
from fedtempo.data.owners import numbered_by_name, ordered_names
from fedtempo.data.pictures import check_form
from fedtempo.data.splitting import TEST_SHARE, BoolArray, both, check_share, must_not_be_asked
from fedtempo.data.texts import SYMBOLS, blocks, encoded
from fedtempo.data.validation import NAMES as VALIDATION_NAMES
from fedtempo.data.validation import Split, must_be_labelled
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed, name_of


def load_hub(
    name: str,
    subset: str | None = None,
    feature: str | None = None,
    label: str | None = None,
    client: str | None = None,
    length: int = 128,
    test_share: float = TEST_SHARE,
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
    needed = ("train", "test") if test_share is None else ("train",)
    everything = hub_splits(name, subset, needed=needed)
    splits = by_purpose(name, everything, test_split, validation_split)
    types: Mapping[str, Any] = splits["train"].features
    columns = columns_of(name, splits, feature, label, client, group, time)
    parts = {
        split: {column: list(rows[column]) for column in columns.used if column in rows.features}
        for split, rows in splits.items()
    }
    validation = next((split for split, rows in everything.items() if rows is splits.get("validation")), None)
    _must_be_complete(name, parts, columns.label, validation)
    _check_options(known_as, columns, tokenizer, has_test="test" in parts)
    if "test" in parts:
        must_not_be_asked(test_share, "set test_split = 'train'")
    if columns.label is None:
        return _next_bytes(known_as, columns.feature, parts, length, test_share)
    examples, about = _examples(known_as, name, types, columns, parts, InputForm(tokenizer, length, side, channels))
    related, test = _related(name, columns, parts["train"]), np.zeros(0, dtype=bool)
    if "test" not in parts:
        test = _held_out(known_as, columns, examples["train"], related, test_share or 0.0)
        examples, related = _divided(examples, test, columns), related.of(~test)
    others = [column for column in types if column not in columns.used]
    warning = _leak(splits, others, types, test) if group is None and time is None else None
    return _dataset(
        known_as,
        columns,
        examples,
        related,
        task=task,
        inputs=inputs,
        about=about,
        unused=_unused(everything, splits),
        warnings=() if warning is None else (warning,),
        **_classes(types[columns.label], task),
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


def _unused(everything: Mapping[str, Any], used: Mapping[str, Any]) -> str:
    """Return which splits are not used, in words. used: the splits by purpose."""
    unused = [str(split) for split, rows in everything.items() if not any(rows is part for part in used.values())]
    return f"; splits not used: {listed(unused)}" if unused else ""


def _classes(label: Any, task: str | None) -> dict[str, Any]:
    """Return number and names of the classes, for `from_arrays`. label: type of the column of labels."""
    is_class = kind_of(label) == "ClassLabel" and task in (None, "classes")
    names = tuple(getattr(label, "names", None) or ()) if is_class else ()
    return {"n_classes": getattr(label, "num_classes", None), "class_names": names}


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


def _check_options(known_as: str, columns: HubColumns, tokenizer: str | None, has_test: bool) -> None:
    """Raise ConfigError if group or time is given with a split test or without a label, or a tokenizer without one."""
    by_option = (("group", columns.group), ("time", columns.time))
    for option, column in by_option:
        if column is not None and has_test:
            raise ConfigError(
                f"{option} = {column!r}: {known_as} has a split test already; remove {option}, or set test_split = "
                "'train' to test on a part of the training examples"
            )
    for option, value in (("tokenizer", tokenizer), *by_option):
        if columns.label is None and value is not None:
            raise ConfigError(f"{option} = {value!r}: {known_as} has no label; set label, or remove {option}")


def _examples(
    known_as: str,
    name: str,
    types: Mapping[str, Any],
    columns: HubColumns,
    parts: Mapping[str, Mapping[str, Sequence[Any]]],
    form: InputForm,
) -> tuple[dict[str, Split], str]:
    """Return inputs, labels and names of owners by split, and what inputs and labels are, in words.

    types: of the columns. parts: the values of columns, by split. Raises ConfigError for inputs that make no array.
    """
    feature, label, client = columns.feature, str(columns.label), columns.client
    if form.tokenizer is not None and not is_text(types[feature]):
        raise ConfigError(f"tokenizer = {form.tokenizer!r}: column {feature!r} of {known_as} is no text; set feature")
    inputs = input_reader(name, feature, types[feature], {part: rows[feature] for part, rows in parts.items()}, form)
    examples = {}
    for part, rows in parts.items():
        owners = [name_of(owner) for owner in rows[client]] if client is not None and client in rows else []
        examples[part] = Split(inputs.read(part), np.asarray(rows[label]), np.asarray(owners))
    return examples, f"{inputs.about}, {kind_of(types[label])} of {label!r}"


class _Related(NamedTuple):
    """Groups, by number, and times of the training examples, (n,); None without a column for them."""

    groups: IntArray | None
    times: FloatArray | None

    def of(self, rows: BoolArray) -> _Related:
        """Return those of some examples."""
        return _Related(
            None if self.groups is None else self.groups[rows], None if self.times is None else self.times[rows]
        )


def _related(name: str, columns: HubColumns, train: Mapping[str, Sequence[Any]]) -> _Related:
    """Return groups and times. train: the values of columns. Raises ConfigError for a value that is no time."""
    group, time = columns.group, columns.time
    groups = None if group is None else numbered(train[group])
    times = None if time is None else as_times(train[time], partial(_bad_time, name, time))
    return _Related(groups, times)


def _bad_time(name: str, column: str, row: int, what: str) -> ConfigError:
    return ConfigError(f"hf:{name}: example {row}: {column!r} {what}")


def _held_out(known_as: str, columns: HubColumns, train: Split, related: _Related, test_share: float) -> BoolArray:
    """Return a mask of the training examples to test on. Raises ConfigError if it holds none, or all."""
    owners = numbered(train.owners) if columns.client else None
    test = held_out_rows(
        test_share,
        len(train.y),
        [*([] if owners is None else [owners]), strata_of(train.y)],
        owners,
        groups=related.groups,
        times=related.times,
        name_of=lambda owner: str(np.unique(train.owners)[owner]),
    )
    both(test, known_as, test_share)
    return test


def _divided(examples: Mapping[str, Split], test: BoolArray, columns: HubColumns) -> dict[str, Split]:
    """Return examples whose training examples are divided into training and test examples. test: mask of the latter."""
    x, y, owners = examples["train"]
    learn, check = (Split(x[rows], y[rows], owners[rows] if columns.client else owners) for rows in (~test, test))
    return {**examples, "train": learn, "test": check}


def _leak(
    splits: Mapping[str, Any], columns: Sequence[str], features: Mapping[str, Any], test: BoolArray
) -> str | None:
    """Return a warning if training and test rows share a person or the like; None if they do not.

    test: mask of the test rows within the split train; empty if the data set has a split test.
    """
    held = splits["train" if len(test) else "test"]
    named = [
        column
        for column in columns
        if is_named_as_id(column) and kind_of(features[column]) == "Value" and column in held.features
    ]

    def learned(column: str) -> list[Any]:
        rows = list(splits["train"][column])
        return [value for value, is_test in zip(rows, test) if not is_test] if len(test) else rows

    def tested(column: str) -> list[Any]:
        rows = list(held[column])
        return [value for value, is_test in zip(rows, test) if is_test] if len(test) else rows

    leak = find_leak(named, (), learned, tested)
    if leak is None:
        return None
    if not len(test):
        return f"{leak} (the data set comes with this split)"
    return leak.with_remedy


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
    wanted = texts if "test" in parts or test_share else [train, *texts[2:]]
    if (fewest := min(map(len, wanted))) <= length:
        raise ConfigError(f"{known_as}: {fewest} bytes of text are too few for examples of {length}; lower length")
    learn, check, *held = (
        Split(part[:, :-1], part[:, 1:]) for part in (blocks(part, length, length) for part in texts)
    )
    about = f"each next byte of {length} of the text of {feature!r}"
    validation = held[0] if held else None
    return from_arrays(known_as, learn.x, learn.y, check.x, check.y, SYMBOLS, about=about, validation=validation)


def _dataset(
    known_as: str,
    columns: HubColumns,
    examples: Mapping[str, Split],
    related: _Related,
    about: str,
    unused: str,
    **named: Any,
) -> Dataset:
    """Return the data set of these examples, whose clients are those of the training examples.

    about: what they are, unused: splits that are not used, in words. named: further arguments of `from_arrays`.
    """
    train, test, validation = examples["train"], examples["test"], examples.get("validation")
    client, names = columns.client or None, ordered_names(train.owners.tolist())
    return from_arrays(
        known_as,
        train.x,
        train.y,
        test.x,
        test.y,
        train_owners=numbered_by_name(train.owners.tolist(), names) if client else None,
        test_owners=numbered_by_name(test.owners.tolist(), names) if client and len(test.owners) else None,
        owner_names=names,
        about=f"{about}{by_client(client, names)}{held_out_by(columns.group, columns.time)}{unused}",
        validation=None if validation is None else Split(validation.x, validation.y),
        train_groups=related.groups,
        train_times=related.times,
        **named,
    )
