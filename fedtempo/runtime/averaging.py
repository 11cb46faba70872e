"""Averages under the server's settings, and the limits that these set on other uses of clients' models."""

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
from fedtempo.runtime.server_steps import ServerSteps

PROTECTED = (robust_average, private_mean)
"""Functions whose results no longer reveal a single client's model."""


class Averaging:
    """The averages of one run.

    Settings that protect averages are useless if a strategy bypasses the average. So if there are any, all *raw* models
    are remembered: those sent by a client, or computed from a raw model other than by an average. Raw models cannot be
    committed. With privacy they can only be averaged, and the strategy gets neither clients' statistics nor examples.
    """

    def __init__(
        self,
        server: ServerSettings,
        recorder: Recorder,
        rng: Callable[[str, int], np.random.Generator],
        sections: Sections,
    ) -> None:
        """sections: of a model.

        Raises ConfigError if privacy is on but the library that accounts for it is missing, or models have running
        statistics, which are measured on clients' examples and get no noise.
        """
        if server.privacy is not None and sections.statistics:
            raise ConfigError(
                f"server.privacy: the network has {sections.statistics} running statistics (batch normalisation), "
                "which would reach the server without noise: set model.buffers = 'local' or 'frozen', or use "
                "GroupNorm; register constants with persistent=False"
            )
        self._server, self._recorder, self._rng = server, recorder, rng
        self._private = server.privacy is not None
        self.guards = self._private or server.aggregation != "mean" or server.clip_norm is not None
        """Whether settings protect the average: without, nothing here does anything but average."""
        self.steps = None if server.optimizer is None else ServerSteps(server.optimizer)
        """Steps to take from the global model towards each average."""
        self._raw: WeakKeyDictionary[Model, Client | None] = WeakKeyDictionary()
        self._averages = 0
        self._took_part: Counter[Client] = Counter()
        self._account()

    def of(
        self, models: Sequence[Model], weights: Sequence[float], current: Model
    ) -> tuple[Callable[..., Any], Mapping[str, Any], Callable[[Sequence[Any]], Any]]:
        """Return the function that averages these models, its arguments, and a function for running statistics.

        current: the global model. Statistics are averaged like parameters but without clipping, so that one bad client
        cannot move them far either.
        """
        server, privacy = self._server, self._server.privacy
        if not self.guards:
            return average, {"models": models, "weights": weights}, partial(average, weights=weights)
        if privacy is None:
            options: dict[str, Any] = {"weights": weights, "aggregation": server.aggregation, "trim": server.trim}
            return (
                robust_average,
                {"models": models, "base": current, "clip_norm": server.clip_norm, **options},
                partial(aggregated, **options),
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
        return private_mean, arguments, average  # with privacy models have no statistics

    def statistics(self, measured: Mapping[str, float]) -> Mapping[str, float]:
        """Return the part of a client's statistics that a strategy may see."""
        return {} if self._private else measured

    def arrived(self, model: Model, client: Client) -> None:
        """Note that a client sent this model."""
        if self.guards:
            self._raw[model] = client

    def derived(self, function: Callable[..., Any], models: Iterable[Model], result: Any) -> None:
        """Note that the server computed `result` by `function` from the models given."""
        if self.guards and function not in PROTECTED and any(model in self._raw for model in models):
            for model in result if isinstance(result, tuple) else (result,):
                if isinstance(model, Model):
                    self._raw[model] = None

    def may_compute(self, function: Callable[..., Any], models: Iterable[Model]) -> None:
        """Raise ConfigError if the server may not compute with these models by `function`."""
        if self._private and function not in PROTECTED:
            self._must_not_be_raw(models, "computes with single clients' models")

    def may_send(self, model: Model, payload: Iterable[Model] = ()) -> None:
        """Raise ConfigError if clients may not receive this model, or these vectors besides it."""
        if self._private:
            self._must_not_be_raw([model], "sends one client's model to another")
        if self.guards:
            self._must_not_be_raw(payload, "sends vectors that are no average of clients'")

    def may_commit(self, model: Model, current: Model) -> None:
        """Raise ConfigError if `model` may not become the global model, which is `current` now."""
        if self.guards:
            self._must_not_be_raw([model], "commits models that are no average of clients'")
        if self.steps is not None:
            self.steps.may_commit(current)

    def may_gather(self) -> None:
        """Raise ConfigError if clients may not send examples."""
        if self._private:
            raise ConfigError("server.privacy: this strategy gathers clients' examples; it cannot be private")

    def _must_not_be_raw(self, models: Iterable[Model], does: str) -> None:
        if any(model in self._raw for model in models):
            server = self._server
            setting = (
                "server.privacy"
                if self._private
                else f"server.aggregation = {server.aggregation!r}"
                if server.aggregation != "mean"
                else f"server.clip_norm = {server.clip_norm}"
            )
            raise ConfigError(f"{setting}: this strategy {does}; choose one that trains in rounds and averages them")

    def _account(self) -> None:
        """Record the privacy spent: that of the client in the most averages."""
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
