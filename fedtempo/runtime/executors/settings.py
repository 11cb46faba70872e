"""The section `[executor]` of a configuration."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from fedtempo.parts.fields import STRICT, Count, Doc, NonNegative, Positive


@dataclass(frozen=True, config=STRICT)
class ExecutorSettings:
    """The `[executor]` table: where training really happens.

    No result depends on `kind` and `workers`. Results on a CUDA device differ from those on processors by rounding.
    """

    kind: Annotated[
        Literal["processes", "inline", "ray", "none"],
        Doc("worker processes, this process, a Ray cluster's nodes, or no training at all (the schedule only)"),
    ] = "processes"
    workers: Annotated[
        Count | None,
        Doc(
            "number of processes, or of Ray's actors (default: the processors that this process may use, see `fedtempo "
            "doctor`, or as many actors as the cluster has room for)"
        ),
    ] = None
    start_method: Annotated[Literal["fork", "spawn", "forkserver"] | None, Doc("how processes start")] = None
    address: Annotated[
        str | None,
        Doc("of the Ray cluster: auto (the one that this machine belongs to) or host:port; one of its own by default"),
    ] = None
    num_cpus: Annotated[NonNegative, Doc("processors that each of Ray's actors claims; it trains on one thread")] = 1.0
    num_gpus: Annotated[NonNegative, Doc("GPUs, or shares of one, that each of Ray's actors claims")] = 0.0
    resources: Annotated[dict[str, Positive], Doc("what else each of Ray's actors claims, by the cluster's names")] = (
        dataclasses.field(default_factory=dict)
    )
    device: Annotated[
        str,
        Field(pattern=r"^(cpu|cuda(:\d+)?)$"),
        Doc(
            "'cpu', or the device that this process trains on, 'cuda' or 'cuda:<number>', without worker processes; "
            "kind = 'none' trains nowhere"
        ),
    ] = "cpu"
    streams: Annotated[Count, Doc("CUDA device: visits that it works on at once; each needs memory for a model")] = 16
    graphs: Annotated[
        bool,
        Doc(
            "CUDA device: record steps as CUDA graphs and repeat them, which is many times faster; false for a network "
            "whose forward pass depends on anything but its input and parameters, such as a counter of its own"
        ),
    ] = True

    def __post_init__(self) -> None:
        if self.kind == "ray" and self.device != "cpu":
            raise ValueError(f"device = {self.device!r}: Ray's actors train on processors; leave kind out, or device")
