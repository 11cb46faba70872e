"""Training in sequence: a model goes from client to client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from fedtempo.federation import Client, ClientUnavailable, Federation, Model, Update
from fedtempo.parts.fields import Doc

OnLoss = Annotated[
    Literal["skip", "abort"],
    Doc("a sequence that loses a client goes on with the next one, or ends, and what it learned is lost"),
]


async def train_in_sequence(
    fed: Federation,
    clients: Sequence[Client],
    model: Model,
    *,
    group: int,
    on_loss: Literal["skip", "abort"] = "skip",
    observe: Callable[[Update], None] = lambda update: None,
) -> Model:
    """Each client trains what its predecessor sent; the model passes by those that are unavailable.

    observe: called with what each visit brought back. Returns the model that the last client sent to the server;
    `model` itself where no client was there. A visit that fails costs its expected time, since the server cannot know
    sooner. With on_loss = "abort" the first one ends the sequence: ClientUnavailable is raised.
    """
    for client, successor in zip(clients, [*clients[1:], None]):
        asked = fed.now
        try:
            update = await fed.train(client, model, group=group, to=successor)
        except ClientUnavailable:
            await fed.sleep_until(asked + fed.estimate(client).visit_s)
            if on_loss == "abort":
                raise
        else:
            observe(update)
            model = update.model
    return model
