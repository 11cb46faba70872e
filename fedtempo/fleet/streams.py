"""One random stream a client, so that what happens to one client does not depend on the others."""

from __future__ import annotations

import numpy as np


class Streams:
    """`streams[client]`: that client's generator, made when it is first used. Uses up one draw a client of `rng`."""

    def __init__(self, rng: np.random.Generator, n_clients: int) -> None:
        self._seeds: list[int] = rng.integers(0, 2**63, n_clients).tolist()
        self._made: dict[int, np.random.Generator] = {}

    def __getitem__(self, client: int) -> np.random.Generator:
        if client not in self._made:
            self._made[client] = np.random.default_rng(self._seeds[client])
        return self._made[client]
