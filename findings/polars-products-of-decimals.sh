#!/bin/sh
# polars multiplies and divides decimals at the scale of its columns: the product of two numbers with two places
# has two places, and a third is 0.33. Databases give a product the sum of both scales.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check polars==2.1.0
env/bin/python - <<'END'
import sys
from decimal import Decimal

import polars

print(f"polars {polars.__version__}")
frame = polars.DataFrame({"x": [Decimal("2.25")], "one": [Decimal("1.00")], "three": [Decimal("3.00")]})
x, one, three = (polars.col(name) for name in frame.columns)
results = frame.select(product=x * x, third=one / three)
print("2.25 * 2.25 and 1.00 / 3.00")
found = [str(value) for value in results.row(0)]
recorded = ["5.06", "0.33"]
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
