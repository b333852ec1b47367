"""Tools that people use, on `hushql serve` and on PostgreSQL: each connects, looks around and asks.

    python3 tests/tools/run.py TARGET_FOLDER                   # all tools
    python3 tests/tools/run.py TARGET_FOLDER pgadmin dbt       # some of them
    python3 tests/tools/run.py TARGET_FOLDER --write           # all tools, and docs/tools.md anew
    python3 tests/tools/run.py TARGET_FOLDER dbt --write       # the row of one tool anew, if all others were run earlier

The packages are pinned, and installed into TARGET_FOLDER/tools, once; this takes some GB and a quarter of an hour. The server is
TARGET_FOLDER/debug/hushql. PostgreSQL is the one that is installed (15 in docs/tools.md); without it, nothing is compared.

A tool is a script that prints a line of JSON for each step: its name, and the error if it failed. A step must not fail on HushQL if it
works on PostgreSQL, unless REFUSED names it with a reason. A step that is named there and works is reported, too.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import venv
from pathlib import Path

from places import HushQL, PostgreSQL

HERE = Path(__file__).resolve().parent
MOST_SECONDS = 1800

# The environment of each tool in Python: its packages, and the version of Python that they need, if not every one will do.
PYTHON = {
    "base": ["sqlalchemy==2.1.9", "psycopg2-binary==2.9.13", "psycopg[binary]==3.3.9", "pg8000==1.31.6", "asyncpg==0.32.0", "pandas==3.1.1", "django==5.2.19"],
    "frames": [
        "polars==2.1.0", "connectorx==0.4.6", "adbc-driver-postgresql==1.13.0", "pyodbc==5.5.0", "pyarrow==26.0.1", "pandas==3.1.1",
        "sqlalchemy==2.1.9", "psycopg2-binary==2.9.13",
    ],
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

# The languages whose libraries are packages of Debian: libpostgresql-jdbc-java, libdbd-pg-perl, php-pgsql, ruby-pg with ruby-sequel,
# golang-github-lib-pq-dev with golang-github-jackc-pgx-v4-dev, and r-cran-rpostgresql with r-cran-dbplyr. The tool is skipped if the command
# fails. pgbouncer, prometheus-postgres-exporter and odbc-postgresql come from there, too. RPostgres does not: it is tried where CRAN, or its
# source, has installed it.
JDBC = "/usr/share/java/postgresql.jar"
PROGRAMS = {
    "java": ["-cp", JDBC, "-version"],
    "perl": ["-MDBD::Pg", "-e", "1"],
    "php": ["-r", "exit(extension_loaded('pdo_pgsql') ? 0 : 1);"],
    "ruby": ["-e", "require 'pg'; require 'sequel'"],
    "Rscript": ["-e", "library(RPostgreSQL); library(dbplyr)"],
    "go": ["list", "github.com/lib/pq", "github.com/jackc/pgx/v4"],
    "cargo": ["--version"],
}
# Where Debian keeps the sources of Go.
GO = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode"}
# What no package of the above brings. docs/tools.md is written without it, too.
OPTIONAL = {"rpostgres": ["Rscript", "-e", "library(RPostgres); library(dbplyr)"]}

# The programs of tools that are programs.
NEEDED = {"pgbouncer": "pgbouncer", "postgres_exporter": "prometheus-postgres-exporter"}

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
    "metabase": ("base", "queries_tool.py", ["metabase"]),
    "npgsql": ("base", "queries_tool.py", ["npgsql"]),
    **{name: ("frames", "python_tools.py", [name]) for name in ("polars", "connectorx", "adbc", "odbc")},
    "jdbc": ("java", "JdbcTool.java", []),
    "perl": ("perl", "perl_tool.pl", []),
    "php": ("php", "php_tool.php", []),
    "ruby": ("ruby", "ruby_tool.rb", ["pg"]),
    "sequel": ("ruby", "ruby_tool.rb", ["sequel"]),
    "r": ("Rscript", "r_tool.R", ["RPostgreSQL"]),
    "rpostgres": ("Rscript", "r_tool.R", ["RPostgres"]),
    "libpq": (None, "libpq_tool.py", []),
    "lib/pq": ("go", "go_tool.go", ["lib/pq"]),
    "pgx": ("go", "go_tool.go", ["pgx"]),
    "sqlx": ("cargo", "rust", ["sqlx"]),
    "tokio-postgres": ("cargo", "rust", ["tokio-postgres"]),
    **{name: (None, "server_tools.py", [name]) for name in ("pgbouncer", "postgres_fdw", "postgres_exporter")},
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
    "metabase": ("Metabase, by its queries", "database type PostgreSQL, database `hushql`"),
    "npgsql": ("Power BI, by the queries of Npgsql", "`Host=db.example;Database=hushql;Username=lab`"),
    "polars": ("Polars", "`pl.read_database_uri(question, 'postgresql://lab:…@db.example/hushql')`"),
    "connectorx": ("connectorx", "`postgresql://lab:…@db.example/hushql`"),
    "adbc": ("ADBC", "`adbc_driver_postgresql.dbapi.connect('postgresql://lab:…@db.example/hushql')`"),
    "odbc": ("psqlODBC by pyodbc", "`DRIVER={PostgreSQL Unicode};SERVER=db.example;DATABASE=hushql;UID=lab`"),
    "jdbc": ("PgJDBC", "`jdbc:postgresql://db.example/hushql`"),
    "perl": ("DBD::Pg", "`dbi:Pg:dbname=hushql;host=db.example`"),
    "php": ("PDO of PHP", "`pgsql:host=db.example;dbname=hushql`"),
    "ruby": ("Ruby pg", "`PG.connect(dbname: 'hushql')`"),
    "sequel": ("Sequel", "`adapter: 'postgres', database: 'hushql'`"),
    "r": ("R: RPostgreSQL, dbplyr", "`dbConnect(PostgreSQL(), dbname = \"hushql\")`"),
    "rpostgres": ("R: RPostgres, dbplyr", "`dbConnect(Postgres(), dbname = \"hushql\")`"),
    "libpq": ("libpq", "`host=db.example user=lab dbname=hushql`"),
    "lib/pq": ("lib/pq of Go", "`postgres://lab:…@db.example/hushql`"),
    "pgx": ("pgx of Go", "`postgres://lab:…@db.example/hushql`"),
    "sqlx": ("sqlx of Rust", "`postgres://lab:…@db.example/hushql`"),
    "tokio-postgres": ("tokio-postgres of Rust", "`host=db.example user=lab dbname=hushql`"),
    "pgbouncer": ("pgbouncer", "`hushql = host=db.example dbname=hushql`, `pool_mode = session` or `transaction`"),
    "postgres_fdw": ("postgres_fdw", "`CREATE SERVER study FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'db.example', dbname 'hushql')`"),
    "postgres_exporter": ("postgres_exporter", "`DATA_SOURCE_NAME=postgresql://lab:…@db.example/hushql`"),
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
# They ask for the same, with and without values.
DRIVERS = ("libpq", "lib/pq", "pgx", "sqlx", "tokio-postgres")
REFUSED = {
    ("pg_dump", "dump"): "the vault's own script is `hushql dump`; there are no rows to dump",
    ("pgbench", "initialize"): "it creates tables",
    **{(tool, "preview"): ROWS for tool in ("pgadmin", "superset", "odbc", "jdbc", "perl", "php", "ruby", "sequel", "r", "rpostgres", *DRIVERS, "postgres_fdw")},
    **{(tool, "spent budget"): "the budget of that table is spent" for tool in ("rpostgres", *DRIVERS)},
    **{(tool, "insert"): "an analyst changes no rows" for tool in DRIVERS},
    ("metabase", "fingerprint of rows"): ROWS,
    ("dbt", "run"): "an analyst creates no tables and views",
    **{(tool, "table"): ROWS for tool in ("pandas", "polars", "connectorx", "adbc")},
    ("django", "inspectdb"): "it reads a row of each table (`SELECT * FROM people LIMIT 1`); write the models by hand",
    **{("psql", step): "there is no text search" for step in ("\\dF+", "\\dFp+")},
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


def installed_program(target: Path, name: str, script: str) -> list | None:
    """The command that runs a script in a language whose library is a package of Debian; `None` without it."""
    check = PROGRAMS[name]
    if name == "java" and not Path(JDBC).exists():
        return None
    if not shutil.which(name) or subprocess.run([name, *check], env={**os.environ, **GO}, capture_output=True).returncode != 0:
        return None
    if name == "java":
        return ["java", "-cp", JDBC, HERE / script]
    if name == "go":
        return ["go", "run", HERE / script]
    if name == "cargo":
        return compiled(target, HERE / script)
    return [name, HERE / script]


def compiled(target: Path, folder: Path) -> list | None:
    """The program of a crate, whose own file of versions pins all that it needs; `None` if it does not compile."""
    build = ["cargo", "build", "--quiet", "--locked", "--manifest-path", folder / "Cargo.toml", "--target-dir", target / "tools" / "rust"]
    # The crate is no part of this workspace, and does not take its settings.
    if subprocess.run(build, cwd=target, capture_output=True).returncode != 0:
        return None
    return [target / "tools" / "rust" / "debug" / "hushql-tools"]


def steps(target: Path, name: str, place) -> list[dict] | None:
    """What a tool does in a place; `None` if it is not installed."""
    environment, script, arguments = TOOLS[name]
    if name in OPTIONAL and subprocess.run(OPTIONAL[name], capture_output=True).returncode != 0:
        return None
    if not shutil.which(NEEDED.get(name, "psql")) or name == "postgres_fdw" and not os.environ["POSTGRESQL_PORT"]:
        return None
    own = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "TOOLS_HOME": str(target / "tools" / f"home-{name.replace('/', '-')}-{place.name}")}
    shutil.rmtree(own["TOOLS_HOME"], ignore_errors=True)
    os.makedirs(own["TOOLS_HOME"])
    if environment in PROGRAMS:
        command = installed_program(target, environment, script)
        if command is None:
            return None
        own.update(GO)
    elif environment == "node":
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
    except subprocess.TimeoutExpired as late:
        return [*said(late.stdout.decode() if late.stdout else ""), {"step": "end", "error": f"no end after {MOST_SECONDS} s"}]
    lines = said(run.stdout)
    if run.returncode != 0 or not lines:
        lines.append({"step": "end", "error": (run.stderr.strip().splitlines() or ["no output"])[-1]})
    return lines


def said(output: str) -> list[dict]:
    """The steps that a tool printed."""
    return [json.loads(line) for line in output.splitlines() if line.startswith('{"step"') and line.endswith("}")]


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
    return "\n".join([*lines, "", (HERE / "tail.txt").read_text()])


def kept(target: Path, name: str) -> Path:
    """Where the row of a tool is kept for the next table."""
    return target / "tools" / f"found-{name.replace('/', '-')}.json"


def shown(steps: list[str]) -> str:
    """Steps for a table: those of one kind, such as `\\d` or `psycopg2: tables`, stand together."""
    kinds: dict[str, list[str]] = {}
    for step in steps:
        kind, _, rest = step.partition(": ")
        if step.startswith("\\"):
            kind, rest = "commands", f"`{step}`"
        kinds.setdefault(kind, []).append(rest)
    return "; ".join(kind if rests == [""] else f"{kind}: {', '.join(rest for rest in rests if rest)}" for kind, rests in kinds.items())


def main() -> int:
    # The servers stop with this program.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    words = sys.argv[1:]
    write = "--write" in words
    target, *named = [word for word in words if not word.startswith("--")]
    target = Path(target).resolve()
    hushql, postgresql = HushQL(target / "debug" / "hushql"), PostgreSQL.started()
    failed, rows = 0, []
    os.environ["POSTGRESQL_PORT"] = str(postgresql.port if postgresql else "")
    try:
        for name in named or TOOLS:
            here = steps(target, name, hushql)
            if here is None:
                print(f"skipped: {name} is not installed, and does not install")
                continue
            there = steps(target, name, postgresql) if postgresql else []
            works, refused, wrong, version = compared(name, here, there or [])
            rows.append(name)
            row = (name, version, works, refused, [step for step, _ in wrong])
            kept(target, name).write_text(json.dumps(row))
            print(f"{name} {version}: {len(works)} steps work, {len(refused)} are refused, {len(wrong)} are wrong")
            for step, error in wrong:
                print(f"    {step}: {error}")
            failed += len(wrong)
    finally:
        hushql.stop()
        if postgresql:
            postgresql.stop()
    if write:
        missing = [name for name in TOOLS if name not in OPTIONAL and not kept(target, name).exists()]
        if missing:
            print(f"docs/tools.md is as it was, because these were not run: {' '.join(missing)}")
            return 1
        found = [json.loads(kept(target, name).read_text()) for name in TOOLS if kept(target, name).exists()]
        (HERE.parent.parent / "docs" / "tools.md").write_text(table(found))
    print(f"{len(rows)} tools, {failed} steps are wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
