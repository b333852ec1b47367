#!/bin/sh
# fastavro cuts the fraction of a float that stands in a column of whole numbers, without an error: 41.9 is written as 41. In a
# column that may be null, the same value raises, and 41.0 does, too.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check fastavro==1.13.1
env/bin/python - <<'END'
import io
import sys

import fastavro

print(f"fastavro {fastavro.__version__}")


def through_avro(type, age):
    schema = {"type": "record", "name": "row", "fields": [{"name": "age", "type": type}]}
    file = io.BytesIO()
    try:
        fastavro.writer(file, schema, [{"age": age}])
    except ValueError:
        return "ValueError"
    file.seek(0)
    return next(fastavro.reader(file))["age"]


found = [through_avro(type, age) for type in ("long", ["null", "long"]) for age in (41.0, 41.9)]
recorded = [41, 41, "ValueError", "ValueError"]
print(f"found    {found}")
print(f"recorded {recorded}")
sys.exit(found != recorded)
END
