"""Asks HushQL and DuckDB the questions of each peer, and compares the answers; run.py starts it.

In: the files of questions. Out: how each question ended, and the tables of docs/compat.md.

    -- Rows of each kind                           a title; the question is expected to be answered
    -- = SELECT …                                  what DuckDB is asked, where it is not the question itself without its privacy
    -- ~ {"result": …}                             or what the JSON of the answer has to contain
    SELECT …;
    -- refused: Rows of people                     no sound derivation is known, or the promise forbids it
    SELECT …;

A peer is a file `NAME.sql`. Its first line names the peer, and the tables that it asks: `TABLES.tables.sql` makes them in DuckDB,
`TABLES.declare.sql` is what their owner declares.
"""

import datetime
import decimal
import json
import math
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from plain import plain

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "compat.md"
# What follows is made by the run.
MARK = "<!-- peers -->"
# Of two answers, relatively: floats add up in another order.
TOLERANCE = 1e-9
# How many times its ± a number may be away: the noise of Laplace is that far off with a probability of 10⁻¹⁰.
ERRORS = 8
# Of a number that is computed from noisy ones in a way that has no ±.
LOOSE = 5e-3
# From here on, a whole number is no count of rows.
LARGE = 30_000
# So many questions fit into the largest budget.
AT_ONCE = 45


@dataclass
class Question:
    title: str
    statement: str
    refused: bool = False
    plain: str = ""
    contains: dict | None = None
    # 'answered', 'wrong', or the code and the sentence of a refusal.
    how: str = ""
    said: str = ""
    shown: list = field(default_factory=list)


@dataclass
class Peer:
    name: str
    tables: str
    about: str
    questions: list


def read(path: Path) -> Peer:
    """A file: its head `-- name | tables | about`, then its questions."""
    lines = path.read_text().splitlines()
    name, tables, about = lines[0].removeprefix("-- ").split(" | ")
    questions, comments, statement = [], [], []
    for line in lines[1:]:
        if line.startswith("-- ") and not statement:
            comments.append(line[3:])
        elif line.strip():
            statement.append(line)
            if line.endswith(";"):
                questions.append(question(comments, "\n".join(statement)[:-1]))
                comments, statement = [], []
        else:
            comments = comments if statement else []
    return Peer(name, tables, about, questions)


def question(comments: list, statement: str) -> Question:
    title = comments[0]
    refused = title.startswith("refused: ")
    made = Question(title.removeprefix("refused: "), statement, refused)
    for comment in comments[1:]:
        if comment.startswith("= "):
            made.plain = comment[2:]
        elif comment.startswith("~ "):
            made.contains = json.loads(comment[2:])
    return made


def shop(files: Path, name: str):
    """DuckDB with the tables of a suite, which are also written as files; and their names."""
    base = duckdb.connect()
    base.execute("SET TimeZone = 'UTC'")
    base.execute((HERE / f"{name}.tables.sql").read_text())
    tables = [row[0] for row in base.execute("SELECT table_name FROM duckdb_tables() ORDER BY table_name").fetchall()]
    folder = files / name
    folder.mkdir(exist_ok=True)
    for table in tables:
        base.execute(f"COPY {table} TO '{folder / table}.parquet' (FORMAT parquet)")
    return base, tables


def declarations(files: Path, name: str, tables: list) -> list:
    made = [f"CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{files / name / table}.parquet'" for table in tables]
    text = (HERE / f"{name}.declare.sql").read_text()
    return made + [statement.strip() for statement in re.sub(r"(?m)^--.*$", "", text).split(";") if statement.strip()]


def ran(program: Path, vault: Path, statements: list, *options) -> list:
    """What each statement answers, as an object of JSON."""
    script = vault.with_suffix(".sql")
    script.write_text("\n".join(statement + ";" for statement in statements))
    words = [program, vault, "--format", "json", "--keep-going", *options, "-f", script]
    run = subprocess.run(words, capture_output=True, text=True)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(answers) == len(statements), (len(answers), len(statements), run.stderr[-2000:], run.stdout[-2000:])
    return answers


def ask(program: Path, files: Path, peer: Peer) -> None:
    base, tables = shop(files, peer.tables)
    for first in range(0, len(peer.questions), AT_ONCE):
        vault = files / f"{peer.name.split()[0]}{first}.db"
        subprocess.run([program, "init", vault], check=True, capture_output=True)
        for statement, answer in zip(made := declarations(files, peer.tables, tables), ran(program, vault, made, "--owner")):
            assert "error" not in answer, (statement, answer)
        some = peer.questions[first : first + AT_ONCE]
        for asked, answer in zip(some, ran(program, vault, [asked.statement for asked in some], "--analyst", "reader")):
            judge(base, asked, answer)


