#!/bin/sh
# DuckDB rounds halves in two ways. ROUND, and a cast of a decimal to an integer, round them away from zero. A
# cast of a double rounds them to the even neighbour.
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
sql = "SELECT round(2.5::DOUBLE)::INT, (2.5::DECIMAL(2, 1))::INT, (2.5::DOUBLE)::INT, (3.5::DOUBLE)::INT"
print(sql)
found = duckdb.sql(sql).fetchall()[0]
recorded = (3, 3, 2, 4)
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
