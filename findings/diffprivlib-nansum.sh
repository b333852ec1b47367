#!/bin/sh
# diffprivlib's nansum leaves NaN out of the sum, and counts it in the range of what may come out: with values
# from 4 to 6, the sum of 5 and NaN is at least 8.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check diffprivlib==0.6.5 numpy==1.26.4 scikit-learn==1.4.2
env/bin/python - <<'END'
import sys
import warnings

import diffprivlib
import numpy

warnings.simplefilter("ignore")
print(f"diffprivlib {diffprivlib.__version__}")
values = numpy.array([5.0, numpy.nan])
found = float(diffprivlib.tools.nansum(values, epsilon=1e9, bounds=(4, 6), random_state=1))
print(f"nansum of {values} with bounds (4, 6), almost without noise")
recorded = 8.0
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
