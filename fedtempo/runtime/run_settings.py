"""The section `[run]` of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from fedtempo.parts.component import made
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, NonNegative, Positive, Share
from fedtempo.record.schema import LARGEST_TIME_S
from fedtempo.runtime.budget import Budget
from fedtempo.runtime.patience import Patience


def _patience_from(value: object) -> object:
    if isinstance(value, Patience | None):
        return value
    return made(Patience, value if isinstance(value, Mapping) else {"evaluations": value}, "patience")


def _budget_from(value: object) -> object:
    if isinstance(value, Budget | None):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is no table; give some of {{ bytes, client_hours, watt_hours, epsilon }}")
    return made(Budget, value, "budget")


@dataclass(frozen=True, config=STRICT)
class RunSettings:
    """The `[run]` table: when a run ends, its target, and when it is evaluated."""

    seed: Annotated[int, Ge(0), Doc("seed of all random draws")] = 1
    horizon: Annotated[Positive | None, Doc("end of the run, seconds of its clock")] = None
    max_commits: Annotated[Count | None, Doc("number of commits after which the run ends")] = None
    target_accuracy: Annotated[Share | None, Doc("accuracy to reach (R^2 for numbers)")] = None
    stop_at_target: Annotated[bool, Doc("end the run once three evaluations in a row average the target")] = False
    patience: Annotated[
        Patience | None,
        BeforeValidator(_patience_from),
        Doc(
            "end the run when a measure no longer improves: {evaluations, measure, min_delta}, or just the number "
            "of evaluations (default: never)"
        ),
    ] = None
    budget: Annotated[
        Budget | None,
        BeforeValidator(_budget_from),
        Doc("end the run when it has used up any of {bytes, client_hours, watt_hours, epsilon} (default: no limit)"),
    ] = None
    evaluate: Annotated[Literal["time", "commit"], Doc("evaluate every evaluate_every seconds, or at each commit")] = (
        "time"
    )
    evaluate_every: Annotated[Positive, Doc("seconds of the run's clock between evaluations")] = 5.0
    evaluation_batch: Annotated[
        Count,
        Doc(
            "test examples evaluated at once; fewer need less memory. Results differ by rounding, and for batch "
            "normalisation without running statistics also by what its batches are"
        ),
    ] = 500
    evaluate_clients: Annotated[
        int,
        Ge(0),
        Doc(
            "with model.exchange or model.local: number of clients, drawn once, with whose own parts each version is "
            "evaluated; the measure is their mean, weighted by examples; 0: evaluate with the parts' first values"
        ),
    ] = 10
    checkpoint_every: Annotated[
        NonNegative,
        Doc(
            "real seconds between checkpoints: a killed run loses at most these; 0: no checkpoints, and a resumed run "
            "starts over"
        ),
    ] = 30.0
    record: Annotated[
        Literal["all", "totals"],
        Doc("record a row per visit and commit, or only totals, so that the run's folder does not grow"),
    ] = "all"
    track: Annotated[
        tuple[str, ...],
        Field(strict=False),
        Doc("trackers that also receive the run's numbers: tensorboard, mlflow, wandb, or module:Class"),
    ] = ()
    keep: Annotated[
        tuple[Literal["last", "best", "clients", "state"], ...],
        Field(strict=False),
        Doc(
            "what a run leaves in its folder. Models, as named tensors: last, the final model; best, the evaluated "
            "model with the best accuracy (R^2 for numbers; the first of equal ones); clients, with model.exchange or "
            "model.local: what each client keeps of the final model. state: what `fedtempo resume` needs to continue "
            "the finished run with a later end instead of repeating it"
        ),
    ] = ("last",)
    verify: Annotated[bool, Doc("check the consistency of records during the run; for developers of fedtempo")] = False

    def __post_init__(self) -> None:
        if self.horizon is not None and self.horizon > LARGEST_TIME_S:
            raise ValueError(f"horizon = {self.horizon:g}: must be at most {LARGEST_TIME_S:g} s")
        if "state" in self.keep and not self.checkpoint_every:
            raise ValueError("keep = ['state']: the state is a checkpoint; set checkpoint_every above 0")
        if "clients" in self.keep and "last" not in self.keep:
            raise ValueError("keep = ['clients']: clients keep parts of the final model; add 'last'")
        if self.stop_at_target and self.target_accuracy is None:
            raise ValueError("stop_at_target needs target_accuracy")
        if self.horizon is None and self.max_commits is None and not self.may_end_early:
            raise ValueError(
                "horizon is missing: give seconds, or max_commits, or target_accuracy and stop_at_target, or patience, "
                "or budget"
            )

    @property
    def may_end_early(self) -> bool:
        """Whether the run may end at a time that nobody can know before it."""
        return self.stop_at_target or self.patience is not None or self.budget is not None
