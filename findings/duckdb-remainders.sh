#!/bin/sh
# DuckDB's % has the sign of what is divided, and fmod, which has the name of C's function with that rule, the
# sign of the divisor. Its // divides integers without their fraction; of decimals it keeps the fraction, and is
# / with another name.
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
sql = "SELECT -7 % 3, fmod(-7, 3), (-7) // 2, ((-7.0) // 2)::DOUBLE"
print(sql)
found = duckdb.sql(sql).fetchall()[0]
recorded = (-1, 2.0, -3, -3.5)
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
