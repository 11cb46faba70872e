"""One random stream per client, so that clients do not affect each other."""

from __future__ import annotations

import numpy as np


class Streams:
    """`streams[client]` is that client's generator, made on first use. Takes one draw per client from `rng`."""

    def __init__(self, rng: np.random.Generator, n_clients: int) -> None:
        self._seeds: list[int] = rng.integers(0, 2**63, n_clients).tolist()
        self._generators: dict[int, np.random.Generator] = {}

    def __getitem__(self, client: int) -> np.random.Generator:
        if client not in self._generators:
            self._generators[client] = np.random.default_rng(self._seeds[client])
        return self._generators[client]
