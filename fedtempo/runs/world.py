"""What the strategies of a configuration share: data, their partition, clients, fleet and local training."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from multiprocessing import parent_process
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tomli_w

from fedtempo.data.client_tests import held_out
from fedtempo.data.dataset import Dataset
from fedtempo.data.dealing import histogram
from fedtempo.data.drift import Drifting, drifting
from fedtempo.data.noise import must_not_share, with_noise
from fedtempo.data.partitions import PARTITIONS, ByOwner, Iid, Partition
from fedtempo.data.selection import Selection
from fedtempo.data.sources import load
from fedtempo.data.stamps import stamp
from fedtempo.errors import ConfigError, UserCodeError
from fedtempo.federation import Client
from fedtempo.fleet.fleet import Fleet
from fedtempo.fleet.members import members_of
from fedtempo.learning.metrics import check_metrics
from fedtempo.learning.networks import NETWORKS, CharLstm, Network
from fedtempo.learning.priors import balanced_weights, label_prior
from fedtempo.learning.training import LOSSES, Training
from fedtempo.learning.transformer import Transformer
from fedtempo.learning.unet import UNet
from fedtempo.parts.inputs import is_several
from fedtempo.parts.plugins import imported
from fedtempo.parts.text_files import parse_toml
from fedtempo.parts.user_code import part_name, user_code
from fedtempo.runs.config import Config
from fedtempo.runs.splits import of_data as evaluated_of_data
from fedtempo.runs.splits import split_examples
from fedtempo.runs.without_data import clients_of_column, described, examples_beyond_data, examples_without_data
from fedtempo.runtime.keyed import keyed_generator

log = logging.getLogger("fedtempo")

_LOOKED_AT = 500
"""Number of labels that a user's loss is tried on."""


@dataclass(frozen=True, eq=False)
class World:
    """The data, their partition and the fleet, which all strategies of a comparison share under one seed.

    test: what the global model is evaluated on. validation: the validation set beside it, by which the run ends early
    and the best model is chosen; None if there is none. owned: the rows of each client's training examples.
    client_tests: each client's own test set, as rows of the training examples or, if `tests_from_data`, of the test
    examples; None if they have none. histograms: number of examples of each class at each client. Without examples
    (`fedtempo.runs.without_data`), owned and histograms are empty. told: the numbers that clients report; None if none
    do. drifting: how examples change during the run; None if they do not.
    """

    dataset: Dataset
    owned: list[npt.NDArray[np.int64]]
    test: Selection
    clients: tuple[Client, ...]
    histograms: list[list[int]]
    told: npt.NDArray[np.float64] | None
    fleet: Fleet
    client_tests: list[npt.NDArray[np.int64]] | None = None
    tests_from_data: bool = False
    validation: Selection | None = None
    drifting: Drifting | None = None

    @property
    def data_sha256(self) -> str:
        """Hash of all data that the run's results depend on.

        More than the hash of the examples if it also matters whose they are, or to which groups or times they belong.
        """
        dataset = self.dataset
        related = dataset.train_groups is not None or dataset.train_times is not None
        selected = [each for each in (self.test, self.validation) if each is not None and len(each.train)]
        if not selected and not ((self.tests_from_data or related) and self.client_tests is not None):
            return dataset.sha256
        digest = hashlib.sha256(dataset.sha256.encode())
        for rows in self.client_tests or ():
            digest.update(rows.astype("<i8").tobytes() + b"\n")
        for each in selected:
            each.hash_into(digest.update)
        return digest.hexdigest()

    @property
    def holds_examples(self) -> bool:
        """Whether clients hold examples of the data."""
        return bool(self.owned)


@lru_cache(maxsize=4)
def _loaded(source: str, options: str, transform: str | None, _stamp: str) -> Dataset:
    """Load a data set once, and again if its files have changed (`fedtempo.data.stamps.stamp`).

    options: as TOML, because tables and lists cannot be cache keys.
    """
    try:
        dataset = load(source, **parse_toml(options))
    except UserCodeError:
        raise
    except ConfigError as error:
        raise ConfigError(_naming_source(source, str(error))) from error
    if parent_process() is None:  # not once more in every worker
        if dataset.about:
            log.info("%s: %s", dataset.name, dataset.about)
        for warning in dataset.warnings:
            log.warning("%s: %s", dataset.name, warning)
    if transform is None:
        return dataset
    where = f"data.transform = {transform!r}"
    return dataset.transformed(imported(transform, "data.transform"), where)


