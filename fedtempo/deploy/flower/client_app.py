"""Our client inside Flower's own SuperNode, which starts a process for every message.

flower-supernode --superlink HOST:PORT ... --node-config 'fedtempo="/etc/fedtempo/client.toml"'
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Context, Message
from flwr.clientapp import ClientApp

from fedtempo.deploy.client.answers import Answers, Stay, limit_memory
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
    """Answer a call; what must outlast this process lies in the context, which the SuperNode keeps."""
    path = context.node_config.get("fedtempo")
    if not isinstance(path, str):
        raise ConfigError('the SuperNode\'s --node-config names no client: fedtempo="/path/to/client.toml"')
    answers = _answers(path)
    answers.stay = _kept(context)
    reply = answer_to(message, *answers.answer(*read_call(message)))
    _keep(context, answers.stay)
    return reply


app.train()(answer)
app.query()(answer)


def _kept(context: Context) -> Stay | None:
    record, model = context.state.get(_STAY), context.state.get("model")
    if not isinstance(record, ConfigRecord) or not isinstance(model, ArrayRecord) or not record["there"]:
        return None
    (vector,) = model.to_numpy_ndarrays()
    return Stay(int(str(record["number"])), vector, record["trained"] is True)


def _keep(context: Context, stay: Stay | None) -> None:
    there = stay is not None
    context.state[_STAY] = ConfigRecord(
        {"there": there, "number": stay.number if stay else 0, "trained": stay.trained if stay else False}
    )
    context.state["model"] = ArrayRecord([stay.vector] if stay else [])
