"""Training in sequence: a model travels from client to client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from fedtempo.federation import Client, ClientUnavailable, Federation, Model, Update
from fedtempo.parts.fields import Doc

OnLoss = Annotated[
    Literal["skip", "abort"],
    Doc("a sequence that loses a client skips it, or ends and loses its training"),
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
    """Let each client train the model that its predecessor sent, skipping unavailable clients.

    observe: called with the update of each visit. Returns the model that the last client sent to the server, or `model`
    itself if no client was available. A failed visit costs its expected time, since the server cannot know earlier.
    With on_loss = "abort" the first failure ends the sequence: ClientUnavailable is raised.
    """
    for client, successor in zip(clients, [*clients[1:], None]):
        start_s = fed.now
        try:
            update = await fed.train(client, model, group=group, to=successor)
        except ClientUnavailable:
            await fed.sleep_until(start_s + fed.estimate(client).visit_s)
            if on_loss == "abort":
                raise
        else:
            observe(update)
            model = update.model
    return model
