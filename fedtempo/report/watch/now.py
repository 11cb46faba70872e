"""What a run is doing now, from the file that `runtime.heartbeat` writes; its age shows whether the run is alive."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Ge, Interval
from pydantic import BaseModel, ConfigDict, ValidationError

from fedtempo.errors import ConfigError
from fedtempo.record.checks import MOST_CLIENTS
from fedtempo.record.folder import NOW
from fedtempo.record.reading import inside, read_text
from fedtempo.record.schema import LARGEST_TIME_S

ALIVE_S = 10.0
"""Seconds without a write after which a run counts as not running."""

Instant = Annotated[float, Interval(ge=0, le=LARGEST_TIME_S)]
Client = Annotated[int, Interval(ge=0, lt=MOST_CLIENTS)]


class OpenVisit(NamedTuple):
    """A visit in progress, as in the file. group: -1 for none. Times in seconds."""

    client: Client
    group: Annotated[int, Ge(-1)]
    started: Instant
    received: Instant | None
    computed: Instant | None


class Now(BaseModel):
    """A run's current state. busy: number of clients in visits."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    now_s: Instant
    visits_begun: Annotated[int, Ge(0)]
    busy: Annotated[int, Ge(0)]
    in_progress: tuple[OpenVisit, ...]

    def bits(self, n_clients: int) -> str:
        """Return which clients are busy, one bit per client, highest bit of each byte first, as base64."""
        busy = np.zeros(n_clients, np.uint8)
        busy[[visit.client for visit in self.in_progress if visit.client < n_clients]] = 1
        return base64.b64encode(np.packbits(busy).tobytes()).decode()


def read_now(folder: Path) -> tuple[Now | None, float]:
    """Return a run's current state, None if it has written none, and its age in seconds.

    Raises ConfigError if the file holds something that no run could have written.
    """
    path = inside(folder, NOW)
    if path is None:
        return None, 0.0
    try:
        age_s = time.time() - path.stat().st_mtime
        text = read_text(folder, NOW)
        return (None if text is None else Now.model_validate_json(text)), age_s
    except FileNotFoundError:  # the run has just ended
        return None, 0.0
    except ValidationError as error:
        raise ConfigError(f"{path} cannot be read: {error.errors()[0]['msg'].lower()}") from error
