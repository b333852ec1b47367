"""The command `hushql`, and `python -m hushql`: the program, which the package's module contains."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Runs the program with the arguments of this process, and returns its exit status."""
    # Python would note Ctrl-C and go on; the program ends, or cancels the statement that runs.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ._hushql import run_program

    return run_program(["hushql", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
