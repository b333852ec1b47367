#!/bin/sh
# pyarrow's mean of a decimal column is rounded to the scale of the column. That of prices with two places is
# off by up to half a cent: 0.01 where it is 0.0133.
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
prices = [Decimal("0.01"), Decimal("0.01"), Decimal("0.02")]
mean = compute.mean(pyarrow.array(prices, pyarrow.decimal128(5, 2))).as_py()
print(f"the mean of {prices} is {sum(prices) / 3:.6f}")
found = str(mean)
recorded = "0.01"
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
