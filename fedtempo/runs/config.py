"""The configuration of one run (TOML): read, checked, completed with defaults, and written back.

Sections are checked in the order of what their classes take to import, so that most errors are reported at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from fedtempo.data.settings import DataSettings, located
from fedtempo.errors import ConfigError, nearest
from fedtempo.federation import Strategy, gives_own_models
from fedtempo.fleet.presets import is_file
from fedtempo.learning.exchange import Exchange
from fedtempo.learning.pretrained import InitialWeights, located_initial
from fedtempo.learning.training import LOSSES, OPTIMIZERS, Training
from fedtempo.parts.construct import construct, names_of_fields, take
from fedtempo.parts.import_path import add_folder
from fedtempo.parts.later import Registry
from fedtempo.parts.plugins import imported, installed, outside, part_class
from fedtempo.parts.text_files import parse_toml
from fedtempo.record.client_measures import MODELS
from fedtempo.record.schema import DATABASE
from fedtempo.runs.deploy_settings import DeploySettings
from fedtempo.runs.files import read_tables
from fedtempo.runs.moved import move_server_steps
from fedtempo.runtime.executor_settings import ExecutorSettings
from fedtempo.runtime.run_settings import RunSettings
from fedtempo.strategies import STRATEGIES

if TYPE_CHECKING:
    from fedtempo.data.partitions import Partition
    from fedtempo.data.quality import Quality
    from fedtempo.fleet.fleet import FleetPlan
    from fedtempo.learning.networks import Network
    from fedtempo.runtime.server import ServerSettings

Table = dict[str, Any]


DEFAULT_CLIENTS = 50
_DEEPEST = 2
"""Dots in a key such as fleet.compute.speed, which holds one value."""

NOT_OF_NETWORK = ("size_bytes", *names_of_fields(InitialWeights), *names_of_fields(Exchange))
"""Keys of `[model]` that are no settings of the network."""

SECTIONS = ("run", "data", "model", "training", "fleet", "strategy", "executor", "server", "deploy", "compare")


@dataclasses.dataclass(frozen=True)
class Config:
    """A checked configuration. given: the tables as written; tables: with all defaults, as `dump` writes them.

    partition: None where none is given: the data's own clients, or else "iid". quality: the other keys of its table.
    """

    run: RunSettings
    data: DataSettings
    partition: Partition | None
    quality: Quality
    network: Network
    initial: InitialWeights
    exchange: Exchange
    model_bytes: int | None
    training: Training
    fleet: FleetPlan
    strategy: Strategy
    strategy_name: str
    label: str
    executor: ExecutorSettings
    server: ServerSettings
    deploy: DeploySettings
    given: Table
    tables: Table

    @property
    def n_clients(self) -> int:
        """Number of clients if the data do not determine it."""
        return self.data.clients or DEFAULT_CLIENTS

    @property
    def network_table(self) -> Table:
        """The network's name and settings, as in `[model]`."""
        return {key: value for key, value in self.tables["model"].items() if key not in NOT_OF_NETWORK}

    @property
    def variants(self) -> Mapping[str, Table]:
        """The tables `[compare.<label>]`: a strategy's settings in a comparison."""
        tables: Mapping[str, Table] = self.given.get("compare", {})
        return tables

    def with_changes(self, changes: Mapping[str, Any], label: str | None = None) -> Config:
        """Return the configuration with dotted keys replaced; label: name of the run (default: its strategy)."""
        tables = _copied(self.given)
        if changes.get("strategy.name", self.strategy_name) != self.strategy_name:
            tables["strategy"] = {}
        for key, value in changes.items():
            _put(tables, key, value)
        return parse(tables, label=label)

    def for_comparison(self, label: str) -> Config:
        """Return the configuration of the competitor `label`: a strategy's name, or a table `[compare.<label>]`.

        Such a table holds dotted keys, like `--set`; `strategy.name` among them where the label is no strategy's name.
        """
        changes: Table = {"strategy.name": label}
        for key, value in self.variants.get(label, {}).items():
            changes |= flat(key, value)
        return self.with_changes(changes, label=label)

    def alone(self) -> Config:
        """Return the configuration without competitors."""
        tables = {name: table for name, table in self.given.items() if name != "compare"}
        return parse(tables, label=self.label)

    def dump(self) -> str:
        """Return the complete configuration as TOML."""
        return tomli_w.dumps(self.tables)


