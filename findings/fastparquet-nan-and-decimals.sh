#!/bin/sh
# fastparquet writes NaN as NULL and decimals as doubles. COUNT(x) of a column and the type of amounts change on
# the way through a file, without a word.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check fastparquet==2026.9.0 pandas==3.1.1 pyarrow==26.0.1
env/bin/python - <<'END'
import sys
from decimal import Decimal

import fastparquet
import pandas
import pyarrow.parquet as parquet

print(f"fastparquet {fastparquet.__version__}, pandas {pandas.__version__}")
frame = pandas.DataFrame({"x": [float("nan"), 1.0], "fee": [Decimal("1.10"), Decimal("2.20")]})
fastparquet.write("rows.parquet", frame)
read = parquet.read_table("rows.parquet")
found = (read["x"].null_count, str(read.schema.field("fee").type))
recorded = (1, "double")
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
