#!/bin/sh
# DuckDB's sums of BIGINT are whole numbers of 128 bits, for which Parquet has no type. COPY writes them as doubles, without a
# word: a sum beyond 2^53 is another number in the file.
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
sums = "SELECT sum(x) AS total FROM (VALUES (9007199254740993::BIGINT), (0)) AS t(x)"
duckdb.sql(f"COPY ({sums}) TO 'sums.parquet'")
ask = lambda rows: duckdb.sql(f"SELECT typeof(total), total::HUGEINT FROM {rows}").fetchall()[0]
found = (ask(f"({sums})"), ask("'sums.parquet'"))
recorded = (("HUGEINT", 9007199254740993), ("DOUBLE", 9007199254740992))
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
