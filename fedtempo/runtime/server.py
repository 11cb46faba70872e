"""What the server does with time and with updates: the `[server]` table."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from fedtempo.fields import STRICT, Doc, Ge, NonNegative


@dataclass(frozen=True, config=STRICT)
class ServerSettings:
    """The `[server]` table."""

    seconds: Annotated[NonNegative, Doc("seconds of the run's clock that each operation at the server takes")] = 0.0
    deadline: Annotated[
        float | None,
        Field(ge=1),
        Doc(
            "a visit is given up after this many times the estimate of what it takes, waiting for others not counted; "
            "the server waits without end where not given"
        ),
    ] = None
    max_bad_updates: Annotated[
        int | None,
        Ge(0),
        Doc("updates that may be refused (not finite, of a wrong shape or count) before the run ends with an error"),
    ] = None
