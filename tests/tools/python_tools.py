"""Libraries of Python: SQLAlchemy, pandas, Django, asyncpg, Ibis, Polars, connectorx, ADBC, and pyodbc with psqlODBC."""

import io

from report import DATABASE, HOST, MORE, PASSWORD, PORT, QUESTION, USER, expect, step, version

URL = f"postgresql://{USER}:{PASSWORD.replace(' ', '%20')}@{HOST}:{PORT}/{DATABASE}"
OWN = {"host": HOST, "port": int(PORT), "user": USER, "password": PASSWORD}
COLUMNS = ["id", "age", "city", "day", "seen", "wage", "ok"]


def sqlalchemy():
    import sqlalchemy as sa

    version(sa.__version__)
    for driver in ("psycopg2", "psycopg", "pg8000"):
        engine = sa.create_engine(URL.replace("postgresql:", f"postgresql+{driver}:"))
        found = sa.inspect(engine)
        names = [
            ("schemas", found.get_schema_names),
            ("tables", lambda: expect("people" in found.get_table_names(), "no table people")),
            ("views", lambda: expect("adults" in found.get_view_names(), "no view adults")),
            ("materialized views", found.get_materialized_view_names),
            ("columns", lambda: expect([c["name"] for c in found.get_columns("people")] == COLUMNS, "other columns")),
            ("primary key", lambda: found.get_pk_constraint("people")),
            ("foreign keys", lambda: found.get_foreign_keys("people")),
            ("indexes", lambda: found.get_indexes("people")),
            ("constraints", lambda: (found.get_unique_constraints("people"), found.get_check_constraints("people"))),
            ("comments", lambda: found.get_table_comment("people")),
            ("enums", lambda: (found.get_enums(), found.get_domains())),
            ("sequences", found.get_sequence_names),
            ("all columns", found.get_multi_columns),
            ("reflection", lambda: sa.MetaData().reflect(engine, views=True)),
        ]
        for name, run in names:
            step(f"{driver}: {name}", run)

        def question():
            with engine.connect() as connection:
                expect(connection.execute(sa.text(QUESTION)).scalar() == 200, "not 200 people")
                text = sa.text(f"{QUESTION} WHERE age > :age")
                return connection.execute(text, {"age": 30}).scalar()

        step(f"{driver}: question", question)


def pandas():
    import pandas as pd
    import sqlalchemy as sa

    version(pd.__version__)
    engine = sa.create_engine(URL.replace("postgresql:", "postgresql+psycopg2:"))
    step("question", lambda: expect(pd.read_sql_query(QUESTION, engine).iloc[0, 0] == 200, "not 200 people"))
    step("catalog", lambda: pd.read_sql_query("SELECT oid, relname, reltuples FROM pg_class", engine))
    step("table", lambda: pd.read_sql_table("people", engine))


def django():
    import django
    from django.conf import settings
    from django.core.management import call_command

    version(django.get_version())
    database = {"ENGINE": "django.db.backends.postgresql", "HOST": HOST, "PORT": PORT, "USER": USER, "PASSWORD": PASSWORD, "NAME": DATABASE}
    settings.configure(DATABASES={"default": database}, INSTALLED_APPS=[])
    django.setup()
    from django.db import connection

    def models():
        out = io.StringIO()
        call_command("inspectdb", stdout=out, include_views=True)
        expect("class People" in out.getvalue() and "class Adults" in out.getvalue(), "no models")

    def constraints():
        with connection.cursor() as cursor:
            for table in connection.introspection.get_table_list(cursor):
                connection.introspection.get_constraints(cursor, table.name)
                connection.introspection.get_sequences(cursor, table.name)

    def question():
        with connection.cursor() as cursor:
            cursor.execute(QUESTION)
            expect(cursor.fetchone()[0] == 200, "not 200 people")

    step("inspectdb", models)
    step("constraints", constraints)
    step("check", lambda: call_command("check", database=["default"], stdout=io.StringIO()))
    step("question", question)


def asyncpg():
    import asyncio

    import asyncpg as driver

    version(driver.__version__)

    async def asked(*questions):
        connection = await driver.connect(**OWN, database=DATABASE)
        try:
            return [await connection.fetch(*question) for question in questions]
        finally:
            await connection.reset()
            await connection.close()

    step("question", lambda: asyncio.run(asked((QUESTION,))))
    step("parameter", lambda: asyncio.run(asked((f"{QUESTION} WHERE age > $1", 30))))
    step("catalog", lambda: asyncio.run(asked(("SELECT oid, relname, relkind, relacl FROM pg_class WHERE relname = $1", "people"))))
    step("arrays", lambda: asyncio.run(asked(("SELECT array_agg(attname ORDER BY attnum) AS names FROM pg_attribute WHERE attrelid = 'people'::regclass",))))


