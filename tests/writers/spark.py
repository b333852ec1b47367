"""Spark's writers: each writes a folder of files."""

import sys
from decimal import Decimal
from pathlib import Path

from people import IDS, Kind
from pyspark.sql import SparkSession
from pyspark.sql import types as sql
from writer import Wrote, write_all, writer

SPARK = (
    SparkSession.builder.master("local[2]")
    .config("spark.sql.session.timeZone", "Europe/Berlin")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .getOrCreate()
)
TYPES = {
    "whole numbers": sql.LongType(),
    "whole numbers, one missing": sql.LongType(),
    "small numbers (8 bits)": sql.ByteType(),
    "numbers beyond BIGINT": sql.DecimalType(20, 0),
    "floats": sql.DoubleType(),
    "floats of 32 bits": sql.FloatType(),
    "decimals": sql.DecimalType(12, 2),
    "decimals of 18 digits": sql.DecimalType(18, 2),
    "decimals of 38 digits": sql.DecimalType(38, 10),
    "booleans": sql.BooleanType(),
    "dates": sql.DateType(),
    "timestamps": sql.TimestampNTZType(),
    "timestamps with a zone": sql.TimestampType(),
    "times": sql.TimeType(),
    "durations": sql.DayTimeIntervalType(),
    "structs": sql.StructType([sql.StructField("town", sql.StringType()), sql.StructField("number", sql.LongType())]),
    "lists": sql.ArrayType(sql.LongType()),
    "bytes": sql.BinaryType(),
}


def frame(kind: Kind):
    values = kind.values
    if kind.name == "numbers beyond BIGINT":
        values = [value and Decimal(value) for value in values]
    if kind.name == "UUIDs":
        values = [value and str(value) for value in values]
    schema = sql.StructType([sql.StructField("id", sql.LongType()), sql.StructField("x", TYPES.get(kind.name, sql.StringType()))])
    rows = [(id, tuple(value.values()) if isinstance(value, dict) else value) for id, value in zip(IDS, values)]
    return SPARK.createDataFrame(rows, schema).repartition(2)


def beyond(kind: Kind) -> str | None:
    """Spark has no unsigned numbers: those are decimals."""
    return "DECIMAL(20, 0)" if kind.name == "numbers beyond BIGINT" else None


def save(path: Path, kind: Kind, format: str, **options) -> Wrote:
    writing = frame(kind).write.format(format)
    for name, value in options.items():
        writing = writing.option(name, value)
    writing.save(str(path))
    return Wrote(type=beyond(kind))


def in_milliseconds(kind: Kind, wrote: Wrote) -> Wrote:
    """Spark writes moments as texts with three digits of a second."""
    if kind.name.startswith("timestamps"):
        wrote.values = [v and v.replace(microsecond=v.microsecond // 1000 * 1000) for v in kind.values]
    return wrote


@writer("Spark `write.csv`, header", "CSV", options={"escape": "\\"}, ending="csv.d")
def spark_csv(path, kind):
    wrote = in_milliseconds(kind, save(path, kind, "csv", header="true"))
    if kind.type == "VARCHAR":
        # Spark cuts blanks from the ends of texts, unless told otherwise.
        wrote.values = [value and value.strip() for value in kind.values]
    return wrote


@writer("Spark `write.json`", "JSON", ending="json.d")
def spark_json(path, kind):
    return in_milliseconds(kind, save(path, kind, "json"))


@writer("Spark `write.parquet`", "Parquet", ending="parquet.d")
def spark_parquet(path, kind):
    return save(path, kind, "parquet")


@writer("Spark `write.parquet`, legacy decimals, INT96", "Parquet", ending="parquet.d")
def spark_parquet_old(path, kind):
    SPARK.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    SPARK.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        return save(path, kind, "parquet")
    finally:
        SPARK.conf.set("spark.sql.parquet.writeLegacyFormat", "false")
        SPARK.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write_all(folder, {})