def load(path: Path | str, sets: Iterable[str] = (), *, own: bool = True) -> Config:
    """Read a configuration file; sets: "dotted.key=value" assignments that override it.

    own: whether its user wrote it: modules that lie beside it can be imported then, and a data file is looked for there
    first. Beside the configuration that a run left in its folder nothing is imported. Raises ConfigError, in one line,
    for anything that is not usable.
    """
    tables = read_tables(path)
    folder = Path(path).parent
    if own and not (folder / DATABASE).exists():
        add_folder(folder)
        data = tables.get("data")
        if isinstance(data, dict) and isinstance(data.get("source"), str):
            data["source"] = located(data["source"], folder)
        located_initial(tables.get("model"), folder)
    changes = dict(map(assignment, sets))
    strategy = tables.get("strategy")
    if isinstance(strategy, dict) and changes.get("strategy.name", strategy.get("name")) != strategy.get("name"):
        tables["strategy"] = {}
    for key, value in changes.items():
        _put(tables, key, value)
    return parse(tables)


def assignment(text: str) -> tuple[str, Any]:
    """Parse "dotted.key=value" of the command line; a value that is not TOML is a string."""
    key, equals, raw = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {text}: write it as section.key=value")
    try:
        value = parse_toml(f"value = {raw}")["value"]
    except (ValueError, RecursionError):
        value = raw.strip()
    return key.strip(), value


def parse(tables: Mapping[str, Any], label: str | None = None) -> Config:
    """Return a configuration from its tables. Raises ConfigError for anything unknown, missing or out of range."""
    for name, table in tables.items():
        if name not in SECTIONS:
            raise ConfigError(f"[{name}]: unknown section{nearest(name, SECTIONS)}")
        if not isinstance(table, dict):
            raise ConfigError(f"{name} = {table!r}: this is a section; write [{name}] and its keys below it")
    given = {name: dict(tables.get(name, {})) for name in SECTIONS}
    for name in ("fleet", "strategy"):
        if not given[name]:
            raise ConfigError(f"[{name}] is missing: it has no default")

    run = construct(RunSettings, given["run"], "run")
    training = construct(Training, given["training"], "training")
    _check_names(training)
    executor = construct(ExecutorSettings, given["executor"], "executor")
    deploy = construct(DeploySettings, given["deploy"], "deploy")
    partition_table = given["data"].pop("partition", None)
    data = construct(DataSettings, given["data"], "data")

    model_bytes = given["model"].pop("size_bytes", None)
    if model_bytes is not None and (not isinstance(model_bytes, int) or model_bytes < 0):
        raise ConfigError(f"model.size_bytes = {model_bytes!r}: give a whole number of bytes, 0 or more")

    initial = take(InitialWeights, given["model"], "model")
    exchange = take(Exchange, given["model"], "model")

    strategy_name = given["strategy"].pop("name", None)
    if strategy_name is None:
        raise ConfigError(f"strategy.name is missing{nearest('', STRATEGIES)}")
    if strategy_name == "fedavg":
        move_server_steps(given["strategy"], given["server"])
    strategy_class = part_class(strategy_name, STRATEGIES, "strategies", "strategy", "strategy.name")
    strategy: Any = construct(strategy_class, given["strategy"], "strategy")
    if not isinstance(strategy, Strategy):
        raise ConfigError(f"strategy.name = {strategy_name!r}: the class has no coroutine `run(self, fed)`")

    if isinstance(data.examples_per_client, Mapping):
        from fedtempo.runs.without_data import sizes_from

        sizes_from(data.examples_per_client)
    fleet, server = _fleet_and_server(given["fleet"], given["server"])
    _check_ends(run, fleet, server, executor)
    quality, partition_table = _quality_in(partition_table)
    partition = None if partition_table is None else partition_from(partition_table)
    _check_client_tests(run, data, exchange, strategy)
    network_name = given["model"].pop("network", "mlp")
    network = network_from(network_name, given["model"])
    for key in ("transform", "augment"):
        if (target := getattr(data, key)) is not None:
            imported(target, f"data.{key}")

    resolved: Table = {
        "run": _plain(run),
        "data": {**_plain(data), **_partition_table(partition, quality)},
        "model": {
            "network": network_name,
            **_network_table(network),
            **initial.given,
            **({} if exchange.is_default else _plain(exchange)),
        },
        "training": _plain(training),
        "fleet": _plain(fleet),
        "strategy": {"name": strategy_name, **_plain(strategy)},
        "executor": _plain(executor),
        "server": _plain(server),
    }
    if is_file(fleet.preset):
        del resolved["fleet"]["preset"]  # all that the file said is here, and it may move
    if model_bytes is not None:
        resolved["model"]["size_bytes"] = model_bytes
    if given["deploy"]:
        resolved["deploy"] = _plain(deploy)
    if given["compare"]:
        resolved["compare"] = given["compare"]
    return Config(
        run=run,
        data=data,
        partition=partition,
        quality=quality,
        network=network,
        initial=initial,
        exchange=exchange,
        model_bytes=model_bytes,
        training=training,
        fleet=fleet,
        strategy=strategy,
        strategy_name=strategy_name,
        label=label or strategy_name,
        executor=executor,
        server=server,
        deploy=deploy,
        given=_copied(dict(tables)),
        tables=resolved,
    )


