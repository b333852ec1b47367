#!/bin/sh
# DuckDB holds NaN to be greater than every number. Of a Parquet file whose writer leaves NaN out of the bounds
# of a column, as most do, it skips the rows with NaN: the same condition on the same rows finds one row in a
# table and none in the file.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1
env/bin/python - <<'END'
import sys

import duckdb
import pyarrow
import pyarrow.parquet as parquet

rows = pyarrow.table({"x": [float("nan"), 1.0, 2.0]})
parquet.write_table(rows, "rows.parquet")
print(f"duckdb {duckdb.__version__}, pyarrow {pyarrow.__version__}")
bounds = parquet.read_metadata("rows.parquet").row_group(0).column(0).statistics
print(f"bounds in the file: {bounds.min} to {bounds.max}")
count = "SELECT count(*) FROM {} WHERE x > 5"
found = [duckdb.sql(count.format(of)).fetchall()[0][0] for of in ("rows", "'rows.parquet'")]
recorded = [1, 0]
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
