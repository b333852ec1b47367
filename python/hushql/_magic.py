"""The magic `%%hush` of notebooks: `%load_ext hushql`, then

    %%hush lab answer
    SELECT sex, LAPLACE(eps=1) COUNT(*) AS n FROM adult GROUP BY sex

asks the session `lab`, shows the answer and keeps it as `answer`. Both names may be left out: the default session is `lab`, and
without a second name the answer is only shown. While the statements run, it shows their progress, if that may be shown.
`%hush lab SELECT …` asks within one line.
"""

from __future__ import annotations

import sys
from typing import Any, TextIO

from ._session import Session, _given

#: Seconds between two checks of the progress.
PAUSE = 0.2


def load(ipython: Any) -> None:
    """Registers the magic."""

    def hush(line: str, cell: str | None = None) -> Any:
        names = ipython.user_ns
        if cell is None:
            name, _, sql = line.strip().partition(" ")
            if not isinstance(names.get(name), Session):
                name, sql = "lab", line
            return run(_session(names, name), sql, sys.stderr)
        words = line.split()
        if len(words) > 2:
            raise ValueError("write %%hush SESSION ANSWER, or leave either out")
        result = run(_session(names, words[0] if words else "lab"), cell, sys.stderr)
        if len(words) == 2:
            if not words[1].isidentifier():
                raise ValueError(f"{words[1]} is not a valid name for the answer")
            names[words[1]] = result
        return result

    ipython.register_magic_function(hush, "line_cell", "hush")


def _session(names: dict[str, Any], name: str) -> Session:
    found = names.get(name)
    if not isinstance(found, Session):
        raise ValueError(f"{name} is not a session: {name} = vault.analyst('lab') makes one, and %%hush {name} asks it")
    return found


def run(session: Session, script: str, out: TextIO) -> Any:
    """Runs statements, and shows their progress."""
    running = session._native.start_script(script)
    shown = ""
    try:
        while not running.is_done(PAUSE):
            percent, rounds = running.progress()
            told = f"{percent} % read" if percent is not None else ""
            if rounds is not None:
                told = f"round {rounds[0]}, {rounds[1]} % of the budget"
            if told != shown:
                out.write(f"\r{told:<{len(shown)}}")
                out.flush()
                shown = told
    except KeyboardInterrupt:
        running.cancel()
        raise
    finally:
        if shown:
            out.write(f"\r{'':<{len(shown)}}\r")
    return _given(running.wait())