def judge(base, asked: Question, answer: dict) -> None:
    if "error" in answer:
        error = answer["error"]
        asked.how = error["code"] or "no syntax"
        asked.said = f"{error['message']}; {error['hint'] or ''}"
        return
    asked.shown = answer["rows"]
    if asked.contains is not None:
        found = json.loads(answer["rows"][0][0])
        asked.how = "answered" if contains(found, asked.contains) else "wrong"
        asked.said = json.dumps(found)
        return
    expected = base.execute(asked.plain or plain(asked.statement)).fetchall()
    errors = [answer.get("errors", {}).get(column) for column in answer["columns"]]
    different = differ(answer["rows"], errors, expected)
    asked.how = "wrong" if different else "answered"
    asked.said = different or ""


def contains(found, wanted) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(name in found and contains(found[name], value) for name, value in wanted.items())
    return equal(value(found), value(wanted))


def value(cell):
    """A cell of either engine, as a number, a text or None. Numbers of JSON may be texts, and times are microseconds."""
    if cell is None:
        return None
    if isinstance(cell, (list, tuple)):
        return tuple(value(part) for part in cell)
    if isinstance(cell, dict):
        return tuple(value(part) for part in cell.values())
    if isinstance(cell, bool):
        return float(cell)
    if isinstance(cell, (int, float, decimal.Decimal)):
        return float(cell)
    if isinstance(cell, datetime.timedelta):
        return cell.total_seconds()
    if isinstance(cell, str) and cell.startswith("["):
        return value(json.loads(cell))
    text = cell.isoformat() if isinstance(cell, (datetime.date, datetime.time)) else str(cell)
    if text in ("true", "false"):
        return float(text == "true")
    try:
        return float(text)
    except ValueError:
        pass
    text = text.replace("T", " ").removesuffix("Z").removesuffix("+00:00")
    return re.sub(r" 00:00:00(\.0+)?$", "", text) if re.match(r"\d{4}-\d\d-\d\d", text) else text


