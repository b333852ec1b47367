"""Servers in front of the place, or beside it: pgbouncer, postgres_fdw and postgres_exporter."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

from places import WATCHER
from report import DATABASE, HOST, MORE, PASSWORD, PORT, QUESTION, USER, expect, step, version

HOME = Path(os.environ["TOOLS_HOME"])


def run(*command, **more):
    done = subprocess.run(command, env={**os.environ, **more}, capture_output=True, text=True)
    expect(done.returncode == 0, (done.stderr.strip() or done.stdout.strip())[-400:])
    return done.stdout


def free_port():
    with socket.create_server((HOST, 0)) as free:
        return free.getsockname()[1]


@contextlib.contextmanager
def running(command, port, **more):
    """A server of one's own, until it listens and until the end."""
    with (HOME / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **more})
        try:
            for _ in range(600):
                with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
                    break
                expect(process.poll() is None, (HOME / "log").read_text()[-400:])
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.wait(60)


def pgbouncer():
    version(run("pgbouncer", "--version").split()[1])
    # It does not run as root.
    as_other = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    for mode in ("session", "transaction"):
        port = free_port()
        (HOME / "users.txt").write_text(f'"{USER}" "{PASSWORD}"\n')
        (HOME / "pgbouncer.ini").write_text(f"""
[databases]
{DATABASE} = host={HOST} port={PORT} dbname={DATABASE}
[pgbouncer]
listen_addr = {HOST}
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {HOME}/users.txt
pool_mode = {mode}
""")
        psql = ["psql", "-X", "-A", "-t", "-h", HOST, "-p", str(port), "-U", USER, "-d", DATABASE, "-v", "ON_ERROR_STOP=1"]
        for path in (HOME, HOME / "users.txt", HOME / "pgbouncer.ini"):
            shutil.chown(path, *(["postgres"] if as_other else [os.getuid()]))
        bench = next((p for p in ("/usr/lib/postgresql/15/bin/pgbench", "/usr/bin/pgbench") if os.path.exists(p)), "pgbench")
        with running([*as_other, "pgbouncer", HOME / "pgbouncer.ini"], port):
            own = {"PGPASSWORD": PASSWORD}
            step(f"{mode}: question", lambda: expect(run(*psql, "-c", QUESTION, **own).strip() == "200", "not 200 people"))
            step(f"{mode}: transaction", lambda: run(*psql, "-c", "BEGIN", "-c", QUESTION, "-c", "COMMIT", **own))
            step(f"{mode}: catalog", lambda: run(*psql, "-c", "\\d people", **own))
            (HOME / "question.sql").write_text(f"{QUESTION};\n")
            for protocol in ("simple", "extended"):
                step(f"{mode}: many clients, {protocol}", lambda: run(bench, "-n", "-c", "4", "-t", "5", "-M", protocol, "-h", HOST, "-p", str(port), "-U", USER, "-f", str(HOME / "question.sql"), DATABASE, **own))


def postgres_fdw():
    """Another PostgreSQL asks: its users have no account here, and share the role's budget."""
    port = os.environ["POSTGRESQL_PORT"]
    psql = ["psql", "-X", "-A", "-t", "-h", HOST, "-p", port, "-U", "owner", "-v", "ON_ERROR_STOP=1"]
    version(run(*psql, "-d", "postgres", "-c", "SHOW server_version").split()[0])
    database = f"far_{PORT}"
    run(*psql, "-d", "postgres", "-c", f"CREATE DATABASE {database}")

    def sql(*texts):
        return run(*psql, "-d", database, *(part for text in texts for part in ("-c", text)))

    sql(
        "CREATE EXTENSION postgres_fdw",
        f"CREATE SERVER study FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{HOST}', port '{PORT}', dbname '{DATABASE}')",
        f"CREATE USER MAPPING FOR owner SERVER study OPTIONS (user '{USER}', password '{PASSWORD}')",
        "CREATE SCHEMA far",
    )
    step("import", lambda: sql("IMPORT FOREIGN SCHEMA public LIMIT TO (people) FROM SERVER study INTO far"))
    step("columns", lambda: expect(sql("SELECT count(*) FROM pg_attribute WHERE attrelid = 'far.people'::regclass AND attnum > 0").strip() == "7", "other columns"))
    step("question", lambda: expect(sql("SELECT count(*) FROM far.people").strip() == "200", "not 200 people"))
    step("condition", lambda: sql("SELECT count(*) FROM far.people WHERE age > 30"))
    step("groups", lambda: sql("SELECT city, count(*) FROM far.people GROUP BY city"))
    step("preview", lambda: sql("SELECT * FROM far.people LIMIT 10"))


def postgres_exporter():
    program = shutil.which("prometheus-postgres-exporter") or "postgres_exporter"
    shown = subprocess.run([program, "--version"], capture_output=True, text=True)
    version((shown.stdout + shown.stderr).split("version ")[1].split(" ")[0].split("+")[0])
    port = free_port()
    source = f"postgresql://{WATCHER}:{WATCHER}@{HOST}:{PORT}/{DATABASE}?sslmode=disable"
    with running([program, f"--web.listen-address={HOST}:{port}"], port, DATA_SOURCE_NAME=source):
        found = {}

        def scraped():
            text = urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=300).read().decode()
            found.update(line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
            expect(found.get("pg_up") == "1", "it does not connect")

        step("connect", scraped)
        step("settings", lambda: expect(any(name.startswith("pg_settings_") for name in found), "no settings"))
        step("activity", lambda: expect(any(name.startswith("pg_stat_activity_count") for name in found), "no activity"))
        # The log names a query that failed.
        failed = [line for line in (HOME / "log").read_text().splitlines() if "level=error" in line]
        step("all queries", lambda: expect(not failed, failed[0][-400:] if failed else ""))


{"pgbouncer": pgbouncer, "postgres_fdw": postgres_fdw, "postgres_exporter": postgres_exporter}[MORE[0]]()
