"""Runs a command whose process ends when the one that started it does, however that comes about (on Linux).

python tied.py PARENT COMMAND ...

A file of its own that imports nothing of ours: it is gone, replaced by the command, in some milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            sys.exit(1)  # it has ended already
    os.execvp(command[0], command)  # noqa: S606  a list of arguments, no shell


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
