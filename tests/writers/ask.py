"""Asks HushQL about each file, and compares what it answers with what the writer wrote.

In: the notes of writers. Out: an outcome for each file: how it was declared, or with which sentence it was refused. Each file is declared
as its owner would: first without columns, then with the columns, then with the options that its writer's habits need. At this ε, noise has
a probability of less than 10⁻⁴⁰. Three numbers are compared: the cells that are not NULL, those that are what the writer wrote for their
person, and those that equal the value of another person, which are none.
"""

import itertools
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

EPSILON = 100


@dataclass
class Outcome:
    """How a file ended."""

    # One of WAYS, 'refused', 'wrong' or 'unwritten'.
    how: str
    sentence: str = ""


class Program:
    """The program, on a new vault for each script: a declaration costs more in a vault of many tables."""

    def __init__(self, program: Path, folder: Path):
        self.program, self.folder, self.vaults = program, folder, 0

    def run(self, statements: list) -> list:
        """What each statement answers, as an object of JSON."""
        self.vaults += 1
        vault, script = self.folder / f"{self.vaults}.db", self.folder / "statements.sql"
        subprocess.run([self.program, "init", vault], check=True, capture_output=True)
        script.write_text("\n".join(statement + ";" for statement in statements))
        words = [self.program, vault, "--owner", "--format", "json", "--keep-going", "-f", script]
        run = subprocess.run(words, capture_output=True, text=True)
        answers = [json.loads(line) for line in run.stdout.splitlines()]
        assert len(answers) == len(statements), (len(answers), len(statements), run.stderr[-2000:], run.stdout[-2000:])
        return answers


# The ways to declare a file, from the shortest to the longest: the columns, and the options.
WAYS = {"read": (False, False), "typed": (True, False), "option": (False, True), "typed option": (True, True), "rows": (False, True)}
# Values that HushQL does not compute with: of them, only the rows are asked for, if all else is refused.
CARRIED = ("STRUCT", "LIST", "BYTEA")


def statements(note: dict, name: str, way: str) -> list:
    with_columns, with_options = WAYS[way]
    columns = f" ({note['before']}{', ' if note['before'] else ''}id BIGINT, x {note['type']})" if with_columns else ""
    options = ", ".join(f"'{word}' '{value}'" for word, value in note["options"].items())
    options = f" OPTIONS ({options})" if with_options and options else ""
    partitioned = f" PARTITIONED BY ({note['partitioned']})" if note["partitioned"] else ""
    bare = note["options"].get("has_header") == "false"
    id, x = ("column_1", "column_2") if bare and not with_columns else ("id", "x")

    def rows(conditions: list) -> str:
        rows = [(n, has) for n, has in zip(range(1001, 1013), conditions) if has is not None]
        return " OR ".join(f"({id} = {n} AND {has.replace('x', x, 1)})" for n, has in rows)

    counts = [f"COUNT({x})", f"COUNT(*) FILTER (WHERE {rows(note['has'])})", f"COUNT(*) FILTER (WHERE {rows(note['others'])})"]
    if way == "rows":
        counts = [f"COUNT({id})", f"COUNT({id})", f"COUNT(*) FILTER (WHERE {id} < 1001 OR {id} > 1012)"]
    asked = ", ".join(f"LAPLACE(eps={EPSILON}) {count} AS n{number}" for number, count in enumerate(counts))
    return [
        f"CREATE EXTERNAL TABLE {name}{columns} STORED AS {note['format']}{partitioned} LOCATION '{note['location']}'{options}",
        f"ALTER TABLE {name} SET PRIVACY UNIT ({id}) UNIQUE",
        f"CREATE PRIVACY BUDGET {name} FOR {name} LIMIT (epsilon=1000000)",
        f"SELECT {asked} FROM {name}",
    ]


def plain(text: str, note: dict, name: str) -> str:
    """A sentence without the names of this run."""
    text = re.sub(rf"\b{name}\b", "people", text.replace(note["location"], "FILE"))
    return re.sub(r"part-(\d+)-[0-9a-f-]+", r"part-\1", text)


def told(answers: list) -> str:
    """All that the owner was told."""
    return " ".join(json.dumps(answer, ensure_ascii=False) for answer in answers)


def outcome(note: dict, name: str, way: str, answers: list) -> Outcome:
    for answer in answers:
        if "error" in answer:
            error = answer["error"]
            code = f"{error['code']}: " if error["code"] else ""
            hint = f"; {error['hint']}" if error["hint"] else ""
            return Outcome("refused", plain(f"{code}{error['message']}{hint}", note, name))
    found, expected = answers[-1]["rows"][0], sum(has is not None for has in note["has"])
    expected = len(note["has"]) if way == "rows" else expected
    if found == [expected, expected, 0]:
        return Outcome(way)
    # What cannot be read is said when the unit is declared, and names no table's name of this run.
    lost = "; ".join(answers[1]["done"].split("; ")[2:])
    if lost:
        return Outcome("refused", plain(lost, note, name))
    return Outcome("wrong", f"of {expected} cells, {found[0]} are not NULL, {found[1]} match, and {found[2]} match another value; said: {plain(told(answers[:2]), note, name)}")


def ask(program: Program, notes: list) -> tuple:
    """The outcome of each file (the first way in which it is read as it was written, or what the ways say), and what each way gave."""
    tried = [[] for _ in notes]
    for way in WAYS:
        left = [at for at, note in enumerate(notes) if "failed" not in note and applies(way, note, tried[at])]
        # Two writers may write the same bytes, which are the same people.
        for _, some in itertools.groupby(left, lambda at: (notes[at]["writer"], notes[at]["format"])):
            some = list(some)
            answers = program.run([statement for at in some for statement in statements(notes[at], f"t{at}", way)])
            for place, at in enumerate(some):
                tried[at].append((way, outcome(notes[at], f"t{at}", way, answers[4 * place : 4 * place + 4])))
    return [Outcome("unwritten", note["failed"]) if "failed" in note else best(tries, bool(note["options"])) for note, tries in zip(notes, tried)], tried


def applies(way: str, note: dict, tries: list) -> bool:
    with_columns, with_options = WAYS[way]
    if note["type"] in CARRIED:
        return way in ("read", "rows") and not done(tries)
    # An owner may declare a decimal that would be read as a float: its digits are then those of the file.
    is_exact = with_columns and note["type"].startswith("DECIMAL")
    return way != "rows" and (bool(note["options"]) or not with_options) and (is_exact or not done(tries))


def done(tries: list) -> bool:
    return any(result.how in WAYS for _, result in tries)


def best(tries: list, with_options: bool) -> Outcome:
    """What a page shows of several tries: the shortest that reads all, unless a declared column is wrong; or the last one, which has columns
    and all options: without columns, a writer's numbers may be read as texts, and equal nothing."""
    read = [result for _, result in tries if result.how in WAYS]
    wrong = [result for way, result in tries if result.how == "wrong" and WAYS[way] == (True, with_options)]
    return [*(wrong if read else []), *read[:1], tries[-1][1]][0]


if __name__ == "__main__":
    import sys
    import tempfile

    notes = [json.loads(line) for line in Path(sys.argv[2]).read_text().splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        results, tried = ask(Program(Path(sys.argv[1]), Path(folder)), notes)
    for note, result, tries in zip(notes, results, tried):
        print(json.dumps([note["writer"], note["format"], note["kind"], result.how, [[w, r.how, r.sentence] for w, r in tries]], ensure_ascii=False))
