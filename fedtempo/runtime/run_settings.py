"""The section `[run]` of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from fedtempo.learning.metrics import BY_CLASS, CONFUSION, MAIN, Asked, Better, asked_from, better_of, name_of
from fedtempo.parts.component import made
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, NonNegative, Positive, Share
from fedtempo.record.client_measures import MODELS, Kind, facts_of
from fedtempo.record.metric import CLASSES
from fedtempo.record.schema import LARGEST_TIME_S
from fedtempo.record.validation import PREFIX
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
class Personalise:
    """The table `run.personalise`: local training before a client's own model is evaluated."""

    steps: Annotated[Count, Doc("optimiser steps on the client's training examples")]
    lr: Annotated[Positive | None, Doc("step size (default: training.lr)")] = None


def _personalise_from(value: object) -> object:
    return made(Personalise, value, "personalise") if isinstance(value, Mapping) else value


class Goal(NamedTuple):
    """A value to reach. name: "accuracy", "loss", or a further measure's. better: which of its values are better."""

    name: str
    value: float
    better: Better


@dataclass(frozen=True, config=STRICT)
class RunSettings:
    """The `[run]` table: when a run ends, its target, and when it is evaluated."""

    seed: Annotated[int, Ge(0), Doc("seed of all random draws")] = 1
    horizon: Annotated[Positive | None, Doc("end of the run, seconds of its clock")] = None
    max_commits: Annotated[Count | None, Doc("number of commits after which the run ends")] = None
    target_accuracy: Annotated[
        Share | None, Doc("accuracy to reach, on the validation set if there is one (R^2 for numbers)")
    ] = None
    target: Annotated[
        dict[str, float] | None,
        Doc(
            'value of another measure to reach, such as { "f1-macro" = 0.8 }: accuracy, loss, or a metric of metrics '
            "(default: target_accuracy, if there is one)"
        ),
    ] = None
    stop_at_target: Annotated[bool, Doc("end the run once three evaluations in a row average the target")] = False
    patience: Annotated[
        Patience | None,
        BeforeValidator(_patience_from),
        Doc(
            "end the run when a measure no longer improves, of the validation set if there is one: {evaluations, "
            "measure, min_delta}, or just the number of evaluations (default: never)"
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
    evaluate_on: Annotated[
        Literal["test", "validation"] | None,
        Doc(
            "examples that the model is evaluated on. validation: the validation examples in place of the test "
            "examples, to choose settings without them, as tune and advise do (default: test)"
        ),
    ] = None
    evaluation_batch: Annotated[
        Count,
        Doc(
            "test examples evaluated at once; fewer need less memory. Results differ by rounding, and for batch "
            "normalisation without running statistics also by what its batches are"
        ),
    ] = 500
    metrics: Annotated[
        tuple[Asked, ...],
        BeforeValidator(asked_from),
        Doc(
            "further measures of each evaluation, by scikit-learn: names such as f1-macro, balanced-accuracy, auc, "
            "confusion, by-class or rmse, module:function of (targets, outputs), or {function, name, better}"
        ),
    ] = ()
    evaluate_clients: Annotated[
        int,
        Ge(0),
        Doc(
            "with model.exchange or model.local: number of clients, drawn once, with whose own parts each version is "
            "evaluated; the measure is their mean, weighted by examples; 0: evaluate with the parts' first values. "
            "With data.client_test_share also the clients whose own models are evaluated on their own test sets"
        ),
    ] = 10
    evaluate_clients_every: Annotated[
        int,
        Ge(0),
        Doc(
            "with data.client_test_share: every how many evaluations the clients' own test sets are included; the "
            "last one always includes them; 0: only the last"
        ),
    ] = 1
    personalise: Annotated[
        Personalise | None,
        BeforeValidator(_personalise_from),
        Doc(
            "with data.client_test_share: tune the model to each of evaluate_clients clients, with its training "
            "examples, before it is evaluated on the client's own test set: {steps, lr} (default: not tuned)"
        ),
    ] = None
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
            "model with the best accuracy, on the validation set if there is one (R^2 for numbers; the first of equal "
            "ones); clients, with model.exchange or "
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
        if self.personalise is not None and not self.evaluate_clients:
            raise ValueError("personalise: evaluates evaluate_clients clients, which is 0; set it to 1 or more")
        if taken := [name for name in map(name_of, self.metrics) if name in self.client_measures]:
            raise ValueError(f"metrics: {taken[0]!r} is a statistic over clients; give the function another name")
        if taken := [name for name in map(name_of, self.metrics) if name.startswith(PREFIX)]:
            raise ValueError(f"metrics: {taken[0]!r} is for the validation set; give the function another name")
        self._check_target()
        if self.stop_at_target and self.goal is None:
            raise ValueError("stop_at_target needs target_accuracy or target")
        if self.horizon is None and self.max_commits is None and not self.may_end_early:
            raise ValueError(
                "horizon is missing: give seconds, or max_commits, or target_accuracy and stop_at_target, or patience, "
                "or budget"
            )

    @property
    def may_end_early(self) -> bool:
        """Whether the run may end at a time that nobody can know before it."""
        return self.stop_at_target or self.patience is not None or self.budget is not None

    def _check_target(self) -> None:
        if self.target is None:
            return
        if self.target_accuracy is not None:
            raise ValueError("target, target_accuracy: give one of them")
        if len(self.target) != 1:
            raise ValueError(f"target = {self.target}: name one measure and its value")
        ((name, value),) = self.target.items()
        if name == "accuracy" and not 0 <= value <= 1:
            raise ValueError(f"target = {self.target}: an accuracy is between 0 and 1")
        known = self._measures
        if name not in known:
            few = [each for each in known if not each.startswith(tuple(MODELS))]
            raise ValueError(
                f"target: {name!r} is not measured; add it to metrics, or take one of {', '.join(few)}, or a statistic "
                "over clients, such as clients-worst-tenth"
            )
        if known[name] is None:
            raise ValueError(
                f"target: which values of {name!r} are better is not known; write it in metrics as {{ function = ..., "
                'better = "higher" } or "lower"'
            )

    @property
    def _measures(self) -> dict[str, Better | None]:
        """What evaluations may measure, and which values are better."""
        metrics = {name_of(asked): better_of(asked) for asked in self.metrics if asked not in (BY_CLASS, CONFUSION)}
        return {**MAIN, **metrics, **self.client_measures}

    @property
    def client_measures(self) -> dict[str, Better]:
        """Statistics over clients that may be measured, and which values are better."""
        return {each["name"]: each["better"] for kind in MODELS for each in facts_of(kind, CLASSES)}

    def kinds_of_models(self, *, has_local_parts: bool, has_own_models: bool) -> list[Kind]:
        """Return which models are evaluated on clients' own test sets, if they have any."""
        own = self.evaluate_clients > 0 and (has_local_parts or has_own_models or self.personalise is not None)
        return (["own"] if has_local_parts else ["clients", "own"]) if own else ["clients"]

    @property
    def goal(self) -> Goal | None:
        """The target, of whichever measure; None without one."""
        if self.target_accuracy is not None:
            return Goal("accuracy", self.target_accuracy, "higher")
        if self.target is None:
            return None
        ((name, value),) = self.target.items()
        return Goal(name, value, self._measures[name] or "higher")