@lru_cache(maxsize=64)
def _tell_once(name: str, line: str) -> None:
    """Log a line about the data, which is the same whenever a world is built, and not once more in every worker."""
    if parent_process() is None:
        log.info("%s: %s", name, line)


def _naming_source(source: str, message: str) -> str:
    """Return a message that names the source, and its file only once."""
    if message.startswith("data.source"):
        return message
    for known in (source, source.partition(":")[2]):
        message = message.removeprefix(f"{known}: ")
    return f"data.source = {source!r}: {message}"


def load_data(config: Config) -> Dataset:
    """Return the data set that a configuration names. Raises ConfigError if it is missing."""
    data = config.data
    return _loaded(data.source, tomli_w.dumps(data.options), data.transform, stamp(data.source, data.options))


def dealt_by(config: Config, dataset: Dataset) -> tuple[Partition, int]:
    """Return the partition and the number of clients, taken from the data if the configuration leaves them open.

    Where the data name clients each of them is one. Raises ConfigError for a partition by classes of data without.
    """
    owners, partition, clients = dataset.train_owners, config.partition, config.data.clients
    if partition is None:
        partition = Iid() if owners is None else ByOwner()
    if clients is None and isinstance(partition, ByOwner) and owners is not None:
        clients = int((np.unique(owners, return_counts=True)[1] >= partition.min_examples).sum())
    if dataset.task == "tokens" and isinstance(partition, tuple(PARTITIONS.values())) and not _by_place(partition):
        raise ConfigError(f"data.partition: {dataset.name} has no classes to deal by; it can be 'iid' or 'by-owner'")
    return partition, clients or config.n_clients


def _by_place(partition: Partition) -> bool:
    return isinstance(partition, Iid | ByOwner)


def build_world(config: Config) -> World:
    """Build data, partition, clients and fleet of a configuration; none of them depends on the strategy."""
    data = config.data
    dataset = load_data(config)
    partition, n_clients = dealt_by(config, dataset)
    n_clients = clients_of_column(config) or n_clients if data.clients is None else n_clients
    if (counts := examples_without_data(config, n_clients)) is not None:
        return _without_data(config, dataset, counts)
    try:
        dealt = _deal(config, dataset, partition, n_clients)
    except UserCodeError:
        raise
    except _Undealt as error:
        return _without_data(config, dataset, examples_beyond_data(config, dataset, n_clients, error))
    numbered = dealt.numbered
    splits = split_examples(config, dataset, partition, dealt.owned, numbered)
    owned, dataset = splits.owned, splits.dataset
    taking_part = [numbered[member] for member in splits.members.tolist()]
    dataset, drifts = with_quality(config, dataset, owned, splits.client_tests, taking_part)
    labels, n_labels = dataset.strata
    if splits.about:
        _tell_once(dataset.name, splits.about)
        dataset = replace(dataset, about="; ".join(filter(None, (dataset.about, splits.about))))
    histograms = [histogram(labels, rows, n_labels).tolist() for rows in owned]
    told = np.array([_told(config, i, counts) for i, counts in enumerate(histograms)]) if data.tell_labels else None
    consent = _consent(config, len(owned))
    everyone = len(owned) == n_clients
    names = dealt.names if everyone else numbered
    clients = tuple(
        Client(
            id=i,
            num_examples=len(rows),
            label_histogram=None if told is None else tuple(np.maximum(np.rint(told[i]), 0).astype(int).tolist()),
            shares_examples=bool(consent[i]),
            name=names[member],
        )
        for i, (rows, member) in enumerate(zip(owned, splits.members.tolist(), strict=True))
    )
    fleet = _fleet(config, numbered)
    if not everyone:
        fleet = members_of(fleet, splits.members.tolist())
    return World(
        dataset=dataset,
        owned=owned,
        test=splits.test,
        clients=clients,
        histograms=histograms,
        told=told,
        fleet=fleet,
        client_tests=splits.client_tests,
        tests_from_data=data.client_test_share == "data",
        validation=splits.validation,
        drifting=drifts,
    )


