"""What COPY writes, as other programs read it.

    answers.py PROGRAM FOLDER      # with the Python of the libraries

In: the program. Out: a line of JSON for each format and reader: the type that the reader gives each kind of values, with ≈ where the type
that it guesses for a text cannot hold the digits of the file. The run fails if a value of the file is not the one of the table, or if the ±
or the metadata of an answer are missing.
"""

import csv
import datetime
import json
import math
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import duckdb
import libraries
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
from people import KINDS

# Kinds that an answer has; the others are read as one of these.
OUT = [kind for kind in KINDS if kind.type not in ("STRUCT", "LIST", "BYTEA") and kind.name not in ("durations", "UUIDs", "categories")]
FORMATS = ["csv", "json", "parquet", "arrow"]


def by_duckdb(path: Path) -> dict:
    rows = duckdb.read_parquet(str(path)) if path.suffix == ".parquet" else duckdb.read_csv(str(path))
    if path.suffix == ".json":
        rows = duckdb.read_json(str(path))
    return {name: (str(type), [row[at] for row in rows.fetchall()]) for at, (name, type) in enumerate(zip(rows.columns, rows.types))}


def by_pandas(path: Path) -> dict:
    read = {
        ".csv": lambda: pd.read_csv(path, keep_default_na=False, na_values=[""]),
        ".json": lambda: pd.read_json(path, lines=True, dtype=False, convert_dates=False),
        ".parquet": lambda: pd.read_parquet(path, dtype_backend="pyarrow"),
        ".arrow": lambda: pd.read_feather(path, dtype_backend="pyarrow"),
    }
    table = read[path.suffix]()
    return {name: (str(table[name].dtype), table[name].tolist()) for name in table}


def by_polars(path: Path) -> dict:
    read = {".csv": pl.read_csv, ".json": pl.read_ndjson, ".parquet": pl.read_parquet, ".arrow": pl.read_ipc}
    table = read[path.suffix](path)
    return {name: (str(table[name].dtype), table[name].to_list()) for name in table.columns}


READERS = {"DuckDB": by_duckdb, "pandas": by_pandas, "Polars": by_polars}


def by_python(path: Path) -> dict:
    """A text file without a reader that guesses: a cell of CSV is NULL if it is empty and not in quotes."""
    if path.suffix == ".json":
        rows = [json.loads(line, parse_float=str, parse_int=str) for line in path.read_text().splitlines()]
        return {"x": ("text", [row.get("x") for row in rows])}
    with open(path, newline="") as file:
        _, *rows = csv.reader(file)
    return {"x": ("text", [row[1] or None for row in rows])}


def plain(value, kind):
    """A value as all readers give it: CSV and JSON have texts for what they have no type for."""
    try:
        return converted(value, kind)
    except (ValueError, ArithmeticError):
        return value


def converted(value, kind):
    if value is None or value is pd.NaT or value is pd.NA or isinstance(value, float) and math.isnan(value):
        return None
    if kind.type in ("DOUBLE", "REAL"):
        return float(value)
    if kind.type.startswith("DECIMAL") or kind.type.startswith("BIGINT") or kind.type == "SMALLINT":
        return Decimal(str(value))
    if kind.type == "BOOLEAN":
        return str(value).lower()
    if kind.type == "DATE":
        return str(value)[:10]
    if kind.type == "TIME":
        return datetime.time.fromisoformat(str(value))
    if kind.type == "TIMESTAMP":
        moment = pd.Timestamp(value).to_pydatetime()
        return moment if moment.tzinfo is None else moment.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return value


