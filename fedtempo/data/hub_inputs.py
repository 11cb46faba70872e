"""Inputs of a data set at the hub as arrays: tokens, text, pictures, or arrays of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import stacked
from fedtempo.data.hub_columns import is_text, kind_of
from fedtempo.data.pictures import common_format, header, pixels
from fedtempo.data.texts import padded
from fedtempo.data.tokenizing import tokenized
from fedtempo.errors import ConfigError

_NUMBERS = {"uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "float16", "float32", "float64"}


class InputForm(NamedTuple):
    """What options of `load_hub` say about inputs."""

    tokenizer: str | None
    length: int
    side: int | None
    channels: int | None


class InputReader(NamedTuple):
    """read: returns the inputs of a split. about: what they are, in words."""

    read: Callable[[str], npt.NDArray[Any]]
    about: str


def input_reader(
    name: str, column: str, feature: Any, parts: Mapping[str, Sequence[Any]], form: InputForm
) -> InputReader:
    """Return a reader of inputs. feature: type of the column. parts: its values, by split.

    Raises ConfigError for pictures of several forms, or for a form of pictures if there are none.
    """
    tokenizer, length, side, channels = form
    pictures, of_form = _pictures(name, parts, side, channels)

    def read(split: str) -> npt.NDArray[Any]:
        rows = parts[split]
        if tokenizer is not None:
            return tokenized(rows, tokenizer, length)
        if is_text(feature):
            return padded(rows, length)
        if pictures:
            return pictures[split]
        return stacked(f"hf:{name}", _arrays(name, column, rows, feature))

    kind = f"{length} tokens" if tokenizer is not None else "text" if is_text(feature) else kind_of(feature)
    return InputReader(read, f"{kind} of {column!r}{of_form}")


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
