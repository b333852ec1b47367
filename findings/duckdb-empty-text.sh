#!/bin/sh
# DuckDB writes an empty text into CSV in quotes, so that it is told from NULL, and reads both back as NULL.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check duckdb==2.0.1
env/bin/python - <<'END'
import sys

import duckdb

print(f"duckdb {duckdb.__version__}")
rows = "SELECT * FROM (VALUES (1, ''), (2, NULL), (3, 'x')) AS t(id, text)"
duckdb.sql(f"COPY ({rows}) TO 'rows.csv'")
print(open("rows.csv").read())
found = duckdb.sql("SELECT id, text FROM 'rows.csv' ORDER BY id").fetchall()
recorded = [(1, None), (2, None), (3, "x")]
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
