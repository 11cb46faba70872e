"""Flower's SuperLink with a secret in front of everything but the clients' interface, where clients only reply.

python -m fedtempo.deploy.flower.guarded SECRET_FILE ARGUMENTS ...

The arguments are those of `flower-superlink`, which asks nobody who submits, lists or stops runs and registers keys.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from fedtempo.deploy.flower.control_secret import HEADER, proves, read_secret
from fedtempo.parts.foreign_text import one_line

_OPEN = ("/v1/fleet/", "/v1/runtime/")
_HEALTH = "/health"
_GUARDED = ("/v1/runtime/acquire-task", "/v1/runtime/responses")
"""Paths below the open ones for which Flower wants no token of a run."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class ControlGuard:
    """ASGI middleware that answers 401 to requests without a proof of the secret.

    Those of clients, of a run's own server, and on /health need none. Clients sign their requests with their keys, if
    these are required; a run's server has the token of its run.
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], secret: str) -> None:
        self._app, self._secret, self._started_s = app, secret, time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._admits(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            headers = [(b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"no proof of the control secret, or a wrong one\n"})

    def _admits(self, scope: Scope) -> bool:
        path = scope["path"]
        if path == _HEALTH or (path.startswith(_OPEN) and path.rstrip("/") not in _GUARDED):
            return True
        given = dict(scope["headers"]).get(HEADER.encode(), b"").decode("ascii", errors="replace")
        _, port = scope.get("server") or ("", None)
        return proves(given, self._secret, port, self._started_s)


def _is_rare(record: logging.LogRecord) -> bool:
    """Return whether a line of the log is not one of those of every visit, which other logs and the records have."""
    return "[Fleet.PushMessages]" not in record.getMessage() or record.levelno > logging.INFO


class SafeRecord(logging.LogRecord):
    """A record whose message stays on its line: text of clients can neither forge a line nor control a terminal."""

    def getMessage(self) -> str:
        return one_line(super().getMessage())


def _indented(format_exception: Callable[..., str]) -> Callable[..., str]:
    """Return a formatter's method that indents the lines of an exception, and escapes control characters in them."""

    def safe(formatter: logging.Formatter, info: Any) -> str:
        return "\n".join(f"  {one_line(line)}" for line in format_exception(formatter, info).split("\n"))

    return safe


def keep_logs_safe() -> None:
    """Make every handler of this process log as `SafeRecord` says, also those of libraries."""
    logging.setLogRecordFactory(SafeRecord)
    logging.Formatter.formatException = _indented(logging.Formatter.formatException)  # type: ignore[method-assign]


def objection_to_push(request: Any) -> str | None:
    """Return why a client may not send what it sends to the SuperLink; None if it may.

    Flower passes on whatever a client sends, also calls to other clients in the name of a run's server. A client only
    replies, and only in its own name, which its key proves.
    """
    if len(request.messages_list) != 1 or len(request.message_object_trees) != 1:
        return "one message at a time"
    metadata = request.messages_list[0].metadata
    if not metadata.reply_to_message_id:
        return "clients only reply"
    if metadata.src_node_id != request.node.node_id:
        return "clients reply in their own name"
    return None


def _only_replies(push: Callable[..., Any]) -> Callable[..., Any]:
    """Return Flower's handler of clients' messages, which rejects what `objection_to_push` objects to."""
    from fastapi import HTTPException

    def checked(request: Any, state: Any) -> Any:
        if (objection := objection_to_push(request)) is not None:
            logging.getLogger("flwr").warning("node %s rejected: %s", request.node.node_id, objection)
            raise HTTPException(403, objection)
        return push(request=request, state=state)

    return checked


def main(arguments: list[str]) -> None:
    """Run a SuperLink behind the guard."""
    from flwr.superlink import extensions
    from flwr.superlink.cli.flower_superlink import flower_superlink
    from flwr.superlink.servicer.fleet import fleet_handlers
    from starlette.middleware import Middleware

    file, *sys.argv[1:] = arguments
    guard = Middleware(ControlGuard, secret=read_secret(Path(file), file))
    logging.getLogger("flwr").addFilter(_is_rare)
    keep_logs_safe()
    fleet_handlers.push_messages = _only_replies(fleet_handlers.push_messages)
    extensions.get_middleware = lambda: (guard,)
    flower_superlink()


if __name__ == "__main__":
    main(sys.argv[1:])
