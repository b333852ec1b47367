"""How a writer is declared, and the list of those that ran.

In: functions that write one kind of values into a file. Out: a line of JSON for each file: what to declare, and what its writer wrote.
"""

import importlib.util
import json
import warnings
from dataclasses import dataclass
from pathlib import Path

from people import KINDS

WRITERS = []


@dataclass
class Wrote:
    """What a writer made of the values, where it is not what it was given."""

    # The values, in the order of the people.
    values: list | None = None
    # The location, where it is not the file that the writer was told to write.
    location: Path | None = None
    # The type of the values, where the writer gave them another one.
    type: str | None = None


@dataclass
class Writer:
    name: str
    format: str
    write: callable
    # The words behind OPTIONS with which its files are read, where they need any.
    options: dict
    # Columns of its own before those of the table.
    before: str
    ending: str
    # The columns whose values are in the names of folders.
    partitioned: str


def writer(name: str, format: str, needs=(), options=None, before="", ending=None, partitioned=""):
    """Registers a function that writes `kind` to `path`."""

    def register(write):
        if all(importlib.util.find_spec(module) for module in needs):
            WRITERS.append(Writer(name, format, write, options or {}, before, ending or format.lower(), partitioned))
        return write

    return register


def other(value, values: list):
    """The next value that is another one."""
    at = values.index(value)
    return next(one for one in values[at + 1 :] + values[:at] if one is not None and one != value)


def write_all(folder: Path, versions: dict) -> None:
    """Every writer writes every kind. What one of them cannot write is noted with its sentence."""
    warnings.simplefilter("ignore")
    with (folder / "wrote.jsonl").open("w") as notes:
        for number, one in enumerate(WRITERS):
            for kind in KINDS:
                path = folder / f"{number}-{KINDS.index(kind)}.{one.ending}"
                note = {"writer": one.name.format(**versions), "format": one.format, "kind": kind.name, "options": one.options, "before": one.before}
                note["partitioned"] = one.partitioned
                try:
                    wrote = one.write(path, kind) or Wrote()
                except Exception as error:
                    text = " ".join(str(error).split())
                    note["failed"] = f"{type(error).__name__}: {text[:120]}"
                else:
                    values = kind.values if wrote.values is None else wrote.values
                    if one.format == "CSV":
                        # An empty cell is NULL, in quotes or not.
                        values = [None if value == "" else value for value in values]
                    note["location"] = str(wrote.location or path)
                    note["type"] = wrote.type or kind.type
                    note["has"] = [None if value is None else kind.has(value) for value in values]
                    note["others"] = [None if value is None else kind.has(other(value, values)) for value in values]
                notes.write(json.dumps(note) + "\n")
