"""`python -m fedtempo` is the command `fedtempo`."""

import os
import sys

from fedtempo.cli.app import main


def program() -> None:
    """Run the command line; after an error in its input, leave without the time that Python takes to clean up.

    Only if PyTorch is not imported: otherwise workers, files or threads of a run may be left to clean up.
    """
    try:
        main()
    except SystemExit as ended:
        if ended.code == 2 and "torch" not in sys.modules:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(2)
        raise


if __name__ == "__main__":
    program()
