"""Text from others cannot pass for a program's own: no markup, no control characters, one line."""

from __future__ import annotations

import io
import logging

import pytest
from rich.table import Table
from rich.text import Text

from fedtempo.cli import app, logs
from fedtempo.cli.progress import terminal
from fedtempo.errors import RunError
from fedtempo.parts.foreign_text import one_line, visible
from fedtempo.parts.plain_console import PlainConsole

FOREIGN = "[/bold]\x1b[2J\nerror: forged\r\u202e\u2028\x9b\ud800"
"""What `evil.py` and worse could send: markup, terminal sequences, line breaks, directions, half a character."""

LINE = r"[/bold]\x1b[2J\nerror: forged\r\u202e\u2028\x9b\ud800"


def console() -> tuple[PlainConsole, io.StringIO]:
    file = io.StringIO()
    return PlainConsole(file=file, width=200, force_terminal=False), file


def test_foreign_text_becomes_one_line() -> None:
    assert one_line(FOREIGN) == LINE
    assert one_line("Zürich 7\u00a0%, 東京") == "Zürich 7\u00a0%, 東京"
    assert one_line("\n" * 400, 100) == r"\n" * 48 + "\\..."
    assert visible("a\nb\x1b") == "a\nb\\x1b"


def test_a_console_shows_text_as_it_is() -> None:
    plain, file = console()
    plain.print(one_line(FOREIGN))
    plain.print(Text(FOREIGN))
    plain.print(FOREIGN, style="dim", soft_wrap=True)
    table = Table(title=FOREIGN)
    table.add_column(FOREIGN)
    table.add_row("[red]x[/red]")
    table.add_row(Text(FOREIGN))
    plain.print(table)
    shown = file.getvalue()
    assert "[red]x[/red]" in shown
    assert LINE in shown
    assert all(line.isprintable() for line in shown.split("\n"))


def test_a_deployment_says_what_a_client_says_on_one_line() -> None:
    plain, file = console()
    terminal(plain, deployed=True).say(f"node 5 rejected: {FOREIGN}")
    assert file.getvalue() == f"node 5 rejected: {LINE}\n"


@pytest.mark.parametrize("form", list(logs.Format))
def test_a_log_has_one_line_per_record(form: logs.Format, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        logs.configure(form)
        log = logging.getLogger("fedtempo.run")
        log.warning("client %s", FOREIGN)
        try:
            raise RunError(FOREIGN)
        except RunError:
            log.exception("failed")
    finally:
        root.handlers, root.level = handlers, level
    lines = capsys.readouterr().err.split("\n")
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("error") for line in lines)
    records = [line for line in lines if line and not line.startswith("  ")]
    assert len(records) == 2


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plain, file = console()
    monkeypatch.setattr(app, "errors", plain)
    app._tell(RunError(f"client a: {FOREIGN}"))
    assert file.getvalue() == f"error: client a: {LINE}\n"
