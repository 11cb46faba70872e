"""Run a command in a process that ends whenever its parent process ends, for whatever reason (on Linux).

python die_with_parent.py PARENT_PID COMMAND ...

A separate file without imports from fedtempo, so that it starts fast; the command replaces it.
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
            sys.exit(1)  # the parent has ended already
    os.execvp(command[0], command)  # noqa: S606  a list of arguments, no shell


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
