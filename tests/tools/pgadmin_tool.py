"""pgAdmin 4, as its own web application, without a browser."""

import builtins
import json
import os
import sys
import time
from importlib.metadata import version as installed
from pathlib import Path

from report import DATABASE, HOST, PASSWORD, PORT, QUESTION, USER, expect, step, version

HOME = Path(os.environ["TOOLS_HOME"])
# For one person, with its files below this folder.
os.environ["PGADMIN_SERVER_MODE"] = "OFF"
os.environ["HOME"] = str(HOME)
builtins.SERVER_MODE = False
import pgadmin4  # noqa: E402

FOLDER = Path(list(pgadmin4.__path__)[0])
sys.path.insert(0, str(FOLDER))
os.chdir(FOLDER)
import config  # noqa: E402

config.MASTER_PASSWORD_REQUIRED = False
config.UPGRADE_CHECK_ENABLED = False

import pgAdmin4  # noqa: E402

app = getattr(pgAdmin4.app, "app", pgAdmin4.app)
app.config.update(WTF_CSRF_ENABLED=False, SERVER_MODE=False, PROPAGATE_EXCEPTIONS=False)
app.PGADMIN_INT_KEY = ""
browser = app.test_client()
browser.get("/browser/", follow_redirects=True)

# What a person opens in the tree: the names of nodes, below the server, the database, the schema and a table.
BELOW_SERVER = ["role", "tablespace"]
BELOW_DATABASE = ["cast", "event_trigger", "extension", "foreign_data_wrapper", "language", "publication", "schema", "catalog", "subscription"]
BELOW_SCHEMA = ["table", "view", "mview", "function", "procedure", "sequence", "type", "domain", "collation", "operator", "aggregate",
                "fts_configuration", "fts_dictionary", "fts_parser", "fts_template", "foreign_table", "trigger_function"]
BELOW_TABLE = ["column", "index", "trigger", "rule", "row_security_policy", "unique_constraint", "primary_key"]
TABS = ["obj", "sql", "stats", "dependency", "dependent"]


def ask(method, path, **more):
    answer = getattr(browser, method)(path, **more)
    try:
        body = json.loads(answer.data)
    except ValueError:
        body = {"errormsg": f"{answer.status_code} of {path}"}
    if not isinstance(body, dict):
        body = {"data": body}
    if answer.status_code >= 400 or body.get("success") == 0:
        raise AssertionError(f"{path}: {body.get('errormsg') or body.get('info') or body.get('result') or body}")
    return body


def nodes(kind, *place):
    return ask("get", f"/browser/{kind}/nodes/1/{'/'.join(str(number) for number in place)}/").get("data") or []


def known(rule):
    return any(found.rule.startswith(rule) for found in app.url_map.iter_rules())


def query(number, sql):
    ask("post", f"/sqleditor/query_tool/start/{number}", json={"sql": sql, "explain_plan": None})
    for _ in range(100):
        body = ask("get", f"/sqleditor/poll/{number}")
        data = body.get("data") or {}
        if data.get("status") != "Busy":
            expect(data.get("status") == "Success", str(data.get("result")))
            return data["result"]
        time.sleep(0.1)
    raise AssertionError("no answer")


def main():
    version(installed("pgadmin4"))
    server = {
        "name": "study", "host": HOST, "port": int(PORT), "db": DATABASE, "username": USER, "role": "", "password": PASSWORD,
        "save_password": 0, "connect_now": False, "sslmode": "prefer",
        "connection_params": [{"name": "sslmode", "value": "prefer", "keyword": "sslmode"}],
    }
    sid = ask("post", "/browser/server/obj/1/", json=server)["node"]["_id"]
    step("connect", lambda: ask("post", f"/browser/server/connect/1/{sid}", data={"password": PASSWORD}))
    databases = step("databases", lambda: {node["label"]: node["_id"] for node in nodes("database", sid)}) or {}
    did = databases.get(DATABASE)
    step("database", lambda: ask("post", f"/browser/database/connect/1/{sid}/{did}"))
    schemas = step("schemas", lambda: {node["label"]: node["_id"] for node in nodes("schema", sid, did)}) or {}
    scid = schemas.get("public")
    tables = step("tables", lambda: {node["label"]: node["_id"] for node in nodes("table", sid, did, scid)}) or {}
    tid = tables.get("people")
    step("columns", lambda: expect(len(nodes("column", sid, did, scid, tid)) == 7, "other columns"))
    for kinds, place in ((BELOW_SERVER, (sid,)), (BELOW_DATABASE, (sid, did)), (BELOW_SCHEMA, (sid, did, scid)), (BELOW_TABLE, (sid, did, scid, tid))):
        for kind in kinds:
            if known(f"/browser/{kind}/nodes/"):
                step(f"tree: {kind}", lambda: nodes(kind, *place))
    for kind, place in (("server", (sid,)), ("database", (sid, did)), ("schema", (sid, did, scid)), ("table", (sid, did, scid, tid))):
        for tab in TABS:
            if (kind, tab) == ("schema", "stats"):
                continue
            step(f"{kind}: {tab}", lambda: ask("get", f"/browser/{kind}/{tab}/1/{'/'.join(str(number) for number in place)}"))
    for page in ("activity", "locks", "prepared"):
        step(f"dashboard: {page}", lambda: ask("get", f"/dashboard/{page}/{sid}/{did}"))
    own = {"user": USER, "password": PASSWORD, "role": None, "dbname": DATABASE}
    step("query tool", lambda: ask("post", f"/sqleditor/initialize/sqleditor/4711/1/{sid}/{did}", json=own))
    step("question", lambda: expect(str(query(4711, QUESTION)[0][0]) == "200", "not 200 people"))

    def preview():
        ask("post", f"/sqleditor/initialize/viewdata/4712/3/table/1/{sid}/{did}/{tid}", json={**own, "sql_filter": ""})
        ask("get", "/sqleditor/view_data/start/4712")
        body = ask("get", "/sqleditor/poll/4712")
        expect((body.get("data") or {}).get("status") == "Success", str((body.get("data") or {}).get("result")))

    step("preview", preview)


main()
os._exit(0)
