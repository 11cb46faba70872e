"""How the server averages by its settings, and what else may then be done with what clients sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fedtempo.errors import ConfigError
from fedtempo.federation import Client, Model
from fedtempo.learning.aggregation import average
from fedtempo.learning.privacy import epsilon, private_mean
from fedtempo.learning.robust import aggregated, robust_average
from fedtempo.learning.sections import Sections
from fedtempo.record.recorder import Recorder
from fedtempo.runtime.server import ServerSettings

PROTECTED = (robust_average, private_mean)
"""Functions whose results are no longer single clients'."""


class Averaging:
    """The averages of one run.

    Settings that protect the average protect nothing where a strategy takes models past it. So where there are any, it
    is known of each model whether it is raw: sent by a client, or worked out from such a one other than by an average.
    Raw models cannot be committed. With privacy they are for averages alone, and neither what clients measured nor
    their examples reach the strategy.
    """

    def __init__(
        self,
        server: ServerSettings,
        recorder: Recorder,
        rng: Callable[[str, int], np.random.Generator],
        sections: Sections,
    ) -> None:
        """sections: of a model.

        Raises ConfigError where privacy is asked for and the library that accounts for it is missing, or models have
        running statistics: they are measured on clients' examples, and no noise hides these in them.
        """
        if server.privacy is not None and sections.statistics:
            raise ConfigError(
                f"server.privacy: the network has {sections.statistics} running statistics (batch normalisation), "
                "which would reach the server without noise: set model.running_statistics = false; in your own "
                "network use GroupNorm or track_running_stats=False, and register constants with persistent=False"
            )
        self._server, self._recorder, self._rng = server, recorder, rng
        self._private = server.privacy is not None
        self.guards = self._private or server.aggregation != "mean" or server.clip_norm is not None
        """Whether settings protect the average: without, nothing here does anything but average."""
        self._raw: WeakKeyDictionary[Model, Client | None] = WeakKeyDictionary()
        self._averages = 0
        self._took_part: Counter[Client] = Counter()
        self._account()

    def of(
        self, models: Sequence[Model], weights: Sequence[float], current: Model
    ) -> tuple[Callable[..., Any], Mapping[str, Any], Callable[[Sequence[Any]], Any]]:
        """The function that averages these models, its arguments, and what averages their running statistics.

        current: the global model. Statistics are averaged as parameters are, but for clipping: one bad client must not
        move them far either.
        """
        server, privacy = self._server, self._server.privacy
        if not self.guards:
            return average, {"models": models, "weights": weights}, partial(average, weights=weights)
        if privacy is None:
            how: dict[str, Any] = {"weights": weights, "aggregation": server.aggregation, "trim": server.trim}
            return (
                robust_average,
                {"models": models, "base": current, "clip_norm": server.clip_norm, **how},
                partial(aggregated, **how),
            )
        clients = [client for model in models if (client := self._raw.get(model)) is not None]
        for client, times in Counter(clients).items():
            if times > 1:
                raise ConfigError(f"server.privacy: client {client.id} is {times} times in one average; it may be once")
        self._averages += 1
        self._took_part.update(clients)
        self._account()
        arguments = {
            "models": models,
            "base": current,
            "clip_norm": privacy.clip_norm,
            "noise_multiplier": privacy.noise_multiplier,
            "rng": self._rng("privacy", self._averages),
        }
        return private_mean, arguments, average  # there are no statistics

    def statistics(self, measured: Mapping[str, float]) -> Mapping[str, float]:
        """What a strategy may know of what a client measured."""
        return {} if self._private else measured

    def arrived(self, model: Model, client: Client) -> None:
        """A client sent this model."""
        if self.guards:
            self._raw[model] = client

    def derived(self, function: Callable[..., Any], given: Iterable[Model], result: Any) -> None:
        """The server worked `result` out by `function` from the models given."""
        if self.guards and function not in PROTECTED and any(model in self._raw for model in given):
            for model in result if isinstance(result, tuple) else (result,):
                if isinstance(model, Model):
                    self._raw[model] = None

    def may_compute(self, function: Callable[..., Any], given: Iterable[Model]) -> None:
        """Raises ConfigError where the server may not work anything out from these by `function`."""
        if self._private and function not in PROTECTED:
            self._must_not_be_raw(given, "computes with single clients' models")

    def may_send(self, model: Model) -> None:
        """Raises ConfigError where a client may not receive this model."""
        if self._private:
            self._must_not_be_raw([model], "sends one client's model to another")

    def may_commit(self, model: Model) -> None:
        """Raises ConfigError where this may not become the global model."""
        if self.guards:
            self._must_not_be_raw([model], "commits models that are no average of clients'")

    def may_gather(self) -> None:
        """Raises ConfigError where clients must not send examples."""
        if self._private:
            raise ConfigError("server.privacy: this strategy gathers clients' examples; it cannot be private")

    def _must_not_be_raw(self, models: Iterable[Model], does: str) -> None:
        if any(model in self._raw for model in models):
            server = self._server
            named = (
                "server.privacy"
                if self._private
                else f"server.aggregation = {server.aggregation!r}"
                if server.aggregation != "mean"
                else f"server.clip_norm = {server.clip_norm}"
            )
            raise ConfigError(f"{named}: this strategy {does}; choose one that trains in rounds and averages them")

    def _account(self) -> None:
        """Put what was spent into the records: the client that was part of the most averages has spent most."""
        if (privacy := self._server.privacy) is not None:
            most = max(self._took_part.values(), default=0)
            spent = epsilon(privacy.noise_multiplier, most, privacy.delta)
            self._recorder.fact(
                "privacy",
                {
                    "clip_norm": privacy.clip_norm,
                    "noise_multiplier": privacy.noise_multiplier,
                    "delta": privacy.delta,
                    "averages": most,
                    "epsilon": spent,
                },
            )
