"""The checks of each client. `checks.py BINARY [NAME…]` runs those of these names, or all."""

import asyncio
import importlib.util
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import traceback
from pathlib import Path

from served import COUNT, DATABASE, PASSWORD, Served

CHECKS = []
MOST_SECONDS = 60


def client(*modules):
    """A check that needs these modules."""

    def known(check):
        CHECKS.append((check.__name__, modules, check))
        return check

    return known


def raises(code, run):
    """Whether `run` fails with this SQLSTATE."""
    try:
        run()
    except Exception as error:
        found = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if found is None and error.args and isinstance(error.args[0], dict):
            found = error.args[0].get("C")
        assert found == code, f"{found} instead of {code}: {error}"
        return error
    raise AssertionError(f"nothing failed with {code}")


@client()
def psql(served):
    if not shutil.which("psql"):
        return print("skipped: psql is not installed")
    tls = {}
    if served.certificate:
        tls = {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": str(served.certificate), "PGCHANNELBINDING": "require"}
    own = {"PGPASSWORD": PASSWORD, "PGUSER": "lab", "PGDATABASE": DATABASE, "PGHOST": "127.0.0.1", "PGPORT": str(served.port)}

    def ask(*commands):
        arguments = [part for command in commands for part in ("-c", command)]
        run = subprocess.run(
            ["psql", "-X", "-A", "-t", *arguments], env={**os.environ, **own, **tls}, capture_output=True, text=True
        )
        assert run.returncode == 0, (commands, run.stderr)
        return run.stdout, run.stderr

    with served.costs(1):
        out, err = ask(COUNT)
        assert out.strip() == "4" and "cost ε = 100" in err, (out, err)
    with served.costs(0):
        for command, expected in [
            ("\\dt", "public|people|table|owner"),
            ("\\d people", "age|bigint"),
            ("\\d+ people", "city|text"),
            ("\\dn", "public|owner"),
            ("\\du", "lab"),
            ("\\l", "hushql|owner|UTF8"),
            ("\\dT", ""),
            ("\\df", ""),
            ("\\di", ""),
            ("\\dv", ""),
            ("\\dp", "people"),
            ("\\dx", ""),
        ]:
            out, _ = ask(command)
            assert expected in out, (command, out)
    with served.costs(1):
        out, _ = ask(f"COPY ({COUNT}) TO STDOUT (FORMAT csv, HEADER)")
        assert out.splitlines() == ["n", "4"], out


@client()
def psql_password(served):
    if not shutil.which("psql"):
        return print("skipped: psql is not installed")
    tls = {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": str(served.certificate)}
    own = {"PGUSER": "own", "PGDATABASE": DATABASE, "PGHOST": "127.0.0.1", "PGPORT": str(served.port)}

    def ask(password, command, typed=""):
        # Without a terminal, psql reads what it asks for from standard input.
        return subprocess.run(
            ["psql", "-X", "-A", "-t", "-c", command],
            env={**os.environ, **own, **tls, "PGPASSWORD": password},
            capture_output=True,
            text=True,
            input=typed,
            start_new_session=True,
        )

    with served.costs(0):
        refused = ask(PASSWORD, "\\password lab", "another horse\nanother horse\n")
        assert "only the owner" in refused.stderr, refused
        changed = ask(PASSWORD, "\\password", "another horse\nanother horse\n")
        assert changed.returncode == 0 and "ERROR" not in changed.stderr, changed
        before = ask(PASSWORD, "SELECT 1")
        assert before.returncode == 2 and "the log-in failed" in before.stderr, before
        after = ask("another horse", "SELECT 1")
        assert after.stdout.strip() == "1", after


def cursors(connection, served):
    """What clients with the interface of Python's PEP 249 do."""
    cursor = connection.cursor()
    with served.costs(1):
        cursor.execute(COUNT)
        assert cursor.description[0][0] == "n"
        assert [tuple(row) for row in cursor.fetchall()] == [(4,)]
    with served.costs(1):
        cursor.execute(COUNT + " WHERE age > %s", (20,))
        assert [tuple(row) for row in cursor.fetchall()] == [(4,)]
    with served.costs(1):
        cursor.execute(COUNT + " WHERE city = %s AND age < %s", ("Rome", 60))
        assert [tuple(row) for row in cursor.fetchall()] == [(2,)]
    with served.costs(0):
        raises("42P01", lambda: cursor.execute("SELECT LAPLACE(eps=1) COUNT(*) FROM nobody"))
        connection.rollback()
        raises("42601", lambda: cursor.execute("SELEC 1"))
        connection.rollback()
        raises("HQ001", lambda: cursor.execute("SELECT * FROM people"))
        connection.rollback()
        cursor.execute("SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r' ORDER BY 1")
        assert [tuple(row) for row in cursor.fetchall()] == [("people",)]


@client("psycopg2")
def psycopg2(served):
    import psycopg2

    connection = psycopg2.connect(**served.settings(), **({"channel_binding": "require"} if served.certificate else {}))
    cursors(connection, served)
    assert any("cost ε = 100" in notice for notice in connection.notices), connection.notices
    raised = raises("HQ001", lambda: connection.cursor().execute("SELECT age FROM people"))
    assert raised.diag.message_hint, "a refusal says what to write instead"
    connection.rollback()
    with served.costs(1):
        paged = connection.cursor("paged")
        paged.execute(COUNT.replace("SELECT", "SELECT city,") + " GROUP BY city ORDER BY city")
        assert paged.fetchone() == ("Oslo", 1) and paged.fetchone() == ("Rome", 2)
        connection.commit()
    with served.costs(1):
        import io

        out = io.StringIO()
        connection.cursor().copy_expert(f"COPY ({COUNT}) TO STDOUT", out)
        assert out.getvalue() == "4\n", out.getvalue()
    connection.close()


@client("psycopg")
def psycopg(served):
    import psycopg
    from psycopg.types import TypeInfo

    connection = psycopg.connect(**served.settings())
    notices = []
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    cursors(connection, served)
    assert any("cost ε = 100" in notice for notice in notices), notices
    with served.costs(1):
        rows = connection.execute(COUNT + " WHERE age > %b", (40,), binary=True).fetchall()
        assert rows == [(3,)], rows
    with served.costs(0):
        assert TypeInfo.fetch(connection, "int8").oid == 20
        assert TypeInfo.fetch(connection, "mood") is None
    with served.costs(1), connection.cursor().copy(f"COPY ({COUNT}) TO STDOUT (FORMAT binary)") as copy:
        copy.set_types(["int8"])
        assert list(copy.rows()) == [(4,)]
    with served.costs(1):
        with psycopg.ServerCursor(connection, "paged") as paged:
            paged.execute(COUNT)
            assert paged.fetchmany(5) == [(4,)]
    with served.costs(1):
        prepared = connection.execute(COUNT + " WHERE age < %s", (50,), prepare=True)
        assert prepared.fetchall() == [(2,)]
    connection.close()


@client("asyncpg")
def asyncpg(served):
    import asyncpg

    async def run():
        tls = ssl.create_default_context(cafile=str(served.certificate)) if served.certificate else False
        connection = await asyncpg.connect(
            host="127.0.0.1", port=served.port, user="lab", password=PASSWORD, database=DATABASE, ssl=tls
        )
        said = []
        connection.add_log_listener(lambda _, message: said.append(message.message))
        with served.costs(1):
            assert await connection.fetchval(COUNT) == 4
        with served.costs(0):
            statement = await connection.prepare(COUNT + " WHERE age > $1")
            assert [column.name for column in statement.get_attributes()] == ["n"]
        with served.costs(2):
            assert await statement.fetchval(40) == 3
            assert await statement.fetchval(60) == 1
        with served.costs(0):
            await connection.set_type_codec("json", encoder=str, decoder=str, schema="pg_catalog")
            types = await connection.fetch(asyncpg.introspection.INTRO_LOOKUP_TYPES, [16, 1009])
            assert {row["name"] for row in types} >= {"bool", "_text"}, types
            try:
                await connection.fetch("SELECT * FROM people")
                raise AssertionError("rows")
            except asyncpg.PostgresError as error:
                assert error.sqlstate == "HQ001", error
        with served.costs(1):
            async with connection.transaction():
                rows = [row["n"] async for row in connection.cursor(COUNT)]
                assert rows == [4]
        await asyncio.sleep(0)
        assert any("cost ε = 100" in message for message in said), said
        await connection.reset()
        await connection.close()

    asyncio.run(run())


@client("pg8000")
def pg8000(served):
    import pg8000.dbapi

    tls = ssl.create_default_context(cafile=str(served.certificate)) if served.certificate else None
    connection = pg8000.dbapi.connect(
        host="127.0.0.1", port=served.port, user="lab", password=PASSWORD, database=DATABASE, ssl_context=tls
    )
    cursors(connection, served)
    connection.close()


def inspected(engine, served):
    import sqlalchemy

    with served.costs(0):
        look = sqlalchemy.inspect(engine)
        assert "public" in look.get_schema_names()
        assert look.get_table_names() == ["people"] and look.get_view_names() == []
        columns = {column["name"]: str(column["type"]) for column in look.get_columns("people")}
        assert columns == {"id": "BIGINT", "age": "BIGINT", "city": "TEXT"}, columns
        assert look.has_table("people") and not look.has_table("nobody")
        assert look.get_pk_constraint("people")["constrained_columns"] == []
        for method in ["get_foreign_keys", "get_indexes", "get_unique_constraints", "get_check_constraints"]:
            assert getattr(look, method)("people") == [], method
        assert look.get_table_comment("people") == {"text": None}
        assert look.get_table_options("people") == {}
        assert look.get_sequence_names() == [] and look.get_materialized_view_names() == []
        assert look.get_enums() == [] and look.get_domains() == []
        tables = sqlalchemy.MetaData()
        tables.reflect(engine)
        assert list(tables.tables) == ["people"]


@client("sqlalchemy", "psycopg2")
def sqlalchemy_psycopg2(served):
    import sqlalchemy

    engine = sqlalchemy.create_engine(served.url("postgresql+psycopg2"), connect_args=served.settings())
    inspected(engine, served)
    with served.costs(1), engine.connect() as connection:
        asked = sqlalchemy.text(COUNT + " WHERE age > :age")
        assert connection.execute(asked, {"age": 40}).scalar() == 3


@client("sqlalchemy", "psycopg")
def sqlalchemy_psycopg(served):
    import sqlalchemy

    settings = served.settings()
    engine = sqlalchemy.create_engine(served.url("postgresql+psycopg"), connect_args=settings)
    inspected(engine, served)


@client("sqlalchemy", "pg8000")
def sqlalchemy_pg8000(served):
    import sqlalchemy

    tls = ssl.create_default_context(cafile=str(served.certificate)) if served.certificate else None
    engine = sqlalchemy.create_engine(served.url("postgresql+pg8000"), connect_args={"ssl_context": tls})
    inspected(engine, served)


@client("sqlalchemy", "pandas", "psycopg2")
def pandas(served):
    import pandas
    import sqlalchemy

    engine = sqlalchemy.create_engine(served.url("postgresql+psycopg2"), connect_args=served.settings())
    with served.costs(1):
        frame = pandas.read_sql(COUNT, engine)
        assert frame["n"].tolist() == [4]
    with served.costs(0):
        # The whole table is refused, at no cost.
        try:
            pandas.read_sql_table("people", engine)
            raise AssertionError("rows")
        except (sqlalchemy.exc.DBAPIError, pandas.errors.DatabaseError) as error:
            assert "HQ001" in str(error), error


@client("polars", "connectorx", "pyarrow")
def polars_connectorx(served):
    import polars

    with served.costs(1):
        tls = {"sslmode": "require", "sslrootcert": str(served.certificate)} if served.certificate else {}
        frame = polars.read_database_uri(COUNT, served.url(**tls), engine="connectorx")
        assert frame["n"].to_list() == [4], frame


@client("polars", "adbc_driver_postgresql", "pyarrow")
def polars_adbc(served):
    import polars

    with served.costs(1):
        frame = polars.read_database_uri(COUNT, served.url(), engine="adbc")
        assert frame["n"].to_list() == [4], frame


@client("adbc_driver_postgresql", "pyarrow")
def adbc(served):
    import adbc_driver_postgresql.dbapi as adbc

    with adbc.connect(served.url()) as connection, connection.cursor() as cursor:
        with served.costs(1):
            cursor.execute(COUNT)
            assert cursor.fetch_arrow_table().to_pydict() == {"n": [4]}
        with served.costs(1):
            cursor.execute(COUNT + " WHERE age > $1", (40,))
            assert cursor.fetch_arrow_table().to_pydict() == {"n": [3]}
        with served.costs(0):
            objects = connection.adbc_get_objects(depth="all").read_all().to_pylist()
            schemas = next(known["catalog_db_schemas"] for known in objects if known["catalog_name"] == DATABASE)
            tables = next(known["db_schema_tables"] for known in schemas if known["db_schema_name"] == "public")
            assert [table["table_name"] for table in tables] == ["people"], tables
            names = [column["column_name"] for column in tables[0]["table_columns"]]
            assert names == ["id", "age", "city"], names
            assert connection.adbc_get_table_schema("people").names == names


@client()
def jdbc(served):
    jar = Path("/usr/share/java/postgresql.jar")
    jar = Path(os.environ.get("HUSHQL_JDBC_JAR", jar))
    if not shutil.which("java") or not shutil.which("javac"):
        return print("skipped: JDBC: java and javac are not installed")
    if not jar.exists():
        return print(f"skipped: JDBC: there is no {jar} (Debian: libpostgresql-jdbc-java; or set HUSHQL_JDBC_JAR)")
    tls = f"?sslmode=verify-full&sslrootcert={served.certificate}" if served.certificate else ""
    url = f"jdbc:postgresql://127.0.0.1:{served.port}/{DATABASE}{tls}"
    source = Path(__file__).with_name("Jdbc.java")
    with served.costs(2):
        run = subprocess.run(
            ["java", "-cp", jar, source, url, PASSWORD, COUNT], capture_output=True, text=True
        )
        assert run.returncode == 0, run.stdout + run.stderr


def late(*_):
    raise TimeoutError(f"no answer within {MOST_SECONDS} s")


def main() -> int:
    signal.signal(signal.SIGALRM, late)
    served, failed = Served(Path(sys.argv[1])), []
    # What the server says is not read any more; a full pipe must not stop it.
    threading.Thread(target=lambda: [None for _ in served.process.stderr], daemon=True).start()
    try:
        for name, modules, check in CHECKS:
            if sys.argv[2:] and name not in sys.argv[2:]:
                continue
            missing = [module for module in modules if importlib.util.find_spec(module) is None]
            if missing:
                print(f"skipped: {name}: {', '.join(missing)} is not installed")
                continue
            # A client that waits for ever fails, and the next one has its turn.
            signal.alarm(MOST_SECONDS)
            try:
                check(served)
                print(f"ok: {name}")
            except Exception:
                failed.append(name)
                print(f"FAILED: {name}\n{traceback.format_exc()}")
            finally:
                signal.alarm(0)
    finally:
        served.stop()
    if failed:
        print(f"clients that failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
