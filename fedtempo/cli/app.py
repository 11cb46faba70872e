"""The program `fedtempo`: its commands in the order of `fedtempo --help`, and how it ends.

Each command is one function in a module beside this one: its parameters are the options, and its body calls the Python
API and prints. What a command needs is imported when it runs, so that `fedtempo --help` answers at once.
"""

from __future__ import annotations

import errno
import gc
import math
import os
import signal
import sys
import threading
import time
import traceback
from types import FrameType
from typing import Annotated, Any

import typer

from fedtempo.cli import catalogue, deploy, doctor, fetch, papers, records, reproduce, runs, studies, sweeps
from fedtempo.cli.fleet import fleet
from fedtempo.cli.options import Group, console, errors
from fedtempo.errors import ConfigError, FedtempoError, Interrupted, RunError, too_many_files
from fedtempo.parts.foreign_text import one_line
from fedtempo.parts.import_path import add_current_folder
from fedtempo.version import __version__

_INTERRUPTED, _TERMINATED = 128 + 2, 128 + 15
"""Exit codes after SIGINT and SIGTERM."""

_PATIENCE_S = 0.5
"""Real seconds in which further signals add nothing to a first one."""

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM)
"""Errors of the system that any command may meet anywhere."""

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Federated learning on a virtual clock: simulate, compare, plan, deploy.",
    epilog="Example: fedtempo demo",
)


def _show_version(asked: bool) -> None:
    if asked:
        console.print(f"fedtempo {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the program itself."""


for _command, _arguments in (
    (runs.demo, "demo --quick"),
    (runs.run, "run configs/fedhusky.toml --set strategy.pace=0.9 --seed 7"),
    (runs.resume, "resume runs/20260102-101500-fedhusky-seed1"),
    (runs.compare, "compare configs/fedhusky.toml --strategies fedhusky,fedavg --seeds 1-3"),
    (sweeps.sweep, "sweep configs/fedavg.toml --grid training.lr=0.1,0.3 --seeds 1-5"),
    (studies.tune, "tune configs/psfl.toml --strategies psfl,fedavg --lr 0.3:0.01"),
    (studies.plan, "plan configs/fedhusky.toml --strategies fedhusky,hybrid --out pictures"),
    (studies.advise, "advise configs/fedhusky.toml --budget 80"),
    (records.report, "report runs/first runs/second --out both.html"),
    (papers.table, "table runs/first --to latex --columns time_to_target,final_accuracy"),
    (papers.figure, "figure accuracy runs/first --out accuracy.pdf --width 84mm"),
    (records.watch, "watch runs/first"),
    (records.export, "export runs/first --to csv"),
    (runs.check, "check configs/fedhusky.toml --set run.horizon=50"),
    (catalogue.list_, "list strategies"),
    (catalogue.describe, "describe fedhusky"),
    (catalogue.new, "new config fedavg"),
    (reproduce.reproduce, "reproduce fedhusky/fig6 --scale small"),
    (doctor.doctor, "doctor --json"),
    (deploy.client, "client client.toml --log-format json"),
    (deploy.deploy, "deploy configs/fedhusky-local.toml --local 5"),
    (deploy.keys, "keys keys --host server.example.org --client ward-1 --client ward-2"),
):
    app.command(name=_arguments.split()[0], epilog=f"Example: fedtempo {_arguments}")(_command)
# Not listed: the help fits on a screen. An error tells who needs `fetch` (docs/own-data.md). `superlink` is
# for services (docs/deploy.md).
app.command(epilog="Example: fedtempo fetch hf:ylecun/mnist --out mnist", hidden=True)(fetch.fetch)
app.command(epilog="Example: fedtempo superlink keys --database state.db", hidden=True)(deploy.superlink)
app.add_typer(fleet, name="fleet")


def _tell(error: FedtempoError) -> None:
    """Print the lines of the user's code that led to the error, and the error in one line."""
    if os.environ.get("FEDTEMPO_DEBUG"):
        traceback.print_exception(error)
    elif error.frames:
        errors.print(error.frames, highlight=False, soft_wrap=True)
    errors.print(f"error: {one_line(error)}", style="red", highlight=False, soft_wrap=True)


class _Stop:
    """What Ctrl-C and SIGTERM do: they raise KeyboardInterrupt, unless the program is about to end anyway.

    code: the program's exit code after them. A signal within `_PATIENCE_S` of another adds nothing: the end that the
    first one began would show where the second one met it. A signal that meets code whose errors Python only prints
    (a finaliser, say) is sent again instead.
    """

    def __init__(self) -> None:
        self.code, self._ending, self._raised_s = _INTERRUPTED, False, -math.inf
        self._print = sys.unraisablehook

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM:
            self.code = _TERMINATED
        if self._ending or time.monotonic() - self._raised_s < _PATIENCE_S:
            return
        self._raised_s = time.monotonic()
        raise KeyboardInterrupt

    def unraisable(self, met: Any) -> None:
        """Serve as `sys.unraisablehook`."""
        if not isinstance(met.exc_value, KeyboardInterrupt):
            self._print(met)
        elif not self._ending:
            number = signal.SIGTERM if self.code == _TERMINATED else signal.SIGINT
            again = threading.Timer(_PATIENCE_S, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()

    def end(self) -> None:
        """Ignore further signals: they would interrupt the end, which would show where it was."""
        self._ending = True
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def main() -> None:
    """Run the program: errors become one line and an exit code.

    2: configuration, or code that it names; 3: run; 130: Ctrl-C; 143: SIGTERM. $FEDTEMPO_DEBUG: the traceback as well.
    """
    gc.set_threshold(100_000, 20, 20)  # importing makes many objects and no garbage: a tenth of the time to an error
    add_current_folder()
    stop = _Stop()
    sys.unraisablehook = stop.unraisable
    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell's background ignores Ctrl-C
        signal.signal(signal.SIGINT, stop)
    try:
        _answer(stop)
    except KeyboardInterrupt:  # while an error was shown
        stop.end()
        sys.exit(stop.code)


def _answer(stop: _Stop) -> None:
    try:
        app()
    except Interrupted as error:
        stop.end()
        errors.print(one_line(error), style="yellow", highlight=False, soft_wrap=True)
        sys.exit(stop.code)
    except FedtempoError as error:
        _tell(error)
        sys.exit(2 if isinstance(error, ConfigError) else 3)
    except MemoryError as error:
        _tell(RunError(f"out of memory{str(error) and f': {error}'}"))
        sys.exit(3)
    except OSError as error:
        if error.errno not in _EXHAUSTED:
            raise
        full = error.errno in (errno.EMFILE, errno.ENFILE)
        where = f"{error.filename}: " if error.filename else ""
        _tell(RunError(too_many_files() if full else f"{where}{error.strerror}"))
        sys.exit(3)
    except KeyboardInterrupt:
        stop.end()
        errors.print("interrupted")
        sys.exit(stop.code)
    except SystemExit as ended:
        if ended.code == _INTERRUPTED:  # Typer's, after KeyboardInterrupt
            stop.end()
            sys.exit(stop.code)
        raise
