#!/bin/sh
# fastparquet writes durations as times of the day, whatever their length and sign. Readers see 36 hours as a time that no
# day has: pyarrow shows it as noon.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check fastparquet==2026.9.0 pandas==3.1.1 pyarrow==26.0.1
env/bin/python - <<'END'
import sys

import fastparquet
import pandas
import pyarrow
import pyarrow.parquet as parquet

print(f"fastparquet {fastparquet.__version__}, pandas {pandas.__version__}, pyarrow {pyarrow.__version__}")
stays = pandas.DataFrame({"stay": pandas.to_timedelta(["2 hours", "36 hours"])})
fastparquet.write("rows.parquet", stays)
stay = parquet.read_table("rows.parquet")["stay"]
found = (str(stay.type), [str(one) for one in stay.to_pylist()])
recorded = ("time64[us]", ["02:00:00", "12:00:00"])
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
