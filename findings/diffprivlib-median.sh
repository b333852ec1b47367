#!/bin/sh
# diffprivlib's median chooses an interval between neighbouring values by its rank and its length. Where many
# values are equal, the interval that holds them has no length: the median of a hundred fifties is anything
# within the bounds, whatever epsilon.
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
fifties = numpy.full(100, 50.0)
draw = lambda seed: diffprivlib.tools.median(fifties, epsilon=10, bounds=(0, 100), random_state=seed)
draws = [draw(seed) for seed in range(200)]
print("of 100 values, all 50, within (0, 100), at epsilon 10:", [round(one, 1) for one in draws[:8]])
near = sum(abs(one - 50) < 5 for one in draws)
print(f"{near} of 200 medians are within 5 of 50")
found = bool(near < 60)
recorded = True
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
