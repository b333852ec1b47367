"""Tools that people use, on `hushql serve` and on PostgreSQL: each connects, looks around and asks.

    python3 tests/tools/run.py TARGET_FOLDER                   # all tools
    python3 tests/tools/run.py TARGET_FOLDER pgadmin dbt       # some of them
    python3 tests/tools/run.py TARGET_FOLDER --write           # all tools, and docs/tools.md anew

The packages are pinned, and installed into TARGET_FOLDER/tools, once; this takes some GB and a quarter of an hour. The server is
TARGET_FOLDER/debug/hushql. PostgreSQL is the one that is installed (15 in docs/tools.md); without it, nothing is compared.

A tool is a script that prints a line of JSON for each step: its name, and the error if it failed. A step must not fail on HushQL if it
works on PostgreSQL, unless REFUSED names it with a reason. A step that is named there and works is reported, too.
"""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from places import HushQL, PostgreSQL

HERE = Path(__file__).resolve().parent
MOST_SECONDS = 600

# The environment of each tool in Python: its packages, and the version of Python that they need, if not every one will do.
PYTHON = {
    "base": ["sqlalchemy==2.1.9", "psycopg2-binary==2.9.13", "psycopg[binary]==3.3.9", "pg8000==1.31.6", "asyncpg==0.32.0", "pandas==3.1.1", "django==5.2.19"],
    "ibis": ["ibis-framework[postgres]==12.0.0", "packaging", "rich", "pyarrow", "pyarrow-hotfix"],
    "dbt": ["dbt-core==1.9.11", "dbt-postgres==1.9.1"],
    "pgadmin": ["pgadmin4==9.18"],
    "superset": ["apache-superset==6.1.0", "psycopg2-binary==2.9.13", "flask-caching==2.3.1", "cachetools==8.0.2", "rich"],
}
NODE = {
    "pg": "8.23.1",
    "postgres": "3.4.9",
    "kysely": "0.28.19",
    "drizzle-orm": "0.45.4",
    "typeorm": "1.1.1",
    "sequelize": "6.37.8",
    "reflect-metadata": "0.2.2",
    "@cubejs-backend/postgres-driver": "1.7.43",
}

# Each tool: its environment, the script, and the arguments of the script.
TOOLS = {
    "psql": (None, "psql_tool.py", []),
    "pg_dump": (None, "psql_tool.py", ["pg_dump"]),
    "pgbench": (None, "psql_tool.py", ["pgbench"]),
    "pgadmin": ("pgadmin", "pgadmin_tool.py", []),
    "superset": ("superset", "superset_tool.py", []),
    "dbt": ("dbt", "dbt_tool.py", []),
    "sqlalchemy": ("base", "python_tools.py", ["sqlalchemy"]),
    "pandas": ("base", "python_tools.py", ["pandas"]),
    "django": ("base", "python_tools.py", ["django"]),
    "asyncpg": ("base", "python_tools.py", ["asyncpg"]),
    "ibis": ("ibis", "python_tools.py", ["ibis"]),
    **{name: ("node", "node_tools.js", [name]) for name in ("pg", "postgres.js", "cubejs", "kysely", "drizzle", "typeorm", "sequelize")},
}

# The heading of each tool in docs/tools.md, and the settings to paste.
TITLES = {
    "psql": ("psql", "`psql \"host=db.example user=lab dbname=hushql\"`"),
    "pg_dump": ("pg_dump", "use `hushql dump`"),
    "pgbench": ("pgbench", "`pgbench --no-vacuum --file=question.sql`"),
    "pgadmin": ("pgAdmin 4", "a server with the database `hushql` and the role as user name"),
    "superset": ("Superset", "`postgresql+psycopg2://lab:…@db.example/hushql`"),
    "dbt": ("dbt-postgres", "`type: postgres`, `dbname: hushql`, `schema: public`"),
    "sqlalchemy": ("SQLAlchemy", "`postgresql+psycopg://lab:…@db.example/hushql`"),
    "pandas": ("pandas", "a connection of SQLAlchemy"),
    "django": ("Django", "`ENGINE: django.db.backends.postgresql`"),
    "asyncpg": ("asyncpg", "`asyncpg.connect(database='hushql')`"),
    "ibis": ("Ibis", "`ibis.postgres.connect(database='hushql')`"),
    "pg": ("node-postgres", "`new Client({ database: 'hushql' })`"),
    "postgres.js": ("postgres.js", "`postgres({ database: 'hushql' })`"),
    "cubejs": ("Cube.js driver", "`CUBEJS_DB_TYPE=postgres`, `CUBEJS_DB_NAME=hushql`"),
    "kysely": ("Kysely", "`PostgresDialect`"),
    "drizzle": ("Drizzle", "`drizzle-orm/node-postgres`"),
    "typeorm": ("TypeORM", "`type: 'postgres'`, `installExtensions: false`"),
    "sequelize": ("Sequelize", "`dialect: 'postgres'`"),
}

