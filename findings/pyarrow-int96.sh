#!/bin/sh
# Parquet's INT96 holds any date, and pyarrow reads it as nanoseconds of 64 bits unless told otherwise. A date
# outside of 1677 to 2262 comes out as another one, without an error: 9999-12-31 as a day of 1816.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check pyarrow==26.0.1 pandas==3.1.1
env/bin/python - <<'END'
import datetime
import sys

import pyarrow
import pyarrow.parquet as parquet

print(f"pyarrow {pyarrow.__version__}")
moments = pyarrow.array([datetime.datetime(9999, 12, 31)], pyarrow.timestamp("us"))
written = pyarrow.table({"until": moments})
parquet.write_table(written, "rows.parquet", use_deprecated_int96_timestamps=True)
read = lambda **how: str(parquet.read_table("rows.parquet", **how)["until"][0])[:10]
found = (read(), read(coerce_int96_timestamp_unit="us"))
recorded = ("1816-03-29", "9999-12-31")
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