class _Undealt(ConfigError):
    """A partition cannot deal the examples."""


class Dealt(NamedTuple):
    """The examples as the partition deals them: rows by client, and the clients' names, empty without one."""

    partition: Partition
    owned: list[npt.NDArray[np.int64]]
    names: list[str]

    @property
    def numbered(self) -> list[str]:
        """The names; of clients without one their number."""
        return [name or str(i) for i, name in enumerate(self.names)]


def deal(config: Config, dataset: Dataset) -> Dealt:
    """Return the examples that each client gets before any are held out. Raises ConfigError if they cannot be dealt."""
    return _deal(config, dataset, *dealt_by(config, dataset))


def _deal(config: Config, dataset: Dataset, partition: Partition, n_clients: int) -> Dealt:
    (labels, n_labels), sizes = dataset.strata, config.data.examples_per_client
    if isinstance(sizes, dict):
        raise ConfigError("data.examples_per_client: a distribution or a column counts examples that nobody holds")
    rng = keyed_generator(config.run.seed, "partition")
    try:
        with user_code(f"data.partition.kind = {part_name(partition)!r}", partition):
            owned = partition.assign(labels, n_labels, n_clients, sizes, rng, dataset.train_owners)
    except UserCodeError:
        raise
    except ConfigError as error:
        raise _Undealt(f"data: {dataset.name}: {error}") from error
    _check_dealt(owned, n_clients, len(labels))
    empty = [i for i, rows in enumerate(owned) if not len(rows)]
    if empty:
        raise ConfigError(
            f"data.partition: client {empty[0]} gets no example ({len(empty)} clients do not): "
            "use fewer clients or another partition"
        )
    return Dealt(partition, owned, [_name(dataset, partition, rows) for rows in owned])


def with_quality(
    config: Config,
    dataset: Dataset,
    owned: list[npt.NDArray[np.int64]],
    client_tests: list[npt.NDArray[np.int64]] | None,
    names: list[str],
) -> tuple[Dataset, Drifting | None]:
    """Return the data with the noise of the clients' examples, and how these change during the run."""
    if not config.quality.given:
        return dataset, None
    rng = partial(keyed_generator, config.run.seed)
    own_tests = client_tests if client_tests is not None and config.data.client_test_share != "data" else []
    must_not_share([*owned, *own_tests], len(dataset.train_y))
    noisy, lines = with_noise(config.quality, dataset, owned, own_tests, names, rng)
    drifts = drifting(config.quality.drift, noisy, names, rng)
    for line in (lines := [*lines, *([] if drifts is None else drifts.about)]):
        _tell_once(dataset.name, line)
    return replace(noisy, about="; ".join(filter(None, [noisy.about, *lines]))), drifts


def _without_data(config: Config, dataset: Dataset, counts: npt.NDArray[np.int64]) -> World:
    """Return a world whose clients count examples that they do not hold."""
    if config.data.test_clients is not None:
        raise ConfigError("data.test_clients: clients hold no examples of the data here, so none can be tested on")
    for share in (config.data.validation_share, config.data.client_test_share):
        if isinstance(share, float):
            counts = counts - held_out(counts, share)
    dataset = described(dataset, counts)
    n_clients = len(counts)
    consent = _consent(config, n_clients).tolist()
    clients = tuple(
        Client(id=i, num_examples=count, shares_examples=agrees)
        for i, (count, agrees) in enumerate(zip(counts.tolist(), consent, strict=True))
    )
    fleet = _fleet(config, list(map(str, range(n_clients))))
    return World(dataset, [], evaluated_of_data(config, dataset)[0], clients, [], None, fleet)


