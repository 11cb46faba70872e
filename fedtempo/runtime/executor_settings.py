"""The section `[executor]` of a configuration."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from fedtempo.parts.fields import STRICT, Count, Doc, Ge, NonNegative, Positive


@dataclass(frozen=True, config=STRICT)
class ExecutorSettings:
    """The `[executor]` table: where training runs.

    No result depends on `kind`, `workers` and `reuse`. Results on a CUDA device differ from those on processors by
    rounding.
    """

    kind: Annotated[
        Literal["processes", "inline", "ray", "none"],
        Doc("worker processes, this process, the nodes of a Ray cluster, or no training (schedule only)"),
    ] = "processes"
    workers: Annotated[
        Count | None,
        Doc(
            "number of processes, or of Ray actors (default: number of CPUs that this process may use, see `fedtempo "
            "doctor`, or of actors that fit into the cluster)"
        ),
    ] = None
    start_method: Annotated[Literal["fork", "spawn", "forkserver"] | None, Doc("start method of processes")] = None
    address: Annotated[
        str | None,
        Doc("Ray cluster: auto (this machine's) or host:port (default: a new local cluster)"),
    ] = None
    num_cpus: Annotated[NonNegative, Doc("CPUs that each Ray actor claims")] = 1.0
    num_gpus: Annotated[NonNegative, Doc("GPUs, or fractions of one, that each Ray actor claims")] = 0.0
    resources: Annotated[dict[str, Positive], Doc("other resources that each Ray actor claims, by name")] = (
        dataclasses.field(default_factory=dict)
    )
    device: Annotated[
        str,
        Field(pattern=r"^(cpu|cuda(:\d+)?)$"),
        Doc(
            "'cpu', or the GPU on which this process trains without worker processes: 'cuda' or 'cuda:<number>'; not "
            "used with kind = 'none'"
        ),
    ] = "cpu"
    streams: Annotated[Count, Doc("CUDA device: number of parallel visits; each needs memory for a model")] = 16
    graphs: Annotated[
        bool,
        Doc(
            "CUDA device: record steps as CUDA graphs and repeat them, many times faster; set false for a network "
            "whose forward pass depends on anything besides its input and parameters, such as a counter"
        ),
    ] = True
    reuse: Annotated[
        bool,
        Doc(
            "take results of visits, averages and evaluations from a store that runs share, and add new ones to it, "
            "with the same bits as without; no effect with kind = 'none'"
        ),
    ] = False
    reuse_bytes: Annotated[
        Annotated[int, Ge(2**20)],
        Doc("size of this store in bytes, at least 2**20; the least recently used results are deleted"),
    ] = 10 * 2**30
    reuse_folder: Annotated[
        str | None,
        Doc("folder of this store, on a local disk (default: results in fedtempo's cache folder, ~/.cache/fedtempo)"),
    ] = None

    def __post_init__(self) -> None:
        if self.kind == "ray" and self.device != "cpu":
            raise ValueError(f"device = {self.device!r}: Ray actors train on CPUs; remove kind or device")
        if self.kind == "ray" and self.reuse:
            raise ValueError("reuse = true: not with kind = 'ray', since nodes may have different processors")