def _fleet_and_server(fleet_table: Table, server_table: Table) -> tuple[FleetPlan, ServerSettings]:
    from fedtempo.fleet.fleet import FleetPlan
    from fedtempo.runtime.server import ServerSettings

    fleet, server = construct(FleetPlan, fleet_table, "fleet"), construct(ServerSettings, server_table, "server")
    if fleet.faults.hang and server.deadline is None:
        raise ConfigError(
            f"fleet.faults.hang = {fleet.faults.hang}: a visit that never answers stops the run; set server.deadline"
        )
    return fleet, server


def _check_ends(run: RunSettings, fleet: FleetPlan, server: ServerSettings, executor: ExecutorSettings) -> None:
    """Raise ConfigError if the run may not end by patience or by a budget because nothing measures it."""
    if run.patience is not None and executor.kind == "none":
        raise ConfigError("run.patience: executor.kind = 'none' trains nothing, so nothing is evaluated; remove it")
    if run.budget is None:
        return
    if run.budget.watt_hours is not None and fleet.compute.watts is getattr(fleet.link, "watts", None) is None:
        raise ConfigError(
            "run.budget.watt_hours: the fleet states no power; set fleet.compute.watts or fleet.link.watts"
        )
    if run.budget.epsilon is not None and server.privacy is None:
        raise ConfigError("run.budget.epsilon: privacy is off; set server.privacy, or remove it")


def _check_client_tests(run: RunSettings, data: DataSettings, exchange: Exchange, strategy: Strategy) -> None:
    """Raise ConfigError for settings that need clients' own test sets, or models, if there are none."""
    named = {
        f"run.target = {run.target}": None if run.target is None else next(iter(run.target)),
        "run.patience.measure": None if run.patience is None else run.patience.measure,
    }
    if data.client_test_share is None and run.personalise is not None:
        raise ConfigError(_no_client_tests("run.personalise"))
    if data.client_test_share is None and run.evaluate_clients_every != 1:
        raise ConfigError(_no_client_tests("run.evaluate_clients_every"))
    kinds = run.kinds_of_models(has_local_parts=exchange.has_local_parts, has_own_models=gives_own_models(strategy))
    for where, name in named.items():
        if name is None or name not in run.client_measures:
            continue
        key = where if "=" in where else f"{where} = {name!r}"
        if data.client_test_share is None:
            raise ConfigError(_no_client_tests(key))
        if name.partition("-")[0] not in kinds:
            raise ConfigError(
                f"{key}: not measured; with these settings it is {' and '.join(kinds)}-..., of "
                f"{' and '.join(MODELS[each] for each in kinds)}"
            )


def _no_client_tests(key: str) -> str:
    return f"{key}: clients have no test sets of their own; set data.client_test_share, for example to 0.2"


def _quality_in(table: Any) -> tuple[Quality, Any]:
    """Return the keys of `[data.partition]` for every kind, and the partition's own table, None if there is none."""
    from fedtempo.data.quality import KEYS, Quality

    if not isinstance(table, dict):
        return Quality(), table
    own = {key: value for key, value in table.items() if key not in KEYS}
    quality = construct(Quality, {key: table[key] for key in KEYS if key in table}, "data.partition")
    return quality, own if own or not quality.given else None


def _partition_table(partition: Partition | None, quality: Quality) -> Table:
    """Return the table `partition` of `[data]`, if there is one."""
    given = {name: table for name, table in _plain(quality).items() if table}
    table = {**({} if partition is None else toml_value(partition)), **given}
    return {"partition": table} if table else {}


def partition_from(table: Any) -> Partition:
    """Return a partition from a table with `kind`, or from its name if it needs no settings. Raises ConfigError."""
    from fedtempo.data.partitions import PARTITIONS, Partition

    where = "data.partition"
    if isinstance(table, str):
        table = {"kind": table}
    if not isinstance(table, dict):
        raise ConfigError(f"{where} = {table!r}: give a table {{ kind = ..., ... }}")
    fields = dict(table)
    cls = part_class(fields.pop("kind", None), PARTITIONS, "partitions", "partition", f"{where}.kind")
    partition: Any = construct(cls, fields, where)
    if not isinstance(partition, Partition):
        raise ConfigError(f"{where}: {cls.__name__} has no `assign`; `fedtempo new partition NAME` shows what it takes")
    return partition