# Steps that HushQL refuses, and why.
ROWS = "rows of people are not shown"
REFUSED = {
    ("pg_dump", "dump"): "the vault's own script is `hushql dump`; there are no rows to dump",
    ("pgbench", "initialize"): "it creates tables",
    ("pgadmin", "preview"): ROWS,
    ("superset", "preview"): ROWS,
    ("dbt", "run"): "an analyst creates no tables and views",
    ("pandas", "table"): ROWS,
    ("dbt", "test"): "tests that list rows of people",
}


def python(target: Path, name: str) -> Path | None:
    """The Python of an environment, with its packages."""
    folder = target / "tools" / name
    program = folder / "bin" / "python"
    done = folder / "installed"
    if not done.exists():
        venv.create(folder, with_pip=True, clear=True)
        if subprocess.run([program, "-m", "pip", "install", "-q", *PYTHON[name]], capture_output=True).returncode != 0:
            return None
        done.touch()
    return program


def node(target: Path) -> Path | None:
    """The folder with the packages of Node."""
    folder = target / "tools" / "node"
    if not shutil.which("npm"):
        return None
    if not (folder / "installed").exists():
        folder.mkdir(parents=True, exist_ok=True)
        packages = [f"{name}@{version}" for name, version in NODE.items()]
        run = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages], cwd=folder, capture_output=True)
        if run.returncode != 0:
            return None
        (folder / "installed").touch()
    return folder


def steps(target: Path, name: str, place) -> list[dict] | None:
    """What a tool does in a place; `None` if it is not installed."""
    environment, script, arguments = TOOLS[name]
    own = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "TOOLS_HOME": str(target / "tools" / f"home-{name}-{place.name}")}
    shutil.rmtree(own["TOOLS_HOME"], ignore_errors=True)
    os.makedirs(own["TOOLS_HOME"])
    if environment == "node":
        folder = node(target)
        if folder is None:
            return None
        command = ["node", HERE / script]
        own["NODE_PATH"] = str(folder / "node_modules")
    else:
        program = python(target, environment) if environment else sys.executable
        if program is None:
            return None
        command = [program, HERE / script]
    command = [*command, place.host, str(place.port), place.user, place.password, place.question, *arguments]
    try:
        run = subprocess.run(command, env=own, capture_output=True, text=True, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return [{"step": "end", "error": f"no end after {MOST_SECONDS} s"}]
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{"step"')]
    if run.returncode != 0 or not lines:
        lines.append({"step": "end", "error": (run.stderr.strip().splitlines() or ["no output"])[-1]})
    return lines


def compared(name: str, here: list[dict], there: list[dict]) -> tuple[list[str], list[str], list[tuple[str, str]], str]:
    """What works, what is refused, what is wrong, and the version."""
    elsewhere = {line["step"]: line.get("error") for line in there}
    works, refused, wrong, version = [], [], [], ""
    for line in here:
        step, error = line["step"], line.get("error")
        if step == "version":
            version = line["version"]
            continue
        reason = REFUSED.get((name, step))
        if error is None:
            works.append(step)
            if reason:
                wrong.append((step, "works, and is listed as refused"))
        elif reason:
            refused.append(f"{step}: {reason}")
        elif there and elsewhere.get(step) is not None:
            continue
        else:
            wrong.append((step, error))
    return works, refused, wrong, version


def table(rows: list[tuple[str, str, list[str], list[str], list[str]]]) -> str:
    """docs/tools.md."""
    lines = [(HERE / "head.txt").read_text()]
    lines.append("| tool | version | what works | what is refused, and why | what does not work yet | settings |")
    lines.append("|---|---|---|---|---|---|")
    for name, version, works, refused, wrong in rows:
        title, settings = TITLES[name]
        cells = [title, version, shown(works), "; ".join(refused) or "–", shown(wrong) or "–", settings]
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def shown(steps: list[str]) -> str:
    """Steps for a table: those of one kind, such as `\\d` or `psycopg2: tables`, stand together."""
    kinds: dict[str, list[str]] = {}
    for step in steps:
        kind, _, rest = step.partition(": ")
        if step.startswith("\\"):
            kind, rest = "commands", f"`{step}`"
        kinds.setdefault(kind, []).append(rest)
    return "; ".join(kind if rests == [""] else f"{kind}: {', '.join(rests)}" for kind, rests in kinds.items())


def main() -> int:
    words = sys.argv[1:]
    write = "--write" in words
    target, *named = [word for word in words if not word.startswith("--")]
    target = Path(target).resolve()
    hushql, postgresql = HushQL(target / "debug" / "hushql"), PostgreSQL.started()
    failed, rows = 0, []
    try:
        for name in named or TOOLS:
            here = steps(target, name, hushql)
            if here is None:
                print(f"skipped: {name} is not installed, and does not install")
                continue
            there = steps(target, name, postgresql) if postgresql else []
            works, refused, wrong, version = compared(name, here, there or [])
            rows.append((name, version, works, refused, [step for step, _ in wrong]))
            print(f"{name} {version}: {len(works)} steps work, {len(refused)} are refused, {len(wrong)} are wrong")
            for step, error in wrong:
                print(f"    {step}: {error}")
            failed += len(wrong)
    finally:
        hushql.stop()
        if postgresql:
            postgresql.stop()
    if write:
        (HERE.parent.parent / "docs" / "tools.md").write_text(table(rows))
    print(f"{len(rows)} tools, {failed} steps are wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