def _consent(config: Config, n_clients: int) -> npt.NDArray[np.bool_]:
    """Return which clients agree to upload raw examples."""
    order = keyed_generator(config.run.seed, "consent").permutation(n_clients)
    agree: npt.NDArray[np.bool_] = order < round(config.data.share_examples * n_clients)
    return agree


def _fleet(config: Config, names: list[str]) -> Fleet:
    seed = config.run.seed
    with user_code("fleet"):
        return config.fleet.build(len(names), lambda purpose, *keys: keyed_generator(seed, purpose, *keys), names)


def _check_dealt(owned: list[npt.NDArray[np.int64]], n_clients: int, n_examples: int) -> None:
    """Raise ConfigError if a user's partition violates what strategies and executors rely on."""
    if len(owned) != n_clients:
        raise ConfigError(f"data.partition: it dealt examples to {len(owned)} clients, not to {n_clients}")
    for client, rows in enumerate(owned):
        if rows.dtype != np.int64 or rows.ndim != 1 or (len(rows) and not 0 <= rows.min() <= rows.max() < n_examples):
            raise ConfigError(
                f"data.partition: client {client} gets {rows.dtype} of shape {rows.shape}; it must be rows, int64, "
                f"0 to {n_examples - 1}"
            )


def _name(dataset: Dataset, partition: Partition, rows: npt.NDArray[np.int64]) -> str:
    """Return the data's name for the client that holds these examples; empty if there is none."""
    if dataset.train_owners is None or not dataset.owner_names or not isinstance(partition, ByOwner) or not len(rows):
        return ""
    name: str = dataset.owner_names[dataset.train_owners[rows[0]]]
    return name


def _told(config: Config, client: int, histogram: list[int]) -> npt.NDArray[np.float64]:
    """Return the class counts that a client reports: its own, with noise if configured."""
    counts, epsilon = np.array(histogram, dtype=np.float64), config.data.label_noise_epsilon
    if epsilon is None:
        return counts
    return counts + keyed_generator(config.run.seed, "label noise", client).laplace(scale=1 / epsilon, size=len(counts))


def training_of(config: Config, world: World) -> Training:
    """Return local training as configured; class priors are the shares that clients report unless they are given.

    Raises ConfigError for a loss that needs the prior if clients report no counts.
    """
    training, dataset = config.training, world.dataset
    check_loss(training, dataset)
    check_inputs(config.network, dataset)
    check_metrics(config.run.metrics, dataset.task, dataset.n_classes, dataset.name)
    if dataset.task != "classes":
        return training
    if training.class_weights == "balanced":
        if world.told is None:
            raise ConfigError(
                "training.class_weights = 'balanced': the classes' shares are unknown; set data.tell_labels = true if "
                "clients may report theirs, or list the weights"
            )
        counts = np.maximum(world.told.sum(axis=0), 0).tolist()
        weights = balanced_weights(label_prior(counts, config.data.label_pseudo_count))
        training = replace(training, class_weights=weights)
    if training.prior:
        return training
    if world.told is not None:
        counts = np.maximum(world.told.sum(axis=0), 0).tolist()
        return replace(training, prior=label_prior(counts, config.data.label_pseudo_count))
    if training.loss == "logit-adjusted":
        raise ConfigError(
            "training.loss = 'logit-adjusted': the classes' shares are unknown; set data.tell_labels = true if clients "
            "may report theirs, or set training.prior"
        )
    return training


def check_loss(training: Training, dataset: Dataset) -> None:
    """Raise ConfigError if the configured loss or class weights do not fit the data's task."""
    loss, numbers, several = training.loss, dataset.task == "numbers", dataset.task == "multilabel"
    if numbers and loss is not None and loss not in LOSSES:
        _must_prefer_labels(training, dataset)
    if loss in LOSSES and ((loss in ("squared", "absolute")) != numbers or (loss == "bce") != several):
        suitable = {"numbers": "squared or absolute", "multilabel": "bce"}.get(dataset.task, "cross-entropy")
        suitable = f"{dataset.task}: {suitable}"
        raise ConfigError(f"training.loss = {loss!r}: {dataset.name} needs {suitable}; or remove it")
    if loss in ("logit-adjusted", "batch-adjusted") and dataset.task != "classes":
        raise ConfigError(f"training.loss = {loss!r}: {dataset.name} has {dataset.task}, not classes")
    weights = training.class_weights
    if weights and dataset.task not in ("classes", "segmentation"):
        raise ConfigError(f"training.class_weights: {dataset.name} has {dataset.task}, not classes")
    if weights == "balanced" and dataset.task == "segmentation":
        raise ConfigError("training.class_weights = 'balanced': clients report no counts of pixels; list the weights")
    if weights and weights != "balanced" and len(weights) != dataset.n_classes:
        raise ConfigError(
            f"training.class_weights has {len(weights)} weights; {dataset.name} has {dataset.n_classes} classes"
        )


