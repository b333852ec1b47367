"""Superset: what its server does with a database, a data set and charts."""

import datetime
import os
from importlib.metadata import version as installed
from pathlib import Path

from report import DATABASE, HOST, PASSWORD, PORT, QUESTION, USER, expect, step, version

HOME = Path(os.environ["TOOLS_HOME"])
(HOME / "superset_config.py").write_text(f"""
SECRET_KEY = "{'x' * 40}"
SQLALCHEMY_DATABASE_URI = "sqlite:///{HOME}/superset.db"
FILTER_STATE_CACHE_CONFIG = {{"CACHE_TYPE": "SimpleCache"}}
EXPLORE_FORM_DATA_CACHE_CONFIG = {{"CACHE_TYPE": "SimpleCache"}}
""")
os.environ["SUPERSET_CONFIG_PATH"] = str(HOME / "superset_config.py")
os.environ["SUPERSET_HOME"] = str(HOME)
from superset.app import create_app  # noqa: E402

URL = f"postgresql+psycopg2://{USER}:{PASSWORD.replace(' ', '%20')}@{HOST}:{PORT}/{DATABASE}"
COUNT = {"expressionType": "SQL", "sqlExpression": "COUNT(*)", "label": "count"}
SINCE, UNTIL = datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 8)


def main():
    from flask_appbuilder import Model
    from superset import db, security_manager
    from superset.connectors.sqla.models import SqlaTable
    from superset.models.core import Database
    from superset.sql.parse import Table

    version(installed("apache-superset"))
    Model.metadata.create_all(db.engine)
    from flask import g

    g.user = security_manager.get_anonymous_user()
    database = Database(database_name="study", sqlalchemy_uri=URL)
    database.set_sqlalchemy_uri(URL)
    db.session.add(database)
    db.session.commit()
    people = Table("people", "public")
    step("schemas", lambda: expect("public" in database.get_all_schema_names(catalog=None), "no schema public"))
    step("tables", lambda: expect(any(t[0] == "people" for t in database.get_all_table_names_in_schema(None, "public")), "no table people"))
    step("views", lambda: database.get_all_view_names_in_schema(None, "public"))
    step("columns", lambda: expect(len(database.get_columns(people)) == 7, "other columns"))
    step("keys", lambda: (database.get_pk_constraint(people), database.get_foreign_keys(people), database.get_indexes(people)))
    step("comment", lambda: database.get_table_comment(people))
    step("functions", lambda: database.function_names)
    table = SqlaTable(table_name="people", schema="public", database=database)
    db.session.add(table)
    step("data set", table.fetch_metadata)
    db.session.commit()
    usual = {
        "granularity": "seen", "from_dttm": None, "to_dttm": None, "is_timeseries": False, "filter": [], "groupby": None, "metrics": [COUNT],
        "row_limit": 1000, "extras": {}, "columns": [], "inner_from_dttm": None, "inner_to_dttm": None,
    }

    def chart(**more):
        answer = table.query({**usual, **more})
        expect(not answer.error_message, answer.error_message)

    step("big number", chart)
    step("table chart", lambda: chart(columns=["city"]))
    step("time range", lambda: chart(columns=["city"], from_dttm=SINCE, to_dttm=UNTIL))
    for grain in ("PT1H", "P1D", "P1W", "P1M", "P1Y"):
        step(f"time grain {grain}", lambda: chart(is_timeseries=True, extras={"time_grain_sqla": grain}, from_dttm=SINCE, to_dttm=UNTIL))
    series = {"columns": ["city"], "series_columns": ["city"], "series_limit": 2, "is_timeseries": True, "extras": {"time_grain_sqla": "P1M"}}
    step("series limit", lambda: chart(**series, from_dttm=SINCE, to_dttm=UNTIL, inner_from_dttm=SINCE, inner_to_dttm=UNTIL))
    step("filter values", lambda: table.values_for_column("city", limit=100))
    step("SQL Lab", lambda: expect(database.get_df(QUESTION).iloc[0, 0] == 200, "not 200 people"))
    step("preview", lambda: database.get_df("SELECT * FROM public.people LIMIT 10"))


app = create_app()
with app.test_request_context():
    main()
os._exit(0)
