#!/bin/sh
# dask turns every column of Python objects into texts when it takes a frame of pandas: decimals, dates, and booleans of which
# one is missing, are texts in its Parquet files, where pandas itself writes decimals, dates and booleans.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check 'dask[dataframe]==2026.8.0' pandas==3.1.1 pyarrow==26.0.1
env/bin/python - <<'END'
import datetime
import sys
from decimal import Decimal

import dask
import dask.dataframe
import pandas
import pyarrow.parquet as parquet

print(f"dask {dask.__version__}, pandas {pandas.__version__}")
columns = {
    "fee": [Decimal("1.10"), Decimal("2.20")],
    "born": [datetime.date(1950, 1, 31), datetime.date(2024, 2, 29)],
    "smokes": [True, None],
}
people = pandas.DataFrame(columns)
people.to_parquet("pandas.parquet")
dask.dataframe.from_pandas(people, npartitions=1).to_parquet("dask", write_index=False)
types = lambda path: [str(type) for type in parquet.read_table(path).schema.types]
found = (types("pandas.parquet"), types("dask"))
recorded = (["decimal128(3, 2)", "date32[day]", "bool"], ["large_string"] * 3)
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