def equal(one, other, error: float = 0.0) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(equal(a, b, error) for a, b in zip(one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=max(TOLERANCE, ERRORS * error)) or (math.isnan(one) and math.isnan(other))
    return one == other


def order(row: tuple) -> tuple:
    """A row's place: texts and NULL decide before numbers, which may differ."""
    texts = tuple("" if cell is None else cell if isinstance(cell, str) else "." for cell in row)
    return texts, tuple(cell for cell in row if isinstance(cell, float)), str(row)


def is_sum(cells) -> bool:
    """Whether the cells of a column are sums or fractions, which may be off a little without a ±, and not counts."""
    return any(isinstance(cell, float) and (not cell.is_integer() or abs(cell) >= LARGE) for cell in cells)


def error_of(cell, errors, at: int, is_loose: bool) -> float:
    """The ± of a cell."""
    if errors and at < len(errors) and errors[at] is not None:
        return errors[at]
    return LOOSE * max(1.0, abs(cell)) / ERRORS if is_loose and isinstance(cell, float) else 0.0


def differ(found: list, errors: list, expected: list) -> str:
    """How two answers differ, as sets of rows, or nothing: each row has to equal one that no other row equals."""
    left = [tuple(value(cell) for cell in row) for row in expected]
    rows = [tuple(value(cell) for cell in row) for row in found]
    loose = [is_sum(column) for column in zip(*rows)]
    for at, cells in enumerate(rows):
        own = [error_of(cell, error, at, is_loose) for cell, error, is_loose in zip(cells, errors, loose)]
        same = [other for other in left if len(other) == len(cells) and all(map(equal, cells, other, own))]
        if not same and is_empty(cells, errors, own):
            continue
        if not same:
            return f"{cells} ± {own} in place of {sorted(left, key=order)[:3]}"
        left.remove(same[0])
    return f"{len(left)} rows are missing: {sorted(left, key=order)[:3]}" if left else ""


def is_empty(cells: tuple, errors: list, own: list) -> bool:
    """Whether a row is that of a group without rows: it is shown where the keys are public, and DuckDB has none."""
    numbers = [(cell, error) for cell, errors, error in zip(cells, errors, own) if errors or cell is None]
    return any(errors) and all(cell is None or abs(cell) <= ERRORS * error for cell, error in numbers)


def outcome(asked: Question) -> str:
    """In the words of the page."""
    if asked.how in ("answered", "wrong"):
        return asked.how
    return "refused" if asked.refused else "not yet"


INTRODUCTION = """## Suites of peers

What other systems for private queries test and document, and what benchmarks of databases ask: each question is asked at an ε at which noise
hardly counts, on small tables, and *answered* means that HushQL says what DuckDB says. *Refused rightly* is what nobody knows how to answer
soundly, or what the promise forbids. *Not yet* is what could be answered. The questions are in [tests/peers](../tests/peers), in our words,
and [tests/peers/run.py](../tests/peers/run.py) writes this part.

"""


def tables(peers: list) -> str:
    text = INTRODUCTION + "| suite | questions | answered | refused rightly | not yet |\n|---|---|---|---|---|\n"
    totals = Counter()
    for peer in peers:
        counts = Counter(outcome(asked) for asked in peer.questions)
        totals.update(counts)
        text += f"| [{peer.name}](#{peer.name.lower().replace(' ', '-')}) | {len(peer.questions)} | {counts['answered']} | {counts['refused']} | {counts['not yet']} |\n"
    text += f"| all | {totals.total()} | {totals['answered']} | {totals['refused']} | {totals['not yet']} |\n"
    for peer in peers:
        text += f"\n### {peer.name}\n\n{peer.about}\n\n| HushQL | questions |\n|---|---|\n"
        rows = {}
        for asked in peer.questions:
            code = "" if asked.how == "answered" else f": {asked.how}"
            rows.setdefault(f"{outcome(asked)}{code}", []).append(asked)
        answered = rows.pop("answered", [])
        text += f"| answered | {len(answered)} |\n" if answered else ""
        for how in sorted(rows):
            titles = "; ".join(asked.title.replace("|", "\\|") for asked in rows[how])
            text += f"| {how} | {len(rows[how])}: {titles} |\n"
    return text


def page(peers: list) -> str:
    """The page with the tables written anew."""
    before, _, _ = PAGE.read_text().partition(MARK)
    return f"{before.rstrip()}\n\n{MARK}\n\n{tables(peers)}"


def main() -> int:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    options = [word for word in sys.argv[1:] if word.startswith("--")]
    program, files, wanted = Path(words[0]), Path(words[1]), words[2:]
    suites = [path for path in sorted(HERE.glob("*.sql")) if path.name.count(".") == 1]
    suites = [path for path in suites if not wanted or path.stem in wanted]
    peers = [read(path) for path in suites]
    for peer in peers:
        if "--duckdb" in options:
            only_duckdb(files, peer)
            continue
        ask(program, files, peer)
        show(peer, "--show" in options)
    if "--duckdb" in options:
        return 0
    wrong = [(peer, asked) for peer in peers for asked in peer.questions if asked.how == "wrong"]
    if wanted:
        return 1 if wrong else 0
    new = page(peers)
    changed = new != PAGE.read_text()
    if "--write" in options:
        PAGE.write_text(new)
    elif changed:
        print("docs/compat.md differs from what happens: run with --write, and look at the difference")
    return 1 if wrong or (changed and "--write" not in options) else 0


def only_duckdb(files: Path, peer: Peer) -> None:
    """What DuckDB says, to write a suite by: its errors, and answers that are empty."""
    base, _ = shop(files, peer.tables)
    for asked in peer.questions:
        if asked.refused or asked.contains is not None:
            continue
        try:
            rows = base.execute(asked.plain or plain(asked.statement)).fetchall()
            if not rows or all(cell in (None, 0) for row in rows for cell in row):
                print(f"EMPTY {peer.name}: {asked.title}: {rows}")
        except duckdb.Error as error:
            print(f"DUCKDB {peer.name}: {asked.title}: {str(error).splitlines()[0]}")


def show(peer: Peer, everything: bool) -> None:
    counts = Counter(outcome(asked) for asked in peer.questions)
    print(f"{peer.name}: " + ", ".join(f"{counts[how]} {how}" for how in sorted(counts)))
    for asked in peer.questions:
        how = outcome(asked)
        if everything or how in ("wrong", "not yet") or (asked.refused and how == "answered"):
            note = "ANSWERED, NOT REFUSED" if asked.refused and how == "answered" else how.upper() if how == "wrong" else how
            print(f"  {note} {asked.how}: {asked.title}\n      {asked.statement}\n      {asked.said or asked.shown}")


if __name__ == "__main__":
    sys.exit(main())
