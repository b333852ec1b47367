#!/bin/sh
# DataFusion's EXCEPT ALL and INTERSECT ALL do not count rows: three rows without one are none, and three rows
# that have two in common are three. SQL's answers are two rows each.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check datafusion==55.0.0
env/bin/python - <<'END'
import sys

import datafusion

print(f"datafusion {datafusion.__version__}")
rows = "SELECT x FROM (VALUES (1), (1), (1)) AS t(x)"
found = []
for other in ("EXCEPT ALL SELECT 1", "INTERSECT ALL SELECT x FROM (VALUES (1), (1)) AS u(x)"):
    sql = f"{rows} {other}"
    print(sql)
    found.append(datafusion.SessionContext().sql(sql).count())
recorded = [0, 3]
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