def _must_prefer_labels(training: Training, dataset: Dataset) -> None:
    """Raise ConfigError for a user's loss on numbers if R² would rank models differently."""
    from fedtempo.learning.losses import prefers_labels  # it needs PyTorch

    if not prefers_labels(training, dataset.train_y[:_LOOKED_AT]):
        raise ConfigError(
            f"training.loss = {training.loss!r}: it is not smallest where outputs equal the labels of {dataset.name}, "
            "so R² would rank models wrongly; use squared or absolute, or data.options.task = 'classes' for labels "
            "of 0 and 1"
        )


def check_inputs(network: Network, dataset: Dataset) -> None:
    """Raise ConfigError if one of our networks needs symbols and the data are numbers, or vice versa."""
    name = next((name for name, part in NETWORKS.items() if type(network) is part), None)
    if isinstance(network, Transformer):
        _check_tokens(network, dataset)
        return
    if name is not None and is_several(dataset.train_x):
        inputs = ", ".join(dataset.train_x.dtype.names or ())
        raise ConfigError(
            f"model.network = {name!r}: needs one input, and examples of {dataset.name} have several ({inputs}); "
            "name a module of your own that takes them"
        )
    if name is not None and isinstance(network, UNet) != (dataset.task == "segmentation"):
        needs = "masks" if isinstance(network, UNet) else "one label for each example, or for each of its tokens"
        hint = "'unet'" if dataset.task == "segmentation" else "another one"
        raise ConfigError(
            f"model.network = {name!r}: needs {needs}, and {dataset.name} has {dataset.task}; take {hint}, or a module "
            "of your own"
        )
    if isinstance(network, CharLstm) and dataset.train_x.dtype == np.int64:
        _check_characters(dataset)
    if name is None or (symbols := dataset.train_x.dtype == np.int64) == isinstance(network, CharLstm):
        return
    have, needs = ("symbols", "numbers") if symbols else ("numbers", "symbols")
    raise ConfigError(
        f"model.network = {name!r}: needs inputs that are {needs}, and those of {dataset.name} are {have}; set "
        f"data.options.inputs = {needs!r} if they are {needs}, or take another network"
    )


def _check_characters(dataset: Dataset) -> None:
    """Raise ConfigError unless each symbol is also an output, as char-lstm needs it."""
    largest = max(int(x.max()) for x in (dataset.train_x, dataset.test_x))
    if largest >= dataset.n_classes:
        raise ConfigError(
            f"model.network = 'char-lstm': predicts the next of the symbols that it reads, and {dataset.name} has "
            f"{dataset.n_classes} classes for symbols up to {largest}; take a network of your own"
        )


def _check_tokens(network: Transformer, dataset: Dataset) -> None:
    """Raise ConfigError unless the data are tokens, of which the network has enough."""
    x = dataset.train_x
    inputs = x["input_ids"] if "input_ids" in (x.dtype.names or ()) else x
    if inputs.dtype != np.int64:
        raise ConfigError(
            f"model.network = 'transformers': needs tokens, and {dataset.name} has none; set data.options.tokenizer, "
            "or let a source of your own return input_ids and attention_mask"
        )
    size = network.config.get("vocab_size")
    if isinstance(size, int) and (most := int(inputs.max())) >= size:
        raise ConfigError(f"model.config.vocab_size = {size}: {dataset.name} has tokens up to {most}")
