"""The page over HTTP: only for this machine, behind a token, without resources from elsewhere.

A page of another site must not be able to read the runs: the token is part of the path, and a request must name this
machine as its host, even if an attacker's host name resolves to it (DNS rebinding).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from annotated_types import Interval
from plotly.offline import get_plotlyjs
from pydantic import ConfigDict, TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fedtempo.record.strict_json import to_json
from fedtempo.report.assets import STYLE, THEME_SCRIPT
from fedtempo.report.palette import MAX_CATEGORIES, category_colour, strategy_colours, strategy_dashes
from fedtempo.report.watch.following import MOST_RUNS, MOST_SHOWN, Followed, Seen

_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "connect-src 'self'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
)
"""'unsafe-inline' is needed for styles, as Plotly writes style elements."""

_MAX_REQUEST_BYTES = 10_000
_Count = Annotated[int, Interval(ge=0, lt=2**53)]
_WANTED = TypeAdapter(dict[_Count, tuple[_Count, _Count, _Count, _Count]], config=ConfigDict(allow_inf_nan=False))


def new_token() -> str:
    """Return an unguessable token."""
    return secrets.token_urlsafe(24)


def make_app(folders: Iterable[Path], token: str) -> Starlette:
    """Return the app that serves the page about the runs in some folders under /<token>/, and nothing else."""
    followed = Followed(folders)

    async def page(request: Request) -> Response:
        return _file("index.html", "text/html")

    async def state(request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_REQUEST_BYTES:
                return _text(f"request too large: at most {_MAX_REQUEST_BYTES} bytes", 413)
        try:
            wanted = _WANTED.validate_json(body)
        except ValidationError as error:
            return _text(f"invalid request: {error.errors()[0]['msg']}", 422)
        seen = {number: Seen(*counts) for number, counts in wanted.items()}
        answer = await run_in_threadpool(followed.answer, seen)
        return Response(to_json(answer), media_type="application/json", headers=_HEADERS)

    async def asset(request: Request) -> Response:
        match request.path_params["name"]:
            case "watch.css":
                return _content(f"{STYLE}\n{_read('watch.css')}", "text/css")
            case "watch.js":
                return _content(f"{THEME_SCRIPT}\n{_constants()}\n{_read('watch.js')}", "text/javascript")
            case "calendar.js":
                return _file("calendar.js", "text/javascript")
            case "plotly.js":
                return _content(get_plotlyjs(), "text/javascript")
        return _text("not found", 404)

    def behind_token(endpoint: Any) -> Any:
        async def checked(request: Request) -> Response:
            if not secrets.compare_digest(request.path_params["token"].encode(), token.encode()):
                return _text("not found: use the address that `fedtempo watch` printed", 404)
            response: Response = await endpoint(request)
            return response

        return checked

    return Starlette(
        routes=[
            Route("/{token}/", behind_token(page)),
            Route("/{token}/state", behind_token(state), methods=["POST"]),
            Route("/{token}/{name}", behind_token(asset)),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"], www_redirect=False)],
    )


@cache
def _read(name: str) -> str:
    return (files("fedtempo.report.watch") / "page" / name).read_text(encoding="utf-8")


def _constants() -> str:
    """Return a script with the colours and limits that the page shares with reports."""
    labels = [str(number) for number in range(MOST_RUNS)]
    constants = {
        "colours": list(strategy_colours(labels).values()),
        "dashes": list(strategy_dashes(labels).values()),
        "categories": [category_colour(number) for number in range(MAX_CATEGORIES)],
        "mostShown": MOST_SHOWN,
    }
    return f"const SHARED = {to_json(constants)};"


def _file(name: str, kind: str) -> Response:
    return _content(_read(name), kind)


def _content(text: str, kind: str) -> Response:
    return Response(text, media_type=kind, headers=_HEADERS)


def _text(text: str, status: int) -> Response:
    return PlainTextResponse(text, status, headers=_HEADERS)