def ask(program: str, vault: Path, statements: list) -> list:
    words = [program, str(vault), "--owner", "--format", "json", "-c", ";".join(statements)]
    run = subprocess.run(words, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def main() -> None:
    program, folder = sys.argv[1], Path(sys.argv[2])
    table = pa.table({f"x{at}": libraries.arrow(kind)["x"] for at, kind in enumerate(OUT)}).append_column("id", pa.array(range(1001, 1013)))
    pa.parquet.write_table(table, folder / "people.parquet")
    vault = folder / "answers.db"
    subprocess.run([program, "init", vault], check=True, capture_output=True)
    create = f"CREATE EXTERNAL TABLE rows_of STORED AS PARQUET LOCATION '{folder}/people.parquet'"
    ask(program, vault, [create, "ALTER TABLE rows_of SET PUBLIC"])
    copies = [f"COPY (SELECT id, x{at} AS x FROM rows_of ORDER BY id) TO '{folder}/{at}.{format}'" for at in range(len(OUT)) for format in FORMATS]
    ask(program, vault, copies)
    for format in FORMATS:
        for at, kind in enumerate(OUT):
            path = folder / f"{at}.{format}"
            if format in ("csv", "json"):
                assert seen(by_python, path, kind) == "text", path.read_text()
            types = {name: seen(reader, path, kind) for name, reader in READERS.items() if (format, name) != ("arrow", "DuckDB")}
            assert format in ("csv", "json") or not any("≈" in type for type in types.values()), (format, kind.name, types)
            print(json.dumps({"format": format, "kind": kind.name, "types": types}))
    answer(program, folder)


def seen(reader, path: Path, kind) -> str:
    """The type that a reader gives a column, with ≈ if its values are others."""
    try:
        type, values = reader(path)["x"]
    except ValueError:
        return "error"
    expected, values = [[plain(value, kind) for value in some] for some in (kind.values, values)]
    if path.suffix == ".csv":
        # What reads CSV seldom tells an empty text from NULL.
        expected, values = [[None if value == "" else value for value in some] for some in (expected, values)]
    return type if values == expected else f"{type} ≈"


def answer(program: str, folder: Path) -> None:
    """An answer with its ± and its receipt."""
    vault = folder / "private.db"
    subprocess.run([program, "init", vault], check=True, capture_output=True)
    create = f"CREATE EXTERNAL TABLE people STORED AS PARQUET LOCATION '{folder}/people.parquet'"
    domain = "ALTER TABLE people ALTER COLUMN x0 SET PRIVACY DOMAIN BETWEEN 0 AND 100"
    budget = "CREATE PRIVACY BUDGET people FOR people LIMIT (epsilon=1000)"
    ask(program, vault, [create, "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE", domain, budget])
    query = "SELECT LAPLACE(eps=1) COUNT(*) AS n, LAPLACE(eps=1) AVG(x0) AS mean FROM people"
    # The first of these is charged, and the others are shown again.
    ask(program, vault, [f"COPY ({query}) TO '{folder}/answer.{format}' OPTIONS ('errors' 'true')" for format in reversed(FORMATS)])
    for format in FORMATS:
        path = folder / f"answer.{format}"
        for name, reader in READERS.items():
            if (format, name) != ("arrow", "DuckDB"):
                read = reader(path)
                assert list(read) == ["n", "n_error", "mean", "mean_error"], (format, name, read)
                assert read["n_error"][1] == [3.0] and read["mean_error"][1][0] > 0, (format, name, read)
    said = [
        pa.ipc.open_file(folder / "answer.arrow").schema.metadata,
        pa.parquet.read_metadata(folder / "answer.parquet").metadata,
        dict(duckdb.sql(f"SELECT key, value FROM parquet_kv_metadata('{folder}/answer.parquet')").fetchall()),
        {key.encode(): value.encode() for key, value in pl.read_parquet_metadata(folder / "answer.parquet").items()},
    ]
    for number, one in enumerate(said):
        assert one[b"hushql.cost"].decode() == ("ε = 2" if number == 0 else "ε = 0"), one
        assert "n: ± 3" in one[b"hushql.accuracy"].decode(), one
        assert (b"hushql.replayed" in one) == (number > 0) and one[b"hushql.charge"] == b"1", one


if __name__ == "__main__":
    main()
