"""FedRep's part at the client (Collins et al. 2021)."""

from __future__ import annotations

from fedtempo.errors import ConfigError
from fedtempo.learning.procedures import ClientVisit


def head_then_body(visit: ClientVisit) -> tuple[()]:
    """Train the client's own head for `head_epochs` epochs, then the received body for `body_epochs`.

    The head are the local parameters (`model.local`). Whatever does not train keeps its values. The loss that the
    client reports is that of the body's epochs.
    """
    if not visit.model.sections.local:
        raise ConfigError(
            "strategy.name = 'fedrep': clients have no heads of their own; list the last layers in model.local"
        )
    visit.train(only="local", steps=None, epochs=int(visit.numbers["head_epochs"]))
    visit.model.local = visit.model.kept.clone()
    visit.train(only="travelling", steps=None, epochs=int(visit.numbers["body_epochs"]))
    return ()
