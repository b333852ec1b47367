#!/bin/sh
# The bounds that deltalake writes into a table's log for each file are not bounds of its values: of a moment they keep the
# milliseconds, of a decimal the nearest double. The largest value of a file may exceed its noted maximum, so whoever skips
# files by these bounds, or answers MAX from them, loses rows.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check deltalake==1.6.6 pyarrow==26.0.1
env/bin/python - <<'END'
import datetime
import json
import pathlib
import sys
from decimal import Decimal
from importlib.metadata import version

import deltalake
import pyarrow

print(f"deltalake {version('deltalake')}, pyarrow {pyarrow.__version__}")
moment = datetime.datetime(2024, 1, 1, 0, 0, 0, 999)
fee = Decimal("12345678901234567890.12")
columns = {
    "moment": pyarrow.array([moment], pyarrow.timestamp("us", "UTC")),
    "fee": pyarrow.array([fee], pyarrow.decimal128(38, 2)),
}
deltalake.write_deltalake("table", pyarrow.table(columns))
log = pathlib.Path("table/_delta_log/00000000000000000000.json").read_text().splitlines()
added = next(action["add"] for action in map(json.loads, log) if "add" in action)
most = json.loads(added["stats"], parse_float=str)["maxValues"]
print(most)
found = (most["moment"], Decimal(most["fee"]) < fee)
recorded = ("2024-01-01T00:00:00.000Z", True)
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
