"""What a run's data are: how many examples, classes and missing values each client has, before anything trains."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import Dataset, IntArray
from fedtempo.data.selection import Selection
from fedtempo.data.sources import NOTHING
from fedtempo.errors import ConfigError
from fedtempo.parts.inputs import shape_as_json
from fedtempo.runs.config import Config
from fedtempo.runs.splits import Splits, split_examples
from fedtempo.runs.world import deal, load_data, with_quality

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class ClientData:
    """The examples of a client, or of a split.

    name: of the client, or what the split is. trains: whether it takes part. examples: that it trains on or, if it does
    not take part, that are tested on. validation, tests: examples that it holds out for validation, and for its own
    test set. counts: examples of each class, or with each label, (classes,); empty for other tasks. mean, std: of the
    first target value of a regression; None for other tasks. missing: values that its examples lacked in the file; None
    if the source does not count them.
    """

    name: str
    trains: bool
    examples: int
    validation: int
    tests: int
    counts: IntArray
    mean: float | None
    std: float | None
    missing: int | None


@dataclass(frozen=True, eq=False)
class DataDescription:
    """The data of a configuration, client by client.

    source, about, warnings, task: of the data set. shape: of one example. class_names: of classes or labels, by number.
    clients: in the order of the run, which that of a list in `[fleet]` follows, too. splits: all training examples, and
    the validation and test sets.
    """

    source: str
    about: str
    warnings: tuple[str, ...]
    task: str
    shape: Any
    class_names: tuple[str, ...]
    clients: list[ClientData]
    splits: list[ClientData]

    @property
    def counts(self) -> IntArray:
        """Examples of each class at each client, (clients, classes)."""
        return np.array([client.counts for client in self.clients], dtype=np.int64)

    def frame(self) -> DataFrame:
        """Return a pandas frame with one row per client: its fields, and a column for each class."""
        from pandas import DataFrame

        rows = []
        for client in self.clients:
            fields = {field.name: getattr(client, field.name) for field in dataclasses.fields(client)}
            counts = dict(zip(self.class_names, fields.pop("counts").tolist()))
            rows.append({**{key: value for key, value in fields.items() if value is not None}, **counts})
        return DataFrame(rows)

    def save_figure(self, path: Path | str) -> Path:
        """Draw the examples of each client by class; the suffix decides the format, such as .png, .svg or .pdf."""
        from fedtempo.report.data import draw_data

        draw_data(
            [client.name for client in self.clients],
            np.array([client.examples for client in self.clients], dtype=np.int64),
            self.counts,
            self.class_names,
            np.array([client.trains for client in self.clients]),
            path,
        )
        return Path(path)


def describe_data(config: Config) -> DataDescription:
    """Return the data of a configuration as its clients hold them at the start of a run; nothing trains.

    Raises ConfigError if the data cannot be read, dealt or split.
    """
    if config.data.source == NOTHING:
        raise ConfigError("data.source = 'none': there are no data to describe")
    dataset = load_data(config)
    dealt = deal(config, dataset)
    splits = split_examples(config, dataset, dealt.partition, dealt.owned, dealt.numbered)
    taking_part = [dealt.numbered[member] for member in splits.members.tolist()]
    dataset, _ = with_quality(config, splits.dataset, splits.owned, splits.client_tests, taking_part)
    about = "; ".join(filter(None, (dataset.about, splits.about)))
    each = enumerate(zip(dealt.numbered, dealt.owned, strict=True))
    clients = [_client(dataset, splits, number, name, rows) for number, (name, rows) in each]
    training = np.concatenate(splits.owned)
    totals = [_summed("training", clients, Selection(train=training), dataset)]
    if splits.validation is not None:
        totals.append(_of_selection("validation", splits.validation, dataset))
    test = "validation, in place of the test set" if config.run.evaluate_on == "validation" else "test"
    totals.append(_of_selection(test, splits.test, dataset))
    names = dataset.class_names or tuple(map(str, range(dataset.n_classes)))
    return DataDescription(
        source=dataset.name,
        about=about,
        warnings=dataset.warnings,
        task=dataset.task,
        shape=shape_as_json(dataset.train_x),
        class_names=names if dataset.task in ("classes", "multilabel") else (),
        clients=clients,
        splits=totals,
    )


def _client(dataset: Dataset, splits: Splits, number: int, name: str, dealt: IntArray) -> ClientData:
    """Return the data of a client. number: among all; dealt: its rows before any were held out."""
    position = np.flatnonzero(splits.members == number)
    if not len(position):
        return _of_rows(name, dealt, dataset, trains=False)
    (member,) = position.tolist()
    held = splits.validation.train if splits.validation is not None else dealt[:0]
    tests = 0 if splits.client_tests is None else len(splits.client_tests[member])
    validation = int(np.isin(dealt, held).sum())
    return _of_rows(name, splits.owned[member], dataset, validation=validation, tests=tests)


def _of_rows(
    name: str, rows: IntArray, dataset: Dataset, *, trains: bool = True, validation: int = 0, tests: int = 0
) -> ClientData:
    missing = None if dataset.train_missing is None else int(dataset.train_missing[rows].sum())
    return _described(name, dataset.train_y[rows], dataset, missing, trains=trains, validation=validation, tests=tests)


def _of_selection(name: str, selection: Selection, dataset: Dataset) -> ClientData:
    return _described(name, selection.labels(dataset), dataset, None, trains=False)


def _summed(name: str, clients: Sequence[ClientData], selection: Selection, dataset: Dataset) -> ClientData:
    """Return the training examples of all clients together."""
    taking_part = [client for client in clients if client.trains]
    missing = [client.missing for client in taking_part if client.missing is not None]
    return _described(
        name,
        selection.labels(dataset),
        dataset,
        sum(missing) if missing else None,
        validation=sum(client.validation for client in taking_part),
        tests=sum(client.tests for client in taking_part),
    )


def _described(
    name: str,
    y: npt.NDArray[Any],
    dataset: Dataset,
    missing: int | None,
    *,
    trains: bool = True,
    validation: int = 0,
    tests: int = 0,
) -> ClientData:
    counts: IntArray = np.zeros(0, dtype=np.int64)
    mean = std = None
    if dataset.task == "classes":
        counts = np.bincount(y, minlength=dataset.n_classes).astype(np.int64)
    elif dataset.task == "multilabel":
        counts = y.sum(axis=0).astype(np.int64)
    elif dataset.task == "numbers" and len(y):
        values = y.reshape(len(y), -1)[:, 0].astype(np.float64)
        mean, std = float(values.mean()), float(values.std())
    return ClientData(name, trains, len(y), validation, tests, counts, mean, std, missing)