def network_from(name: Any, fields: Table) -> Network:
    """Return a network from its name and the other keys of `[model]`. Raises ConfigError.

    A class from elsewhere with `build` is a component as ours are; any other is called to make the module.
    """
    from fedtempo.learning.networks import NETWORKS, UserNetwork

    where = "model.network"
    if isinstance(name, str) and name not in NETWORKS:
        found = outside(name, "networks", where)
        if found is not None and not (isinstance(found, type) and hasattr(found, "build")):
            target = name if ":" in name else installed("networks")[name].value
            return construct(UserNetwork, {"target": target, "options": fields}, "model")
    cls = part_class(name, NETWORKS, "networks", "network", where)
    network: Network = construct(cls, fields, "model")
    return network


def _network_table(network: Network) -> Table:
    from fedtempo.learning.networks import UserNetwork

    return dict(network.options) if isinstance(network, UserNetwork) else _plain(network)


def _check_names(training: Training) -> None:
    """Raise ConfigError for a loss or optimiser that does not exist or cannot be imported."""
    for name, known, kind, what, where in (
        (training.loss, LOSSES, "losses", "loss", "training.loss"),
        (training.optimizer, OPTIMIZERS, "optimizers", "optimiser", "training.optimizer"),
    ):
        if name is not None and name not in known and outside(name, kind, where) is None:
            raise ConfigError(f"{where} = {name!r}: no such {what}{nearest(name, [*known, *installed(kind)])}")


def _plain(part: Any) -> Table:
    """Return the fields of a part as TOML values, without those that are None."""
    table = {field.name: toml_value(getattr(part, field.name)) for field in dataclasses.fields(part)}
    return {name: value for name, value in table.items() if value is not None}


def toml_value(value: Any) -> Any:
    """Return a part as the table that a configuration writes for it; other values as TOML has them."""
    if dataclasses.is_dataclass(value):
        cls = type(value)
        kind = next((name for registry in REGISTRIES.values() if (name := name_of(cls, registry))), None)
        if kind is None and not cls.__module__.startswith("fedtempo."):
            kind = f"{cls.__module__}:{cls.__qualname__}"
        return ({} if kind is None else {"kind": kind}) | _plain(value)
    if isinstance(value, frozenset | set):
        return sorted(value)
    if isinstance(value, tuple | list):
        return [toml_value(item) for item in value]
    if isinstance(value, Mapping):
        return {name: toml_value(item) for name, item in value.items()}
    return value


def name_of(cls: type, registry: Mapping[str, type]) -> str | None:
    """Return the name of a class in a registry, None if it is not there."""
    if isinstance(registry, Registry):
        return registry.name_of(cls)
    return next((name for name, known in registry.items() if known is cls), None)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _put(tables: Table, key: str, value: Any) -> None:
    """Set a dotted key and create the tables above it."""
    *sections, name = key.split(".")
    if not sections:
        raise ConfigError(f"{key}: write it as section.key, with a section of {', '.join(SECTIONS)}")
    table = tables
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{key}: {section} is no section")
    table[name] = value


def flat(key: str, value: Any) -> Table:
    """Flatten a nested table to dotted keys: {"a": {"b": 1}} becomes {"a.b": 1}.

    Tables with a `kind` stay whole, and those that are the value of a key of three parts: values by name.
    """
    deepest = _DEEPEST + 2 * key.startswith("compare.")  # compare.<label>.fleet.compute.speed
    if not isinstance(value, dict) or "kind" in value or key.count(".") >= deepest:
        return {key: value}
    return {name: item for inner, part in value.items() for name, item in flat(f"{key}.{inner}", part).items()}


REGISTRIES: Registry[Mapping[str, type]] = Registry(
    {
        "strategies": "fedtempo.strategies:STRATEGIES",
        "networks": "fedtempo.learning.networks:NETWORKS",
        "partitions": "fedtempo.data.partitions:PARTITIONS",
        "links": "fedtempo.fleet.links:LINKS",
        "distributions": "fedtempo.fleet.distributions:DISTRIBUTIONS",
        "availability": "fedtempo.fleet.availability:AVAILABILITY",
        "estimates": "fedtempo.fleet.estimates:ESTIMATES",
        "schedules": "fedtempo.learning.schedules:SCHEDULES",
        "compressions": "fedtempo.learning.compression:COMPRESSIONS",
        "server_optimizers": "fedtempo.learning.server_optimizers:SERVER_OPTIMIZERS",
    }
)
"""Parts by name, as `fedtempo list` shows them."""
