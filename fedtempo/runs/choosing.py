"""Choose settings without the test examples: evaluate trials on the validation set instead, if there is one."""

from __future__ import annotations

from typing import NamedTuple

from fedtempo.data.sources import NOTHING
from fedtempo.runs.config import Config
from fedtempo.runs.world import load_data


class Choosing(NamedTuple):
    """How settings are chosen. config: of the trials. note: which examples decide, in a line; empty if none do."""

    config: Config
    note: str


def for_choosing(config: Config) -> Choosing:
    """Return how to choose among settings of a configuration.

    With a validation set, trials are evaluated on it (`run.evaluate_on`), and never on the test examples. Raises
    ConfigError if the data cannot be read.
    """
    if config.run.evaluate_on == "validation":
        return Choosing(config, "chosen on the validation examples; the test examples were not used")
    if config.executor.kind == "none" or config.data.source == NOTHING:
        return Choosing(config, "")
    has_validation = config.data.validation_share is not None or load_data(config).validation_y is not None
    if has_validation and config.run.evaluate_on is None:
        return for_choosing(config.with_changes({"run.evaluate_on": "validation"}, label=config.label))
    way_out = "run.evaluate_on = 'validation'" if has_validation else "data.validation_share = 0.1"
    return Choosing(config, f"chosen on the test examples, so optimistic: set {way_out}")
