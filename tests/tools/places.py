"""Where tools are tried: a vault with a server on it, and PostgreSQL with the same tables."""

import os
import shutil
import socket
import subprocess
import tempfile
from datetime import date, datetime, timedelta
from pathlib import Path

PASSWORD = "correct horse"
# postgres_exporter takes no password with a space, however it is quoted: the name and the password of its role.
WATCHER = "watcher_by_day"

# `numbers` is public, and takes minutes when it is joined with itself often enough. The budget of `few` pays for no question.
DECLARATIONS = f"""
CREATE EXTERNAL TABLE people STORED AS CSV LOCATION 'people.csv' OPTIONS ('content_hash' 'false');
ALTER TABLE people SET PRIVACY UNIT ROW;
ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 100);
ALTER TABLE people ALTER COLUMN city SET PRIVACY DOMAIN IN ('Rome', 'Oslo');
CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=1000000, delta=1e-5) PER QUERY (default=100, max=100000);
CREATE VIEW adults AS SELECT city, age FROM people WHERE age >= 18;
CREATE EXTERNAL TABLE numbers STORED AS CSV LOCATION 'numbers.csv' OPTIONS ('content_hash' 'false');
ALTER TABLE numbers SET PUBLIC;
CREATE EXTERNAL TABLE few STORED AS CSV LOCATION 'few.csv' OPTIONS ('content_hash' 'false');
ALTER TABLE few SET PRIVACY UNIT ROW;
CREATE PRIVACY BUDGET spent FOR few LIMIT (epsilon=0.5) PER QUERY (default=0.5);
ALTER TABLE few SET PRIVACY SPENT (epsilon=0.5);
CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}';
CREATE ROLE {WATCHER} LOGIN PASSWORD '{WATCHER}';
"""

TABLES = """
CREATE TABLE people (id bigint, age bigint, city text, day date, seen timestamp, wage double precision, ok boolean);
CREATE VIEW adults AS SELECT city, age FROM people WHERE age >= 18;
CREATE TABLE numbers (k bigint);
CREATE TABLE few (k bigint);
INSERT INTO numbers SELECT generate_series(0, 99);
INSERT INTO few SELECT generate_series(0, 2);
"""


# The columns of a wide table, for those who ask how long the catalog takes.
WIDE = [f"c{number}" for number in range(1, 51)]


def rows():
    first = date(2024, 1, 1)
    for n in range(1, 201):
        seen = datetime(2024, 1, 1) + timedelta(hours=n)
        yield n, n % 90, ("Rome", "Oslo")[n % 2], first + timedelta(days=n), seen, n * 1.5, n % 2 == 0


class HushQL:
    """A server on a vault that is made for it."""

    name = "hushql"
    host, user, password = "127.0.0.1", "lab", PASSWORD
    question = "SELECT COUNT(*) AS n FROM people"

    def __init__(self, binary: Path, wide: int = 0):
        self.folder = Path(tempfile.mkdtemp(prefix="hushql-tools-"))
        lines = ["id,age,city,day,seen,wage,ok", *(",".join(str(cell) for cell in row).lower().replace("rome", "Rome").replace("oslo", "Oslo") for row in rows())]
        (self.folder / "people.csv").write_text("\n".join(lines) + "\n")
        for name, values in (("numbers", range(100)), ("few", range(3))):
            (self.folder / f"{name}.csv").write_text("k\n" + "".join(f"{k}\n" for k in values))
        own = {"cwd": self.folder, "env": {**os.environ, "HUSHQL_CONFIG": ""}}
        subprocess.run([binary, "init", "study.db"], check=True, capture_output=True, **own)
        (self.folder / "wide.csv").write_text(",".join(WIDE) + "\n" + ",".join("1" for _ in WIDE) + "\n")
        more = "".join(
            f"CREATE EXTERNAL TABLE t{number} STORED AS CSV LOCATION 'wide.csv' OPTIONS ('content_hash' 'false'); ALTER TABLE t{number} SET PUBLIC;"
            for number in range(1, wide + 1)
        )
        subprocess.run([binary, "study.db", "--owner", "-c", DECLARATIONS + more], check=True, capture_output=True, **own)
        arguments = ["serve", "study.db", "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen([binary, *arguments], stderr=subprocess.PIPE, text=True, **own)
        for line in self.process.stderr:
            if "for roles" in line:
                self.port = int(line.split("127.0.0.1:")[1].split(" ")[0].split(",")[0])
                return
        raise RuntimeError("the server did not start")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class PostgreSQL:
    """A server of the installed version, with the same tables and the same role."""

    name = "postgresql"
    host, user, password = "127.0.0.1", "lab", PASSWORD
    question = "SELECT COUNT(*) AS n FROM people"

    @classmethod
    def started(cls, **more):
        """It; `None` if PostgreSQL is not installed."""
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin")) or [Path(p).parent for p in [shutil.which("initdb")] if p]
        if not found:
            print("PostgreSQL is not installed: nothing is compared")
            return None
        return cls(found[-1], **more)

    def __init__(self, programs: Path, wide: int = 0, options: str = ""):
        self.folder = Path(tempfile.mkdtemp(prefix="hushql-tools-"))
        self.programs = programs
        with socket.create_server((self.host, 0)) as free:
            self.port = free.getsockname()[1]
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        data = self.folder / "data"
        self.run("initdb", "-D", data, "-A", "trust", "-U", "owner")
        # The server asks the role for its password.
        (data / "pg_hba.conf").write_text("local all all trust\nhost all owner 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        options = f"-p {self.port} -k {self.folder} -c fsync=off {options}"
        self.run("pg_ctl", "-D", data, "-w", "-o", options, "-l", self.folder / "log", "start")
        self.sql("postgres", "CREATE DATABASE hushql")
        more = "".join(f"CREATE TABLE t{number} ({', '.join(f'{name} bigint' for name in WIDE)});" for number in range(1, wide + 1))
        self.sql("hushql", f"{TABLES} {more} CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}'; CREATE ROLE {WATCHER} LOGIN PASSWORD '{WATCHER}'; GRANT ALL ON ALL TABLES IN SCHEMA public TO lab; GRANT CREATE ON SCHEMA public TO lab")
        cells = ", ".join("(" + ", ".join(str(cell) if isinstance(cell, (int, float)) else f"'{cell}'" for cell in row) + ")" for row in rows())
        self.sql("hushql", f"INSERT INTO people VALUES {cells}")

    def numbers(self):
        """The numbers of the tables, of their types and of the database, by name."""
        program = [self.programs / "psql", "-X", "-A", "-t", "-F", " ", "-h", self.host, "-p", str(self.port), "-U", "owner", "hushql"]
        sql = "SELECT relname, oid FROM pg_class WHERE oid >= 16384 UNION ALL SELECT datname, oid FROM pg_database WHERE oid >= 16384"
        found = subprocess.run([*program, "-c", sql], check=True, capture_output=True, text=True).stdout
        return dict(line.split(" ") for line in found.splitlines())

    def run(self, program, *arguments):
        as_owner = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        subprocess.run([*as_owner, self.programs / program, *arguments], check=True, stdout=subprocess.DEVNULL, cwd="/")

    def sql(self, database, text):
        program = [self.programs / "psql", "-X", "-q", "-h", self.host, "-p", str(self.port), "-U", "owner", database]
        subprocess.run([*program, "-v", "ON_ERROR_STOP=1", "-c", text], check=True)

    def stop(self):
        self.run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)
