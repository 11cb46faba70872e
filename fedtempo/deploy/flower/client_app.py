"""A fedtempo client inside Flower's own SuperNode, which starts a process for every message.

flower-supernode --superlink HOST:PORT ... --node-config 'fedtempo="/etc/fedtempo/client.toml"'
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Context, Message
from flwr.clientapp import ClientApp

from fedtempo.deploy.client.answers import Answers, HeldVisit, limit_memory
from fedtempo.deploy.client.settings import load_client
from fedtempo.deploy.flower.wire import answer_to, read_call
from fedtempo.errors import ConfigError

_STAY = "stay"

app = ClientApp()


@cache
def _answers(path: str) -> Answers:
    settings = load_client(Path(path))
    limit_memory(settings.limits.memory_mb)
    return Answers(settings)


def answer(message: Message, context: Context) -> Message:
    """Answer a call. The visit in progress is kept in the context, which outlives this process."""
    path = context.node_config.get("fedtempo")
    if not isinstance(path, str):
        raise ConfigError('the SuperNode\'s --node-config names no client: fedtempo="/path/to/client.toml"')
    answers = _answers(path)
    answers.held = _restored(context)
    reply = answer_to(message, *answers.answer(*read_call(message)))
    _save(context, answers.held)
    return reply


app.train()(answer)
app.query()(answer)


def _restored(context: Context) -> HeldVisit | None:
    record, model = context.state.get(_STAY), context.state.get("model")
    if not isinstance(record, ConfigRecord) or not isinstance(model, ArrayRecord) or not record["there"]:
        return None
    vector, *more = model.to_numpy_ndarrays()
    return HeldVisit(int(str(record["number"])), vector, record["trained"] is True, tuple(more))


def _save(context: Context, held: HeldVisit | None) -> None:
    context.state[_STAY] = ConfigRecord(
        {
            "there": held is not None,
            "number": held.number if held else 0,
            "trained": held.trained if held else False,
        }
    )
    context.state["model"] = ArrayRecord([held.vector, *held.more] if held else [])
