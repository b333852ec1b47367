"""psql, pg_dump and pgbench."""

import os
import subprocess
import tempfile

from report import DATABASE, HOST, MORE, PASSWORD, PORT, QUESTION, USER, expect, step, version

OWN = {"PGHOST": HOST, "PGPORT": PORT, "PGUSER": USER, "PGPASSWORD": PASSWORD, "PGDATABASE": DATABASE}

# Every command of psql that reads the catalog.
LETTERS = """d dS da dA dAc dAf dAo dAp db dc dconfig dC dd ddp dD dE des det deu dew df dF dFd dFp dFt dg di dl dL dm dn do dO
dp dP drds dRp dRs ds dt dT du dv dx dX dy l z""".split()


def run(*command, **more):
    done = subprocess.run(command, env={**os.environ, **OWN, **more}, capture_output=True, text=True)
    expect(done.returncode == 0, done.stderr.strip()[-400:])
    return done.stdout


def psql(*texts, **more):
    return run("psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", *(part for text in texts for part in ("-c", text)), **more)


def wrong_password():
    done = subprocess.run(["psql", "-X", "-c", "SELECT 1"], env={**os.environ, **OWN, "PGPASSWORD": "wrong"}, capture_output=True, text=True)
    expect(done.returncode == 2, "a wrong password is taken")


def cancelled():
    done = subprocess.run(["psql", "-X", "-v", "ON_ERROR_STOP=1", "-c", "SET statement_timeout = '1ms'", "-c", "SELECT count(*) FROM people a, people b, people c, people d"], env={**os.environ, **OWN}, capture_output=True, text=True)
    expect("57014" in done.stderr or "timeout" in done.stderr or done.returncode != 0, "no timeout")


def main():
    version(run("psql", "--version").split()[2])
    step("connect", lambda: psql("\\conninfo"))
    step("connect without LANG", lambda: psql("SELECT 1 AS n", LANG="C", LC_ALL="C", PGCLIENTENCODING="SQL_ASCII"))
    step("tables", lambda: expect("people" in psql("\\dt"), "no table people"))
    step("columns", lambda: expect("age|bigint" in psql("\\d people"), "no column age"))
    for letters in LETTERS:
        for more in ("",) if letters in ("z", "dRp", "dx") else ("", "+"):
            step(f"\\{letters}{more}", lambda: psql(f"\\{letters}{more}"))
    step("question", lambda: expect(psql(QUESTION).strip() == "200", "not 200 people"))
    step("parameters", lambda: psql(f"{QUESTION} WHERE age > $1 \\bind 30 \\g") if "\\bind" in run("psql", "--help=commands") else None)
    step("variables", lambda: psql("\\set", "\\encoding"))
    step("wrong password", wrong_password)
    step("timeout", cancelled)


def pg_dump():
    version(run("pg_dump", "--version").split()[2])
    step("dump", lambda: run("pg_dump", "--schema-only"))


def pgbench():
    program = next((p for p in ("/usr/lib/postgresql/15/bin/pgbench", "/usr/bin/pgbench") if os.path.exists(p)), "pgbench")
    version(run(program, "--version").split()[2])
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(f"{QUESTION};\n")
        file.flush()
        for mode in ("simple", "extended", "prepared"):
            step(f"questions, {mode}", lambda: run(program, "-n", "-c", "2", "-t", "5", "-M", mode, "-f", file.name))
    step("initialize", lambda: run(program, "-i", "-q"))


{"pg_dump": pg_dump, "pgbench": pgbench}.get("".join(MORE), main)()
