#!/bin/sh
# pyarrow adds decimals of 38 digits without looking for an overflow: the sum of two of them has the wrong sign.
# An element-wise addition of the same two is an error.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check pyarrow==26.0.1
env/bin/python - <<'END'
import sys
from decimal import Decimal

import pyarrow
import pyarrow.compute as compute

print(f"pyarrow {pyarrow.__version__}")
nines = pyarrow.array([Decimal("9" * 38)] * 2, pyarrow.decimal128(38, 0))
total = compute.sum(nines).as_py()
print(f"2 * {nines[0]} is {total}")
try:
    added = compute.add(nines, nines)[0].as_py()
except pyarrow.ArrowInvalid as error:
    added = type(error).__name__
found = (total < 0, added)
recorded = (True, "ArrowInvalid")
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
