#!/bin/sh
# DuckDB casts a double to a decimal by multiplying it first, and rounds the rounded product. 2.675 is less than
# 2.675 as a double and comes out as 2.68, while 1.005, which is less than 1.005 as well, comes out as 1.00.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check duckdb==2.0.1
env/bin/python - <<'END'
import sys
from decimal import Decimal

import duckdb

print(f"duckdb {duckdb.__version__}")
for double in (2.675, 1.005):
    print(f"{double} is {Decimal(double)}")
sql = "SELECT 2.675::DOUBLE::DECIMAL(5, 2)::TEXT, 1.005::DOUBLE::DECIMAL(5, 2)::TEXT"
print(sql)
found = duckdb.sql(sql).fetchall()[0]
recorded = ("2.68", "1.00")
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
