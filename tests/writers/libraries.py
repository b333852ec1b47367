"""Writers of Python's libraries: each is a function of one line or a few, as its users write it."""

import csv
import datetime
import importlib.metadata
import importlib.util
import json
import sys
import uuid
from decimal import Decimal
from pathlib import Path

from people import BERLIN, IDS, Kind
from writer import Wrote, write_all, writer

if importlib.util.find_spec("pandas"):
    import pandas as pd
if importlib.util.find_spec("pyarrow"):
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.feather
    import pyarrow.orc
    import pyarrow.parquet
if importlib.util.find_spec("polars"):
    import polars as pl
if importlib.util.find_spec("duckdb"):
    import duckdb

PANDAS = "pandas {pandas}"


class Unwritable(Exception):
    """A kind of values that a library has no type for."""


def rounded(kind: Kind, digits: int) -> list:
    return [None if value is None else round(value, digits) for value in kind.values]


def whole_milliseconds(kind: Kind) -> Wrote | None:
    """Moments of a writer that keeps milliseconds."""
    if not kind.name.startswith(("timestamps", "times")):
        return None
    return Wrote([v and v.replace(microsecond=v.microsecond // 1000 * 1000) for v in kind.values])


# pandas


def frame(kind: Kind):
    """The columns as a user of pandas holds them: missing numbers make floats."""
    if kind.name.startswith("timestamps"):
        column = pd.Series(pd.to_datetime(kind.values))
    elif kind.name == "durations":
        column = pd.Series(pd.to_timedelta(kind.values))
    elif kind.name == "categories":
        column = pd.Series(kind.values, dtype="category")
    elif kind.name == "floats of 32 bits":
        column = pd.Series(kind.values, dtype="float32")
    elif kind.name == "numbers beyond BIGINT":
        column = pd.Series(kind.values, dtype="UInt64")
    elif kind.name.startswith("small"):
        column = pd.Series(kind.values, dtype="Int8")
    else:
        column = pd.Series(kind.values)
    return pd.DataFrame({"id": IDS, "x": column})


def no_containers(kind: Kind) -> None:
    if kind.type in ("STRUCT", "LIST", "BYTEA") or kind.name == "durations":
        raise Unwritable("texts of Python's values")


@writer(f"{PANDAS} `to_csv`", "CSV", ["pandas"])
def pandas_csv(path, kind):
    no_containers(kind)
    frame(kind).to_csv(path, index=False)


@writer(f"{PANDAS} `to_csv`, with its index", "CSV", ["pandas"], before='"" BIGINT')
def pandas_csv_index(path, kind):
    no_containers(kind)
    frame(kind).to_csv(path)


@writer(f"{PANDAS} `to_csv`, German", "CSV", ["pandas"], options={"delimiter": ";", "decimal": ",", "date_format": "%d.%m.%Y"})
def pandas_csv_german(path, kind):
    no_containers(kind)
    if kind.name.startswith("timestamps"):
        raise Unwritable("the format of dates would cut the time")
    table = frame(kind)
    if kind.type == "DATE":
        table["x"] = pd.to_datetime(table["x"])
    if kind.type.startswith("DECIMAL"):
        table["x"] = table["x"].map(lambda v: str(v).replace(".", ","), na_action="ignore")
    table.to_csv(path, index=False, sep=";", decimal=",", date_format="%d.%m.%Y")


@writer(f"{PANDAS} `to_csv`, `na_rep='NA'`", "CSV", ["pandas"], options={"null_value": "NA"})
def pandas_csv_na(path, kind):
    no_containers(kind)
    frame(kind).to_csv(path, index=False, na_rep="NA")
    return Wrote([None if value == "NA" else value for value in kind.values])


@writer(f"{PANDAS} `to_csv`, gzip", "CSV", ["pandas"], ending="csv.gz")
def pandas_csv_gzip(path, kind):
    no_containers(kind)
    frame(kind).to_csv(path, index=False)


@writer(f"{PANDAS} `to_json`, lines, ISO dates", "JSON", ["pandas"])
def pandas_json(path, kind):
    no_containers_in_json(kind)
    frame(kind).to_json(path, orient="records", lines=True, date_format="iso", date_unit="us", double_precision=15)


@writer(f"{PANDAS} `to_json`, an array", "JSON", ["pandas"])
def pandas_json_array(path, kind):
    no_containers_in_json(kind)
    frame(kind).to_json(path, orient="records", date_format="iso", date_unit="us", double_precision=15)


def no_containers_in_json(kind: Kind) -> None:
    if kind.type == "BYTEA" or kind.name in ("durations", "UUIDs") or kind.type.startswith("DECIMAL"):
        raise Unwritable("values of Python that JSON lacks")


@writer(f"{PANDAS} `to_parquet`", "Parquet", ["pandas", "pyarrow"])
def pandas_parquet(path, kind):
    frame(kind).to_parquet(path)


@writer(f"{PANDAS} `to_parquet`, nullable types", "Parquet", ["pandas", "pyarrow"])
def pandas_parquet_nullable(path, kind):
    frame(kind).convert_dtypes(dtype_backend="pyarrow").to_parquet(path)


@writer(f"{PANDAS} `to_parquet`, fastparquet", "Parquet", ["pandas", "fastparquet"])
def pandas_fastparquet(path, kind):
    frame(kind).to_parquet(path, engine="fastparquet")


@writer(f"{PANDAS} `to_feather`", "Arrow", ["pandas", "pyarrow"])
def pandas_feather(path, kind):
    frame(kind).to_feather(path)


@writer(f"{PANDAS} `to_stata`, read, `to_parquet`", "Parquet", ["pandas", "pyarrow", "openpyxl"])
def stata_parquet(path, kind):
    table = frame(kind)
    if kind.type == "DATE":
        table["x"] = pd.to_datetime(table["x"])
    if kind.type == "BOOLEAN" or kind.type.startswith("DECIMAL") or kind.type in ("STRUCT", "LIST", "BYTEA", "TIME", "UUID"):
        raise Unwritable("Stata has numbers, texts and moments")
    table.to_stata(path.with_suffix(".dta"), write_index=False)
    table = pd.read_stata(path.with_suffix(".dta"))
    table.to_parquet(path)
    return whole_milliseconds(kind) or without_missing_texts(kind)


@writer("SPSS by pyreadstat, `to_parquet`", "Parquet", ["pyreadstat", "pyarrow"])
def spss_parquet(path, kind):
    table = spss(path, kind)
    table.to_parquet(path)
    return of_spss(kind, table)


@writer("SPSS by pyreadstat, `to_csv`", "CSV", ["pyreadstat"])
def spss_csv(path, kind):
    table = spss(path, kind)
    table.to_csv(path, index=False)
    return of_spss(kind, table)


def of_spss(kind: Kind, table) -> Wrote | None:
    """Texts without blanks at their ends; moments that a float of seconds since 1582 holds."""
    if kind.name == "timestamps":
        return Wrote([None if pd.isna(value) else value.to_pydatetime() for value in table["x"]])
    return without_missing_texts(kind, str.rstrip)


def without_missing_texts(kind: Kind, kept=str) -> Wrote | None:
    """The values of a format that has no missing text."""
    if kind.type == "VARCHAR" and kind.name != "categories":
        return Wrote(["" if value is None else kept(value) for value in kind.values])
    return None


def spss(path, kind):
    """What comes back from a file of SPSS, which knows floats and texts."""
    import pyreadstat

    if kind.type == "BOOLEAN" or kind.type.startswith("DECIMAL") or kind.type in ("STRUCT", "LIST", "BYTEA", "UUID"):
        raise Unwritable("SPSS has numbers, texts and moments")
    if kind.name in ("durations", "categories", "numbers beyond BIGINT", "empty texts", "timestamps with a zone"):
        raise Unwritable("SPSS has numbers, texts and moments")
    table = frame(kind)
    if kind.name.startswith("small"):
        table["x"] = table["x"].astype("float64")
    pyreadstat.write_sav(table, path.with_suffix(".sav"))
    table, _ = pyreadstat.read_sav(path.with_suffix(".sav"))
    return table


@writer("Excel by openpyxl, German `to_csv`", "CSV", ["pandas", "openpyxl"], options={"delimiter": ";", "decimal": ",", "date_format": "%d.%m.%Y"})
def excel_csv(path, kind):
    no_containers(kind)
    if kind.name in ("timestamps with a zone", "UUIDs", "times", "timestamps") or kind.type.startswith("DECIMAL") or kind.type == "BIGINT UNSIGNED":
        raise Unwritable("Excel has floats, texts and local moments")
    table = frame(kind)
    if kind.type == "DATE":
        table["x"] = pd.to_datetime(table["x"])
    table.to_excel(path.with_suffix(".xlsx"), index=False)
    back = pd.read_excel(path.with_suffix(".xlsx"), keep_default_na=False, na_values=[""])
    if kind.type == "VARCHAR":
        back = pd.read_excel(path.with_suffix(".xlsx"), keep_default_na=False, na_values=[""], dtype={"x": str})
    back.to_csv(path, index=False, sep=";", decimal=",", date_format="%d.%m.%Y", encoding="utf-8-sig")
    if kind.name == "empty texts":
        return Wrote([value or None for value in kind.values])


# pyarrow

ARROW = {
    "whole numbers": "int64",
    "whole numbers, one missing": "int64",
    "small numbers (8 bits)": "int8",
    "numbers beyond BIGINT": "uint64",
    "floats": "float64",
    "floats of 32 bits": "float32",
    "booleans": "bool_",
    "dates": "date32",
    "texts": "string",
    "texts of digits": "large_string",
    "texts of two lines": "string",
    "empty texts": "string_view",
    "bytes": "binary",
}


def arrow(kind: Kind):
    types = {
        "decimals": lambda: pa.decimal128(12, 2),
        "decimals of 18 digits": lambda: pa.decimal128(18, 2),
        "decimals of 38 digits": lambda: pa.decimal128(38, 10),
        "timestamps": lambda: pa.timestamp("us"),
        "timestamps with a zone": lambda: pa.timestamp("ns", "Europe/Berlin"),
        "times": lambda: pa.time64("us"),
        "durations": lambda: pa.duration("us"),
        "categories": lambda: pa.dictionary(pa.int32(), pa.string()),
        "UUIDs": pa.uuid,
        "structs": lambda: pa.struct([("town", pa.string()), ("number", pa.int64())]),
        "lists": lambda: pa.list_(pa.int64()),
    }
    known = ARROW.get(kind.name)
    type = getattr(pa, known)() if known else types[kind.name]()
    values = kind.values
    if kind.name == "UUIDs":
        storage = pa.array([value and value.bytes for value in values], pa.binary(16))
        column = pa.ExtensionArray.from_storage(type, storage)
    else:
        column = pa.array(values, type)
    return pa.table({"id": pa.array(IDS, pa.int64()), "x": column})


@writer("pyarrow `write_csv`", "CSV", ["pyarrow"])
def arrow_csv(path, kind):
    pyarrow.csv.write_csv(arrow(kind), path)


@writer("pyarrow `write_csv`, tabs, quotes where needed", "CSV", ["pyarrow"], ending="tsv")
def arrow_tsv(path, kind):
    pyarrow.csv.write_csv(arrow(kind), path, pyarrow.csv.WriteOptions(delimiter="\t", quoting_style="needed"))


@writer("pyarrow `write_table`", "Parquet", ["pyarrow"])
def arrow_parquet(path, kind):
    pyarrow.parquet.write_table(arrow(kind), path)


@writer("pyarrow `write_table`, format 1.0, INT96, brotli", "Parquet", ["pyarrow"])
def arrow_parquet_old(path, kind):
    pyarrow.parquet.write_table(arrow(kind), path, version="1.0", use_deprecated_int96_timestamps=True, compression="brotli", store_schema=False)


@writer("pyarrow `write_table`, pages 2, zstd, small decimals", "Parquet", ["pyarrow"])
def arrow_parquet_new(path, kind):
    pyarrow.parquet.write_table(arrow(kind), path, data_page_version="2.0", compression="zstd", store_decimal_as_integer=True, use_dictionary=False)


@writer("pyarrow `write_feather`", "Arrow", ["pyarrow"])
def arrow_feather(path, kind):
    pyarrow.feather.write_feather(arrow(kind), path)


@writer("pyarrow `new_file`, zstd", "Arrow", ["pyarrow"])
def arrow_file(path, kind):
    table = arrow(kind)
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as file:
        file.write_table(table)


@writer("pyarrow `new_stream`", "Arrow", ["pyarrow"])
def arrow_stream(path, kind):
    table = arrow(kind)
    with pa.ipc.new_stream(path, table.schema) as file:
        file.write_table(table)


# Polars


def polars(kind: Kind):
    types = {
        "whole numbers": "Int64",
        "whole numbers, one missing": "Int64",
        "small numbers (8 bits)": "Int8",
        "numbers beyond BIGINT": "UInt64",
        "floats": "Float64",
        "floats of 32 bits": "Float32",
        "booleans": "Boolean",
        "dates": "Date",
        "times": "Time",
        "categories": "Categorical",
        "bytes": "Binary",
        "durations": "Duration",
    }
    values, type = kind.values, None
    if kind.name in types:
        type = getattr(pl, types[kind.name])
    elif kind.type.startswith("DECIMAL"):
        type = pl.Decimal(*map(int, kind.type[8:-1].split(",")))
    elif kind.name == "timestamps":
        type = pl.Datetime("us")
    elif kind.name == "timestamps with a zone":
        type = pl.Datetime("us", "Europe/Berlin")
    elif kind.name == "UUIDs":
        values, type = [value and str(value) for value in values], pl.String
    return pl.DataFrame({"id": IDS, "x": pl.Series(values, dtype=type)})


@writer("polars `write_csv`", "CSV", ["polars"])
def polars_csv(path, kind):
    polars(kind).write_csv(path)


@writer("polars `write_csv`, semicolons, decimal comma", "CSV", ["polars"], options={"delimiter": ";", "decimal": ","})
def polars_csv_comma(path, kind):
    polars(kind).write_csv(path, separator=";", decimal_comma=True)


@writer("polars `write_csv`, all in quotes, `null_value='NULL'`", "CSV", ["polars"], options={"null_value": "NULL"})
def polars_csv_quotes(path, kind):
    polars(kind).write_csv(path, quote_style="always", null_value="NULL")


def no_bytes(kind: Kind) -> None:
    if kind.name == "bytes":
        raise Unwritable("values that JSON lacks")


@writer("polars `write_ndjson`", "JSON", ["polars"])
def polars_ndjson(path, kind):
    no_bytes(kind)
    polars(kind).write_ndjson(path)


@writer("polars `write_json`, an array", "JSON", ["polars"])
def polars_json(path, kind):
    no_bytes(kind)
    polars(kind).write_json(path)


@writer("polars `write_parquet`", "Parquet", ["polars"])
def polars_parquet(path, kind):
    polars(kind).write_parquet(path)


@writer("polars `write_ipc`", "Arrow", ["polars"])
def polars_ipc(path, kind):
    polars(kind).write_ipc(path)


@writer("polars `write_ipc`, old texts, lz4", "Arrow", ["polars"])
def polars_ipc_old(path, kind):
    polars(kind).write_ipc(path, compat_level=pl.CompatLevel.oldest(), compression="lz4")


# DuckDB

DUCKDB = {
    "whole numbers": "BIGINT",
    "whole numbers, one missing": "INTEGER",
    "small numbers (8 bits)": "TINYINT",
    "numbers beyond BIGINT": "UBIGINT",
    "floats": "DOUBLE",
    "floats of 32 bits": "FLOAT",
    "decimals": "DECIMAL(12, 2)",
    "decimals of 18 digits": "DECIMAL(18, 2)",
    "decimals of 38 digits": "DECIMAL(38, 10)",
    "booleans": "BOOLEAN",
    "dates": "DATE",
    "timestamps": "TIMESTAMP",
    "timestamps with a zone": "TIMESTAMPTZ",
    "times": "TIME",
    "durations": "INTERVAL",
    "categories": "ENUM ('A', 'B', 'C')",
    "UUIDs": "UUID",
    "structs": "STRUCT(town VARCHAR, number BIGINT)",
    "lists": "BIGINT[]",
    "bytes": "BLOB",
}


def copy(path, kind, options="", more=""):
    """COPY from a table of DuckDB, with further columns."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'Europe/Berlin'")
        type = DUCKDB.get(kind.name, "VARCHAR")
        if kind.name == "whole numbers, one missing":
            type = "BIGINT"
        connection.execute(f"CREATE TABLE people (id BIGINT, x {type})")
        connection.executemany("INSERT INTO people VALUES (?, ?)", list(zip(IDS, kind.values)))
        connection.execute(f"COPY (SELECT *{more} FROM people) TO '{path}' {options}")


@writer("DuckDB `COPY`", "CSV", ["duckdb"])
def duckdb_csv(path, kind):
    copy(path, kind)


@writer("DuckDB `COPY`, no header", "CSV", ["duckdb"], options={"has_header": "false"})
def duckdb_csv_bare(path, kind):
    copy(path, kind, "(HEADER false)")


@writer("DuckDB `COPY`, semicolons, NA, German dates", "CSV", ["duckdb"], options={"delimiter": ";", "null_value": "NA", "date_format": "%d.%m.%Y"})
def duckdb_csv_german(path, kind):
    if kind.name.startswith("timestamps"):
        raise Unwritable("the format of dates is not that of moments")
    copy(path, kind, "(DELIMITER ';', NULLSTR 'NA', DATEFORMAT '%d.%m.%Y')")
    return Wrote([None if value == "NA" else value for value in kind.values])


@writer("DuckDB `COPY`, all in quotes, escape `\\`", "CSV", ["duckdb"], options={"escape": "\\"})
def duckdb_csv_escape(path, kind):
    copy(path, kind, "(FORCE_QUOTE *, ESCAPE '\\')")


@writer("DuckDB `COPY`", "JSON", ["duckdb"])
def duckdb_json(path, kind):
    copy(path, kind)


@writer("DuckDB `COPY`, an array", "JSON", ["duckdb"])
def duckdb_json_array(path, kind):
    copy(path, kind, "(ARRAY true)")


@writer("DuckDB `COPY`", "Parquet", ["duckdb"])
def duckdb_parquet(path, kind):
    copy(path, kind)


@writer("DuckDB `COPY`, version 2, zstd", "Parquet", ["duckdb"])
def duckdb_parquet_new(path, kind):
    copy(path, kind, "(PARQUET_VERSION v2, COMPRESSION zstd)")


# Python's own


def texts(kind: Kind) -> list:
    return [[id, value] for id, value in zip(IDS, kind.values)]


def by_csv(path, kind, dialect=None, **how):
    no_containers(kind)
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, dialect or "excel", **how)
        rows.writerow(["id", "x"])
        rows.writerows(texts(kind))


@writer("Python `csv`", "CSV")
def csv_excel(path, kind):
    by_csv(path, kind)


@writer("Python `csv`, `excel-tab`", "CSV", ending="tsv")
def csv_tab(path, kind):
    by_csv(path, kind, "excel-tab")


@writer("Python `csv`, `unix` (all in quotes)", "CSV")
def csv_unix(path, kind):
    by_csv(path, kind, "unix")


@writer("Python `csv`, escapes", "CSV", options={"escape": "\\"})
def csv_escapes(path, kind):
    by_csv(path, kind, doublequote=False, escapechar="\\", quoting=csv.QUOTE_ALL)


@writer("Python `json`, lines", "JSON")
def json_lines(path, kind):
    with open(path, "w") as file:
        for row in objects(kind):
            file.write(json.dumps(row) + "\n")


@writer("Python `json`, indented array", "JSON")
def json_indented(path, kind):
    path.write_text(json.dumps(objects(kind), indent=2, ensure_ascii=False))


@writer("Python `json`, lines without missing values", "JSON")
def json_sparse(path, kind):
    rows = [{name: value for name, value in row.items() if value is not None} for row in objects(kind)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def objects(kind: Kind) -> list:
    def of(value):
        if isinstance(value, (bytes, datetime.timedelta)):
            raise Unwritable("values of Python that JSON lacks")
        if isinstance(value, (datetime.date, datetime.time)):
            return value.isoformat()
        return str(value) if isinstance(value, (uuid.UUID, Decimal)) else value

    return [{"id": id, "x": of(value)} for id, value in zip(IDS, kind.values)]


@writer("numpy `savetxt`", "CSV", ["numpy"], options={"comment": "#", "has_header": "false"})
def numpy_text(path, kind):
    import numpy

    if kind.name not in ("whole numbers", "floats", "floats of 32 bits", "whole numbers, one missing"):
        raise Unwritable("a table of floats")
    values = [float("nan") if value is None else value for value in kind.values]
    numpy.savetxt(path, numpy.column_stack([IDS, values]), delimiter=",", header="id,x")


# Tables of several files


@writer("dask `to_parquet`", "Parquet", ["dask", "pyarrow"])
def dask_parquet(path, kind):
    import dask.dataframe

    dask.dataframe.from_pandas(frame(kind), npartitions=3).to_parquet(str(path), write_index=False)


@writer("dask `to_csv`", "CSV", ["dask"])
def dask_csv(path, kind):
    import dask.dataframe

    no_containers(kind)
    dask.dataframe.from_pandas(frame(kind), npartitions=3).to_csv(str(path / "*.csv"), index=False)


@writer("polars `write_parquet`, a folder for each part", "Parquet", ["polars"], ending="d", partitioned="part BIGINT")
def polars_folders(path, kind):
    """The key of the folders is in the files, too."""
    table = polars(kind)
    table.with_columns(part=pl.col("id") % 3).write_parquet(path, partition_by="part")


@writer("DuckDB `COPY`, a folder for each part", "Parquet", ["duckdb"], ending="d", partitioned="part BIGINT")
def duckdb_folders(path, kind):
    copy(path, kind, "(FORMAT parquet, PARTITION_BY (part))", more=", id % 3 AS part")


@writer("deltalake `write_deltalake`", "Delta", ["deltalake", "pyarrow"])
def delta(path, kind):
    import deltalake

    table = arrow(kind)
    if kind.name == "UUIDs":
        raise Unwritable("Delta has no UUIDs")
    deltalake.write_deltalake(path, table)


@writer("deltalake `write_deltalake`, then deleted, and written anew", "Delta", ["deltalake", "pyarrow"])
def delta_deleted(path, kind):
    import deltalake

    table = arrow(kind)
    if kind.name == "UUIDs":
        raise Unwritable("Delta has no UUIDs")
    deltalake.write_deltalake(path, table.slice(0, 9))
    deltalake.DeltaTable(path).delete("id > 1006")
    deltalake.write_deltalake(path, table.slice(6), mode="append")


@writer("deltalake `write_deltalake`, then deleted, and read as Parquet", "Parquet", ["deltalake", "pyarrow"], ending="d")
def delta_as_parquet(path, kind):
    """The folder holds more rows than the table."""
    delta_deleted(path, kind)


# Avro, ORC, SQLite


@writer("fastavro `writer`", "Avro", ["fastavro"])
def avro(path, kind):
    import fastavro

    types = {
        "BIGINT": "long",
        "SMALLINT": "int",
        "DOUBLE": "double",
        "REAL": "float",
        "BOOLEAN": "boolean",
        "DATE": {"type": "int", "logicalType": "date"},
        "TIME": {"type": "long", "logicalType": "time-micros"},
        "UUID": {"type": "string", "logicalType": "uuid"},
        "LIST": {"type": "array", "items": "long"},
        "STRUCT": {"type": "record", "name": "place", "fields": [{"name": "town", "type": "string"}, {"name": "number", "type": "long"}]},
        "BYTEA": "bytes",
        "VARCHAR": "string",
    }
    values, type = kind.values, types.get(kind.type)
    if kind.type.startswith("DECIMAL"):
        precision, scale = map(int, kind.type[8:-1].split(","))
        type = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    if kind.name == "timestamps":
        type = {"type": "long", "logicalType": "local-timestamp-micros"}
    if kind.name == "timestamps with a zone":
        type = {"type": "long", "logicalType": "timestamp-micros"}
    if kind.name == "categories":
        type = {"type": "enum", "name": "letter", "symbols": ["A", "B", "C"]}
    if type is None or kind.name == "durations":
        raise Unwritable("Avro has no such type")
    schema = {"type": "record", "name": "person", "fields": [{"name": "id", "type": "long"}, {"name": "x", "type": ["null", type]}]}
    with open(path, "wb") as file:
        fastavro.writer(file, schema, [{"id": id, "x": value} for id, value in zip(IDS, values)], codec="deflate")


@writer("polars `write_avro`", "Avro", ["polars"])
def polars_avro(path, kind):
    if kind.type not in ("BIGINT", "DOUBLE", "REAL", "BOOLEAN", "DATE", "TIMESTAMP", "VARCHAR") or kind.name in ("durations", "categories"):
        raise Unwritable("Avro has no such type")
    polars(kind).write_avro(path)


@writer("pyarrow `orc.write_table`", "ORC", ["pyarrow"])
def arrow_orc(path, kind):
    pyarrow.orc.write_table(arrow(kind), path)


@writer("Python `sqlite3`", "SQLite", options={"table": "people"})
def sqlite(path, kind):
    import sqlite3

    types = {"BOOLEAN": "BOOLEAN", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP", "BYTEA": "BLOB", "DOUBLE": "REAL", "REAL": "REAL", "VARCHAR": "TEXT", "BIGINT": "INTEGER"}
    type = "INTEGER" if kind.type == "SMALLINT" else types.get(kind.type)
    if type is None or kind.name in ("durations", "timestamps with a zone"):
        raise Unwritable("SQLite has no such type")
    values = [value.isoformat(" ") if kind.type == "TIMESTAMP" and value else value for value in kind.values]
    values = [value.isoformat() if kind.type == "DATE" and value else value for value in values]
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE people (id INTEGER, x {type})")
        connection.executemany("INSERT INTO people VALUES (?, ?)", list(zip(IDS, values)))
    connection.close()


if __name__ == "__main__":
    versions = {"pandas": importlib.metadata.version("pandas").split(".")[0]} if importlib.util.find_spec("pandas") else {}
    write_all(Path(sys.argv[1]), versions)
