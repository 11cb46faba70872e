"""Data sets whose files give examples client by client."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import Dataset, IntArray, from_arrays
from fedtempo.data.held_out import strata_of, untrained_classes
from fedtempo.data.owners import numbered_by_name, ordered_names
from fedtempo.data.splitting import BoolArray, both, must_not_be_asked, spread
from fedtempo.data.validation import Split
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed, natural


class Examples(NamedTuple):
    """Inputs, labels and the name of each example's client, n of each."""

    x: npt.NDArray[Any]
    y: npt.NDArray[Any]
    clients: Sequence[str]


def check_clients(clients: object) -> None:
    """Raise ConfigError unless `clients` is None or a number of clients."""
    if clients is not None and (not isinstance(clients, int) or isinstance(clients, bool) or clients < 1):
        raise ConfigError(f"clients = {clients!r}: must be a whole number, 1 or more")


def from_clients(
    known_as: str,
    train: Examples,
    test: Examples | None,
    test_share: float,
    *,
    validation: Examples | None = None,
    test_split: str | None = None,
    everyone: Iterable[str] = (),
    about: str,
    same_clients: bool = True,
    **named: Any,
) -> Dataset:
    """Return the data set of examples by client. Clients are in natural order.

    test: None to hold out test_share of the examples of each client and label, and none of a client with a single one.
    validation: validation examples; test_split: "validation" to test on these. everyone: names of all clients in the
    data; those without training examples become a warning. same_clients: whether equal names in both splits mean the
    same client. named: further arguments of `from_arrays`.

    Raises ConfigError if training or test examples are missing, and like `from_arrays`.
    """
    names = ordered_names(train.clients)
    owners = numbered_by_name(train.clients, names)
    idle = sorted({*everyone} - {*names}, key=natural)
    if test is None and test_split != "validation":
        is_test = _held_out(owners, train.y, test_share)
        both(is_test, known_as, test_share)
        x, y, test_x, test_y = train.x[~is_test], train.y[~is_test], train.x[is_test], train.y[is_test]
        owners, test_owners = owners[~is_test], owners[is_test]
    else:
        must_not_be_asked(test_share, "set test_split = 'train'")
        test = test or train._replace(x=train.x[:0], y=train.y[:0], clients=())
        x, y, test_x, test_y = train.x, train.y, test.x, test.y
        test_owners = numbered_by_name(test.clients, names)
    warning = (
        f"{len(idle):,} of {len(names) + len(idle):,} clients have no training examples, so they take no part: "
        f"{listed(idle)}"
    )
    return from_arrays(
        known_as,
        x,
        y,
        test_x,
        test_y,
        train_owners=owners,
        test_owners=test_owners if same_clients else None,
        owner_names=names,
        validation=None if validation is None else Split(validation.x, validation.y),
        test_split=None if test_split == "train" else test_split,
        about=f"{about}, {len(names):,} clients: {listed(names)}",
        warnings=((warning,) if idle else ()) + _untrained(y, test_y, named.get("class_names", ())),
        **named,
    )


def _untrained(y: npt.NDArray[Any], test_y: npt.NDArray[Any], names: Sequence[str]) -> tuple[str, ...]:
    """Return a warning if named classes occur among the test examples alone."""
    line = untrained_classes(y, test_y, names) if names and y.ndim == 1 else None
    return () if line is None else (line,)


def _held_out(owners: IntArray, y: npt.NDArray[Any], share: float) -> BoolArray:
    """Return a mask of the test examples that leaves each client at least one training example."""
    test = spread([owners, strata_of(y)], share, len(owners))
    without = np.setdiff1d(owners, owners[~test])
    _, first = np.unique(owners, return_index=True)
    test[first[without]] = False
    return test