def ibis():
    import ibis as library

    version(library.__version__)
    connection = step("connect", lambda: library.postgres.connect(**OWN, database=DATABASE))
    if connection is None:
        return
    step("tables", lambda: expect("people" in connection.list_tables(), "no table people"))
    step("databases", lambda: (connection.list_databases(), connection.list_catalogs()))
    step("schema", lambda: expect(list(connection.table("people").schema()) == COLUMNS, "other columns"))
    step("question", lambda: connection.raw_sql(QUESTION).fetchall())
    step("count", lambda: connection.table("people").count().execute())


def polars():
    import polars as pl
    import sqlalchemy as sa

    version(pl.__version__)
    engine = sa.create_engine(URL.replace("postgresql:", "postgresql+psycopg2:"))
    step("question", lambda: expect(pl.read_database(QUESTION, engine)["n"][0] == 200, "not 200 people"))
    step("catalog", lambda: pl.read_database("SELECT oid, relname, relnatts FROM pg_class", engine))
    for reader in ("connectorx", "adbc"):
        step(f"question, {reader}", lambda: expect(pl.read_database_uri(QUESTION, URL, engine=reader)["n"][0] == 200, "not 200 people"))
    step("table", lambda: pl.read_database_uri("SELECT * FROM people", URL, engine="adbc"))


def connectorx():
    import connectorx as cx

    version(cx.__version__)
    for protocol in ("binary", "csv", "cursor"):
        step(f"question, {protocol}", lambda: expect(cx.read_sql(URL, QUESTION, return_type="arrow", protocol=protocol).column(0)[0].as_py() == 200, "not 200 people"))
    step("catalog", lambda: cx.read_sql(URL, "SELECT relname::text AS name, relnatts FROM pg_class", return_type="arrow"))
    step("table", lambda: cx.read_sql(URL, "SELECT * FROM people", return_type="arrow"))


def adbc():
    from adbc_driver_postgresql import dbapi
    from importlib.metadata import version as installed

    version(installed("adbc-driver-postgresql"))
    connection = step("connect", lambda: dbapi.connect(URL))
    if connection is None:
        return

    def asked(sql, *values):
        with connection.cursor() as cursor:
            cursor.execute(sql, *values)
            return cursor.fetch_arrow_table()

    step("question", lambda: expect(asked(QUESTION).column(0)[0].as_py() == 200, "not 200 people"))
    step("parameter", lambda: asked(f"{QUESTION} WHERE age > $1", (30,)))
    for depth in ("catalogs", "db_schemas", "tables", "all"):
        step(f"objects: {depth}", lambda: connection.adbc_get_objects(depth=depth).read_all())
    step("schema", lambda: expect(connection.adbc_get_table_schema("people").names == COLUMNS, "other columns"))
    step("table types", lambda: connection.adbc_get_table_types())
    step("table", lambda: asked("SELECT * FROM people"))


def odbc():
    import pyodbc

    driver = next((name for name in pyodbc.drivers() if "PostgreSQL Unicode" in name), "PostgreSQL Unicode")
    place = f"SERVER={HOST};PORT={PORT};DATABASE={DATABASE};UID={USER};PWD={PASSWORD}"
    connection = step("connect", lambda: pyodbc.connect(f"DRIVER={{{driver}}};{place};SSLmode=disable"))
    if connection is None:
        return
    version(connection.getinfo(pyodbc.SQL_DRIVER_VER))
    cursor = connection.cursor()
    step("question", lambda: expect(cursor.execute(QUESTION).fetchval() == 200, "not 200 people"))
    step("parameter", lambda: cursor.execute(f"{QUESTION} WHERE age > ? AND city = ?", 30, "Rome").fetchall())
    step("tables", lambda: expect({"people", "adults"} <= {row.table_name for row in cursor.tables(schema="public")}, "no table people"))
    step("columns", lambda: expect(len(cursor.columns(table="people", schema="public").fetchall()) == 7, "other columns"))
    step("keys", lambda: (cursor.primaryKeys("people").fetchall(), cursor.foreignKeys("people").fetchall()))
    step("statistics", lambda: cursor.statistics("people").fetchall())
    step("types", lambda: cursor.getTypeInfo().fetchall())
    step("procedures", lambda: cursor.procedures().fetchall())

    def refused():
        try:
            cursor.execute("SELECT nothing FROM people")
        except pyodbc.Error as error:
            expect(error.args[0] == "42703", error.args[0])

    step("refusal", refused)
    step("preview", lambda: cursor.execute("SELECT * FROM people LIMIT 10").fetchall())


TOOLS = (sqlalchemy, pandas, django, asyncpg, ibis, polars, connectorx, adbc, odbc)
{tool.__name__: tool for tool in TOOLS}[MORE[0]]()
