"""The section `[data]` of a configuration."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from fedtempo.parts.fields import STRICT, Count, Doc, NonNegative, Positive, Share


def pair(value: Any) -> Any:
    """A list of TOML as the tuple that a field wants."""
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True, config=STRICT)
class DataSettings:
    """The `[data]` table: which examples there are and who holds them."""

    source: Annotated[str, Doc("as `fedtempo list sources` says, idx:<folder>, ..., or module:function")] = "digits"
    options: Annotated[dict[str, Any], Doc("options of the source, by name; `fedtempo describe SOURCE` says which")] = (
        dataclasses.field(default_factory=dict)
    )
    clients: Annotated[
        Count | None,
        Doc("number of clients, N; where not given those that the data name, or 50 where they name none"),
    ] = None
    transform: Annotated[
        str | None,
        Doc(
            "module:function that is given the inputs of all examples, to train on and then to test on, and returns new"
        ),
    ] = None
    examples_per_client: Annotated[
        Count | tuple[Count, Count] | None,
        BeforeValidator(pair),
        Doc("examples that each client holds, or [smallest, largest]; all there are where not given"),
    ] = None
    test_examples: Annotated[Count | None, Doc("test examples used in evaluations; all where not given")] = None
    tell_labels: Annotated[bool, Doc("whether clients tell the server how many examples of each class they hold")] = (
        False
    )
    label_noise_epsilon: Annotated[
        Positive | None,
        Doc(
            "clients add Laplace noise of scale 1 / this to each count that they tell: differential privacy of whether "
            "one example is among theirs, but for their number of examples; no noise where not given"
        ),
    ] = None
    label_pseudo_count: Annotated[
        NonNegative, Doc("examples added to each class where the classes' shares are taken from what clients tell")
    ] = 1.0
    share_examples: Annotated[Share, Doc("share of the clients that agree to upload raw examples")] = 0.0

    def __post_init__(self) -> None:
        if self.label_noise_epsilon is not None and not self.tell_labels:
            raise ValueError(
                f"label_noise_epsilon = {self.label_noise_epsilon}: without tell_labels = true clients tell no counts"
            )
