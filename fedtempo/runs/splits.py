"""Which examples a run trains on, validates on and tests on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedtempo.data.client_tests import HeldOut, hold_out, owned_tests
from fedtempo.data.dataset import Dataset, IntArray
from fedtempo.data.partitions import ByOwner, Partition
from fedtempo.data.selection import Selection
from fedtempo.data.test_clients import chosen_clients
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed
from fedtempo.runs.config import Config
from fedtempo.runtime.keyed import keyed_generator

_WAY_OUT = "set data.validation_share, for example to 0.1"


@dataclass(frozen=True, eq=False)
class Splits:
    """The examples of a run.

    dataset: the data, with statistics such as means that scale features from training examples alone.
    members: numbers of the clients that take part, among all clients, ascending. owned: rows of each one's training
    examples. test, validation: what the global model is evaluated on; no validation set if None. client_tests: see
    `World`. about: what is unusual about the test set, for people; empty if nothing is.
    """

    dataset: Dataset
    members: IntArray
    owned: list[IntArray]
    test: Selection
    validation: Selection | None
    client_tests: list[IntArray] | None
    about: str = ""


def split_examples(
    config: Config, dataset: Dataset, partition: Partition, owned: Sequence[IntArray], names: Sequence[str]
) -> Splits:
    """Return the examples of a run.

    owned: rows of the training examples that the partition deals to each client. names: of these clients. Raises
    ConfigError if a split is not possible, or would leave a client nothing to train on.
    """
    data, seed = config.data, config.run.seed
    n = len(dataset.train_y)
    members, training = np.arange(len(owned), dtype=np.int64), list(owned)
    tests, about = Selection(test=np.arange(len(dataset.test_y), dtype=np.int64)), ""
    if data.test_clients is not None:
        chosen = chosen_clients(data.test_clients, names, seed, keyed_generator)
        members = np.setdiff1d(members, chosen)
        tests = _examples_of(dataset, partition, owned, chosen)
        staying = members.tolist()
        training, left_out = _without(tests.train, [owned[i] for i in staying], dataset, [names[i] for i in staying])
        who = listed([names[i] for i in chosen])
        unused = len(dataset.test_y) - len(tests.test)
        about = f"tested on {len(tests):,} examples of clients that do not take part ({len(chosen)}): {who}{left_out}"
        about += f"; {unused:,} other test examples of the data not used" if unused else ""
    validation = None if dataset.validation_y is None else Selection(validation=np.arange(len(dataset.validation_y)))
    if data.validation_share is not None:
        if validation is not None:
            raise ConfigError(
                f"data.validation_share = {data.validation_share:g}: {dataset.name} has a validation split already; "
                "remove it"
            )
        rng = partial(keyed_generator, seed, "validation")
        held = _held(dataset, training, data.validation_share, n, rng, "data.validation_share")
        training = held.training
        validation = Selection(train=np.unique(np.concatenate(held.tests)))
    client_tests = None
    if data.client_test_share == "data":
        if not isinstance(partition, ByOwner):
            raise ConfigError(
                "data.client_test_share = 'data': clients are not those of the data, since data.partition deals the "
                "examples otherwise; set data.partition = 'by-owner', or give a share, such as 0.2"
            )
        client_tests = owned_tests(training, dataset.train_owners, dataset.test_owners, dataset.name)
    elif data.client_test_share is not None:
        rng = partial(keyed_generator, seed, "client tests")
        training, client_tests = _held(dataset, training, data.client_test_share, n, rng, "data.client_test_share")
    test, validation = evaluated_on(config, dataset, tests, validation)
    return Splits(_refitted(dataset, owned, training), members, training, test, validation, client_tests, about)


def evaluated_on(
    config: Config, dataset: Dataset, tests: Selection, validation: Selection | None, way_out: str = _WAY_OUT
) -> tuple[Selection, Selection | None]:
    """Return the examples that the model is evaluated on, and the validation set beside them.

    tests: the test examples, of which `data.test_examples` may ask for a sample. With `run.evaluate_on = "validation"`,
    the validation set takes their place. Raises ConfigError if it is missing (way_out: what to do then), or there are
    too few examples.
    """
    if config.run.evaluate_on == "validation":
        if validation is None:
            raise ConfigError(f"run.evaluate_on = 'validation': {dataset.name} has no validation examples; {way_out}")
        return validation, None
    wanted, available = config.data.test_examples, len(tests)
    if not available:
        way_out = "remove data.options.test_share" if "test_share" in config.data.options else "give it some"
        raise ConfigError(f"data: {dataset.name} has no test examples, but the model is evaluated on them; {way_out}")
    if wanted is None:
        return tests, validation
    if wanted > available:
        what = "" if config.data.test_clients is None else " for testing"
        raise ConfigError(f"data.test_examples = {wanted}: {dataset.name} has {available}{what}")
    chosen = keyed_generator(config.run.seed, "test").choice(available, wanted, replace=False)
    return tests.sample(np.sort(chosen)), validation


def of_data(config: Config, dataset: Dataset) -> tuple[Selection, Selection | None]:
    """Return what the model is evaluated on, and the validation set, of the splits that the data themselves have."""
    validation = None if dataset.validation_y is None else Selection(validation=np.arange(len(dataset.validation_y)))
    tests = Selection(test=np.arange(len(dataset.test_y)))
    return evaluated_on(config, dataset, tests, validation, "evaluate on the test examples")


def _examples_of(dataset: Dataset, partition: Partition, owned: Sequence[IntArray], chosen: IntArray) -> Selection:
    """Return all examples of clients: those dealt to them, and the test examples that the data have for them."""
    train = np.unique(np.concatenate([owned[i] for i in chosen]))
    if dataset.train_owners is None or dataset.test_owners is None or not isinstance(partition, ByOwner):
        return Selection(train=train)
    owners = {int(dataset.train_owners[owned[i][0]]) for i in chosen}
    return Selection(train=train, test=np.flatnonzero(np.isin(dataset.test_owners, list(owners))))


def _refitted(dataset: Dataset, dealt: Sequence[IntArray], training: Sequence[IntArray]) -> Dataset:
    """Return the data set with statistics over its training examples without those that are held out here.

    dealt: rows of each client's examples before any were held out; training: of those that are left.
    """
    fit_on = np.ones(len(dataset.train_y), dtype=bool)
    fit_on[np.concatenate(dealt)] = False
    fit_on[np.concatenate(training)] = True
    if dataset.refit is None or fit_on.all():
        return dataset
    refitted = dataset.refit(fit_on)
    if len(refitted.test_y) != len(dataset.test_y):
        raise ConfigError(f"{dataset.name}: its test examples changed while they were read; start again")
    return refitted


def _without(
    test: IntArray, owned: Sequence[IntArray], dataset: Dataset, names: Sequence[str]
) -> tuple[list[IntArray], str]:
    """Return clients' training examples without those that are tested on, and without those of the same groups.

    Also returns a remark on how many are left out. Raises ConfigError if a client has nothing left.
    """
    is_test = np.zeros(len(dataset.train_y), dtype=bool)
    is_test[test] = True
    if dataset.train_groups is not None:
        is_test |= np.isin(dataset.train_groups, dataset.train_groups[test])
    left = [rows[~is_test[rows]] for rows in owned]
    what = "examples" if dataset.train_groups is None else "groups"
    if empty := [name for name, rows in zip(names, left) if not len(rows)]:
        raise ConfigError(
            f"data.test_clients: nothing is left for client {empty[0]!r} to train on ({len(empty)} clients), because "
            f"all its {what} are also at clients that are tested on; use a partition that shares no {what}"
        )
    lost = sum(map(len, owned)) - sum(map(len, left))
    return left, f"; {lost:,} training examples left out, whose {what} are tested on" if lost else ""


def _held(
    dataset: Dataset,
    owned: Sequence[IntArray],
    share: float,
    n: int,
    rng: Callable[[int], np.random.Generator],
    where: str,
) -> HeldOut:
    times, starts = dataset.train_times, dataset.train_starts
    return hold_out(owned, share, n, rng, groups=dataset.train_groups, times=times, starts=starts, where=where)
