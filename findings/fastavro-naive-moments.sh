#!/bin/sh
# fastavro takes a datetime without a zone for one of the machine's zone, where pyarrow and Polars take it as it is. The same
# program writes another moment in New York than in London, and reading returns it in UTC.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check fastavro==1.13.1
cat > write.py <<'END'
import datetime
import io

import fastavro

moment = {"type": "long", "logicalType": "timestamp-micros"}
schema = {"type": "record", "name": "row", "fields": [{"name": "moment", "type": moment}]}
file = io.BytesIO()
fastavro.writer(file, schema, [{"moment": datetime.datetime(2024, 1, 1, 12)}])
file.seek(0)
print(next(fastavro.reader(file))["moment"])
END
env/bin/python -c 'import fastavro; print(f"fastavro {fastavro.__version__}")'
found="$(TZ=UTC0 env/bin/python write.py), $(TZ=EST5 env/bin/python write.py)"
recorded="2024-01-01 12:00:00+00:00, 2024-01-01 17:00:00+00:00"
echo "found    $found"
echo "recorded $recorded"
[ "$found" = "$recorded" ]
