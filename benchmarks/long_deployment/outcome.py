"""What happened in a long deployment."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.long_deployment.plan import Restart
from benchmarks.long_deployment.samples import Sample


@dataclass(frozen=True)
class FolderSample:
    """Sizes at one time: of temporary files, the SuperLink's database, the run folder, bytes; and all memory, kB."""

    time_s: float
    temporary_files: int
    temporary_bytes: int
    database_bytes: int
    run_bytes: int
    proportional_kb: int | None


@dataclass(frozen=True)
class Restarted:
    """What became of one life of a client: how many visits it trained, and for how long it lived."""

    client: str
    life: int
    visits: int
    lived_s: float


@dataclass
class Outcome:
    """What happened. crashed: programs that ended by themselves, with their exit codes. exits: codes at the end.

    left: what was there after all programs had ended.
    """

    samples: list[Sample] = field(default_factory=list)
    folders: list[FolderSample] = field(default_factory=list)
    restarts: list[Restart] = field(default_factory=list)
    lives: list[Restarted] = field(default_factory=list)
    crashed: list[tuple[str, int]] = field(default_factory=list)
    exits: dict[str, int] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    log_bytes: dict[str, int] = field(default_factory=dict)
    wall_s: float = 0.0
