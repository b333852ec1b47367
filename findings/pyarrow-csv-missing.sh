#!/bin/sh
# pyarrow writes NaN into CSV as nan and NULL as an empty cell, and reads both back as NULL. In a table of one column
# NULL is an empty line, which reading leaves out: the row is gone.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check pyarrow==26.0.1
env/bin/python - <<'END'
import sys

import pyarrow
import pyarrow.csv as csv

print(f"pyarrow {pyarrow.__version__}")


def through_csv(table):
    csv.write_csv(table, "rows.csv")
    print(open("rows.csv").read())
    return csv.read_csv("rows.csv")["x"].to_pylist()


rows = [float("nan"), None, 1.0]
one = through_csv(pyarrow.table({"x": rows}))
two = through_csv(pyarrow.table({"id": [1, 2, 3], "x": rows}))
found = (one, two)
recorded = ([None, 1], [None, None, 1])
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
