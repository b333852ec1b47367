#!/bin/sh
# In DuckDB, ^ is a power and binds more closely than *. sqlparser, asked for DuckDB's dialect, reads it as an
# exclusive or that binds less closely: 2 ^ 3 * 2 is 16 there, and 2 ^ (3 * 2) here.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check sqloxide==0.61.1 duckdb==2.0.1
env/bin/python - <<'END'
import sys
from importlib.metadata import version

import duckdb
import sqloxide

sql = "SELECT 2 ^ 3 * 2"
print(f"sqloxide {version('sqloxide')}, the sqlparser of this version; duckdb {duckdb.__version__}: {sql}")
[statement] = sqloxide.parse_sql(sql=sql, dialect="duckdb")
[item] = statement["Query"]["body"]["Select"]["projection"]
outer = item["UnnamedExpr"]["BinaryOp"]
found = (outer["op"], outer["right"]["BinaryOp"]["op"], duckdb.sql(sql).fetchall()[0][0])
recorded = ("BitwiseXor", "Multiply", 16.0)
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
