#!/bin/sh
# A Delta table that is partitioned by a text holds its empty texts as NULL: in the log, an empty value of a partition
# means NULL. Rows without a ward and rows with the ward "" are one group when they are read.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check deltalake==1.6.6 pyarrow==26.0.1
env/bin/python - <<'END'
import sys
from importlib.metadata import version

import deltalake
import pyarrow

print(f"deltalake {version('deltalake')}, pyarrow {pyarrow.__version__}")
rows = pyarrow.table({"id": [1, 2, 3], "ward": ["a", "", None]})
deltalake.write_deltalake("plain", rows)
deltalake.write_deltalake("partitioned", rows, partition_by=["ward"])
read = lambda name: deltalake.DeltaTable(name).to_pyarrow_table().sort_by("id")["ward"].to_pylist()
found = (read("plain"), read("partitioned"))
recorded = (["a", "", None], ["a", None, None])
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
