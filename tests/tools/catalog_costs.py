"""How long the catalog takes: what tools ask, on a vault of 200 tables of 50 columns.

    python3 tests/tools/catalog_costs.py TARGET_FOLDER [PROGRAM] [--slow]

PostgreSQL notes what psql, pgAdmin, Superset, PgJDBC and SQLAlchemy ask it, in steps of run.py, whose TARGET_FOLDER has their packages.
What they asked is kept in TARGET_FOLDER/tools/asked.json.
PROGRAM (TARGET_FOLDER/debug/hushql) then answers each question on the catalog RUNS times. What counts is the time that the server computes,
as Linux notes it, so that a busy machine changes little; it is what a client waits for on a free one. The median over the questions of a
tool and the slowest of them are printed; --slow prints all above MOST milliseconds. DBeaver cannot be installed here: its tree is asked in DBEAVER, and
its driver is PgJDBC.
"""

import json
import os
import re
import statistics
import sys
import time
from pathlib import Path

from places import HushQL, PostgreSQL
from run import python, steps

TABLES, RUNS, MOST = 200, 5, 5.0
TRACED = ("psql", "pgadmin", "superset", "jdbc", "sqlalchemy")

# What DBeaver's tree asks when a person opens the database, a schema and a table.
DBEAVER = [
    "SELECT d.oid, d.* FROM pg_catalog.pg_database d WHERE datallowconn AND NOT datistemplate ORDER BY d.datname",
    "SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n LEFT JOIN pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0 ORDER BY nspname",
    "SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid WHERE t.typname IS NOT NULL",
    "SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS bound FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 WHERE c.relnamespace = 2200 AND c.relkind NOT IN ('i', 'I', 'c')",
    "SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS usual, d.description FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON a.attrelid = c.oid LEFT JOIN pg_catalog.pg_attrdef ad ON a.attrelid = ad.adrelid AND a.attnum = ad.adnum LEFT JOIN pg_catalog.pg_description d ON c.oid = d.objoid AND a.attnum = d.objsubid WHERE NOT a.attisdropped AND c.oid = 't7'::regclass ORDER BY a.attnum",
    "SELECT c.oid, c.*, t.relname AS tabrelname, rt.relnamespace AS refnamespace, d.description FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_class t ON t.oid = c.conrelid LEFT JOIN pg_catalog.pg_class rt ON rt.oid = c.confrelid LEFT JOIN pg_catalog.pg_description d ON d.objoid = c.oid WHERE c.conrelid = 't7'::regclass",
    "SELECT i.*, c.relname, d.description FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid LEFT JOIN pg_catalog.pg_description d ON d.objoid = i.indexrelid WHERE i.indrelid = 't7'::regclass",
    "SELECT x.oid, x.* FROM pg_catalog.pg_class x WHERE x.relkind IN ('r', 'v') AND pg_catalog.has_table_privilege(x.oid, 'SELECT') ORDER BY x.relname",
]


def traced(target: Path) -> tuple[dict, dict]:
    """What each tool asks, and the numbers of PostgreSQL's objects."""
    options = "-c logging_collector=on -c log_destination=jsonlog -c log_directory=log -c log_filename=t -c log_statement=all"
    place, asked, read = PostgreSQL.started(wide=TABLES, options=options), {}, 0
    try:
        for name in TRACED:
            if steps(target, name, place) is None:
                print(f"skipped: {name} is not installed, and does not install")
            lines = (place.folder / "data" / "log" / "t.json").read_text().splitlines()
            asked[name], read = [found for line in lines[read:] if (found := question(json.loads(line)))], len(lines)
        numbers = place.numbers()
    finally:
        place.stop()
    return asked, numbers


def question(line: dict) -> tuple[str, tuple] | None:
    """A statement with its values, if a tool's role asked it and PostgreSQL's catalog is in it."""
    message = line.get("message", "")
    if line.get("user") != "lab" or not message.startswith(("statement: ", "execute ")):
        return None
    sql = message.split(": ", 1)[1]
    values = re.findall(r"\$\d+ = (NULL|'(?:[^']|'')*')", line.get("detail", ""))
    is_catalog = re.search(r"\b(pg_|information_schema)", sql) and re.match(r"\s*(select|with)\b", sql, re.I)
    return (sql, tuple(None if value == "NULL" else value[1:-1].replace("''", "'") for value in values)) if is_catalog else None


def computed(process: int) -> float:
    """The milliseconds that all threads of a process have computed, by the clock that Linux keeps for it (clock_getcpuclockid)."""
    return time.clock_gettime((~process << 3) | 2) * 1000


def main() -> int:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    target = Path(words[0]).resolve()
    program = Path(words[1] if len(words) > 1 else target / "debug" / "hushql").resolve()
    os.environ["POSTGRESQL_PORT"] = ""
    sys.path += [str(path) for path in (python(target, "base").parent.parent / "lib").glob("python*/site-packages")]
    import psycopg

    kept = target / "tools" / "asked.json"
    if not kept.exists():
        kept.write_text(json.dumps(traced(target)))
    asked, numbers = json.loads(kept.read_text())
    asked["DBeaver"] = [(sql, ()) for sql in DBEAVER]
    place = HushQL(program, wide=TABLES)
    slow = 0
    try:
        client = psycopg.connect(host=place.host, port=place.port, user=place.user, password=place.password, dbname="hushql", autocommit=True)
        own = dict(client.execute("SELECT relname, oid FROM pg_class UNION ALL SELECT datname, oid FROM pg_database").fetchall())
        renamed = {str(number): str(own[name]) for name, number in numbers.items() if name in own}

        def here(text):
            return text and re.sub(r"\b\d{5}\b", lambda found: renamed.get(found.group(), found.group()), text)

        for name, questions in asked.items():
            times, refused = [], 0
            for sql, values in dict.fromkeys((here(sql), tuple(map(here, values))) for sql, values in questions):
                taken = []
                for _ in range(RUNS):
                    began = computed(place.process.pid)
                    answer = client.pgconn.exec_params(sql.encode(), [None if value is None else value.encode() for value in values]) if values else client.pgconn.exec_(sql.encode())
                    taken.append(computed(place.process.pid) - began)
                refused += answer.status not in (1, 2)
                times.append((statistics.median(taken), sql))
            if not times:
                continue
            times.sort(reverse=True)
            over = [found for found in times if found[0] > MOST]
            slow += len(over)
            median = statistics.median(milliseconds for milliseconds, _ in times)
            print(f"{name}: {len(times)} questions, median {median:.1f} ms, slowest {times[0][0]:.1f} ms, {len(over)} above {MOST:g} ms, {refused} refused")
            for milliseconds, sql in over if "--slow" in sys.argv else []:
                print(f"    {milliseconds:.1f} ms: {' '.join(sql.split())[:1000]}")
        client.close()
    finally:
        place.stop()
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
