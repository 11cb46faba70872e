"""The layers that each client keeps for itself, which make the final model a personal one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.errors import ConfigError, RunError
from fedtempo.learning.naming import Naming
from fedtempo.parts.text_files import parse_json
from fedtempo.record import RunFolder
from fedtempo.record.models import read_arrays, write_arrays
from fedtempo.runtime.executors import Executor

Array = npt.NDArray[Any]

_METADATA_KEY = "fedtempo_clients"


@dataclass(frozen=True, eq=False)
class ClientLayers:
    """What clients keep of a model, by client.

    clients: ids of those that have trained, ascending. values: shape (clients, n), float32: their values of the model's
    flat vector from entry `start` on. naming: of the whole vector. Other clients have the first values, as the model
    has.
    """

    clients: Sequence[int]
    values: Array
    start: int
    naming: Naming

    @property
    def sha256(self) -> str:
        """Hash of clients and values."""
        digest = hashlib.sha256(np.array(self.clients, dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(self.values, dtype="<f4").data)
        return digest.hexdigest()

    def personal(self, vector: Array, client: int) -> Array:
        """Return a model's flat vector with a client's own layers; itself for a client that has not trained."""
        if client not in self.clients:
            return vector
        personal = vector.copy()
        personal[self.start : self.start + self.values.shape[1]] = self.values[self.clients.index(client)]
        return personal

    def write(self, folder: Path) -> None:
        """Write this to the run's folder: tensors by name, with the clients as the first axis. Raises RunError."""
        arrays = self.naming.part(self.values, self.start)
        layout = {"clients": list(self.clients), "start": self.start}
        write_arrays(layers_path(folder), arrays, {"format": "pt", _METADATA_KEY: json.dumps(layout)})

    @classmethod
    def read(cls, folder: Path, naming: Naming, sha256: str) -> ClientLayers:
        """Read them from a run's folder, which may come from anybody. naming: of its final model.

        Raises ConfigError if the folder has none or their file leads elsewhere, RunError if it is damaged.
        """
        path = layers_path(folder)
        content = read_arrays(folder, str(path.relative_to(folder)))
        if content is None:
            raise ConfigError(f"{path} does not exist; a run with run.keep = ['last', 'clients'] keeps it")
        arrays, metadata = content
        try:
            layout = parse_json(metadata[_METADATA_KEY])
            clients, start = [int(client) for client in layout["clients"]], int(layout["start"])
            layers = cls(clients, naming.part_of(arrays, start, len(clients)), start, naming)
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise RunError(f"{path} is damaged: {error}") from error
        if layers.sha256 != sha256:
            raise RunError(f"{path} is damaged: its values do not have the recorded hash")
        return layers


def layers_of(executor: Executor, naming: Naming, kept: Mapping[int, Any]) -> ClientLayers:
    """Return clients' layers from the locations of what they keep, by client id. naming: of the model."""
    from fedtempo.learning.kept import Kept

    sections, clients = executor.sections, sorted(kept)
    values = np.empty((len(clients), sections.local), dtype=np.float32)
    for row, client in zip(values, clients, strict=True):
        local = Kept.decoded(executor.state(kept[client]), sections.local).local
        assert local is not None
        row[:] = local.numpy()
    return ClientLayers(clients, values, sections.moving, naming)


def layers_path(folder: Path) -> Path:
    """Return the file of clients' layers in a run's folder, whether or not it exists."""
    return RunFolder(folder).models / "clients.safetensors"


def client_id(client: int | str, facts: Mapping[str, Any]) -> int:
    """Return the id of a client given by id or name. facts: of its run. Raises ConfigError for no such client."""
    names, count = facts.get("client_names") or [], int(facts.get("n_clients") or 0)
    if client in names:
        return int(names.index(client))
    number = int(client) if str(client).isdecimal() else -1
    if not 0 <= number < count:
        raise ConfigError(f"client = {client!r}: no such client; this run has clients 0 to {count - 1}")
    return number
