"""A configuration's fleet as drawn: its clients as rows, and as a deterministic `[fleet]` table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import tomli_w

from fedtempo.errors import ConfigError, RunError
from fedtempo.fleet.presence import Availability
from fedtempo.record.strict_json import to_json, write_text
from fedtempo.runs.config import Config, toml_value
from fedtempo.runs.foresight import schedule_only
from fedtempo.runs.launch import make_executor
from fedtempo.runs.world import World, build_world
from fedtempo.runtime.transfers import TransferSizes

FORMATS = (".csv", ".parquet", ".json", ".toml")
DAY_S = 86_400.0
_MOST_WINDOWS = 100_000

Rows = list[dict[str, Any]]


def describe_fleet(config: Config, world: World | None = None) -> Rows:
    """Return one row per client in order: its name if it has one, mean seconds of a configured visit and of its parts,
    rates in bit/s, position in metres, watts if known, its number of examples, and the share of the horizon (of a day
    without a horizon) in which it is available."""
    world = build_world(config) if world is None else world
    with make_executor(schedule_only(config), world) as executor:
        sizes = TransferSizes.of(executor, config.model_bytes, config.server.compression)
    held = [client.num_examples for client in world.clients]
    rows = world.fleet.describe([config.training.examples_per_visit(n) for n in held], sizes.down, sizes.up)
    until_s = config.run.horizon or DAY_S
    if any(client.name for client in world.clients):
        rows = [{"client": row["client"], "name": client.name} | row for row, client in zip(rows, world.clients)]
    for row, examples in zip(rows, held):
        row["examples"] = examples
        there = windows(world.fleet.availability, row["client"], until_s)
        row["available_share"] = sum(end - begin for begin, end in there) / until_s
    return rows


def windows(availability: Availability, client: int, until_s: float) -> list[tuple[float, float]]:
    """Return the intervals in which a client is available between 0 and `until_s`."""
    found: list[tuple[float, float]] = []
    t = 0.0
    while t < until_s and len(found) < _MOST_WINDOWS:
        begin = availability.next_available(client, t)
        if begin >= until_s:
            break
        end = min(availability.available_until(client, begin), until_s)
        found.append((begin, end))
        t = max(end, math.nextafter(begin, math.inf))
    return found


def as_drawn(config: Config, world: World | None = None) -> dict[str, Any]:
    """Return the `[fleet]` table of the drawn clients: one value per client instead of each distribution.

    Variation between visits, availability, estimates and faults are as configured. Rates that depend on positions
    become explicit rates. Clients that are only tested on are among them, since lists in `[fleet]` count all clients.
    """
    if config.data.test_clients is not None:
        config, world = config.with_changes({"data.test_clients": None}), None
    fleet = (build_world(config) if world is None else world).fleet
    table: dict[str, Any] = {
        name: toml_value(getattr(config.fleet, name)) for name in ("availability", "estimates", "faults")
    }
    table["compute"] = {**toml_value(config.fleet.compute), "speed": fleet.speed.values.tolist()}
    link = toml_value(config.fleet.link)
    if "fluctuation_std" in link:
        raise ConfigError("fleet.link.fluctuation_std: explicit rates cannot vary like this; remove it, or export rows")
    down, up = fleet.links.download, fleet.links.upload
    if down.rate_bps is not None and up.rate_bps is not None:
        common = ("channels", "download_channels", "peer_bps", "fluctuation")
        table["link"] = {
            "kind": "rates",
            "download_bps": down.rate_bps.tolist(),
            "upload_bps": up.rate_bps.tolist(),
            **{name: link[name] for name in common if name in link},
        }
    elif link.get("kind") == "fixed" and down.seconds is not None and up.seconds is not None:
        table["link"] = {**link, "download_s": down.seconds.tolist(), "upload_s": up.seconds.tolist()}
    else:
        table["link"] = link
    if fleet.compute_watts is not None:
        table["compute"]["watts"] = fleet.compute_watts.tolist()
    if fleet.link_watts is not None:
        table["link"]["watts"] = fleet.link_watts.tolist()
    return {name: table[name] for name in ("compute", "link", "estimates", "availability", "faults")}


def export_fleet(config: Config, path: Path) -> Path:
    """Write the fleet to a new file: one row per client as CSV, Parquet or JSON, or its `[fleet]` table as TOML.

    Raises ConfigError for another suffix or an existing file, RunError if it cannot be written.
    """
    if path.suffix not in FORMATS:
        raise ConfigError(f"{path}: a fleet can be written as {', '.join(FORMATS)}")
    if path.exists():
        raise ConfigError(f"{path} already exists; choose another file (nothing was overwritten)")
    world = build_world(config)
    if path.suffix == ".toml":
        drawn = {"fleet": as_drawn(config, world)}
        write_text(path, f"# The fleet of seed {config.run.seed}, a value a client.\n{tomli_w.dumps(drawn)}")
        return path
    rows = describe_fleet(config, world)
    if path.suffix == ".json":
        write_text(path, to_json(rows) + "\n")
        return path
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    write = pa.parquet.write_table if path.suffix == ".parquet" else pa.csv.write_csv
    try:
        write(pa.Table.from_pylist(rows), path)
    except OSError as error:
        raise RunError(f"{path} could not be written: {error}") from error
    return path
