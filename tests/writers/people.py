"""The table that every writer writes: twelve people, a column `id`, and one column `x` of each kind.

In: nothing. Out: KINDS, each with the type of HushQL, the twelve values, and how to ask HushQL for one of them. The fifth value of
most kinds is missing.
"""

import datetime
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from zoneinfo import ZoneInfo

IDS = list(range(1001, 1013))
BERLIN = ZoneInfo("Europe/Berlin")


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def instant(moment: datetime.datetime) -> str:
    """A moment as HushQL has it: in UTC, without a zone."""
    utc = moment if moment.tzinfo is None else moment.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return f"TIMESTAMP '{utc.isoformat(sep=' ')}'"


def fields(value: dict) -> str:
    return " AND ".join(f"x.{name} = {quoted(part) if isinstance(part, str) else part}" for name, part in value.items())


@dataclass
class Kind:
    """Values of one kind."""

    name: str
    # What an owner declares.
    type: str
    values: list
    # A value as a literal of HushQL.
    literal: callable = str
    # The condition under which x is a value, where that is not `x = literal`.
    condition: callable = field(default=None)

    def has(self, value) -> str:
        """The condition under which x is this value."""
        return self.condition(value) if self.condition else f"x = {self.literal(value)}"


def missing(values: list) -> list:
    return values[:4] + [None] + values[4:]


def day(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text)


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


DAYS = ["1950-01-31", "2024-02-29", "1969-12-31", "1970-01-01", "2000-01-01", "1999-12-31", "2026-07-04", "1931-05-06", "2023-10-29", "2016-06-30", "1988-11-11"]
MOMENTS = [
    "1950-01-31T23:59:59",
    "2024-02-29T12:00:00",
    "1969-12-31T23:59:59.5",
    "1970-01-01T00:00:00",
    "2000-01-01T00:00:00.000001",
    "1999-12-31T08:15:30",
    "2026-07-04T01:30:00",
    "1931-05-06T06:07:08.25",
    "2023-10-29T03:30:00",
    "2016-06-30T23:00:00",
    "1988-11-11T11:11:11",
]
TEXTS = ["Ärzte, Anna", 'a 5" pipe', "NA", "null", " blank ends ", "O'Neil", "a;b", "#1", "back\\slash", "-", "Meier"]
UUIDS = [uuid.UUID(int=0x1234567890ABCDEF1234567890ABCDEF * (n + 1) % 2**128) for n in range(11)]

KINDS = [
    Kind("whole numbers", "BIGINT", list(range(18, 30))),
    Kind("whole numbers, one missing", "BIGINT", missing([30, 41, -7, 0, 65, 120, 18, 2_000_000, 3_000_000_000, 52, 33])),
    Kind("small numbers (8 bits)", "SMALLINT", missing([1, 2, 3, 127, -128, 0, 7, 5, 4, 9, 11])),
    Kind("numbers beyond BIGINT", "BIGINT UNSIGNED", missing([2**63 + n for n in range(11)])),
    Kind("floats", "DOUBLE", missing([0.1, 1.5, -2.25, 0.0, 1e15, 1e-7, 123456.789, 3.14159265358979, 41.0, 0.3333, 99.99]), repr),
    Kind("floats of 32 bits", "REAL", missing([0.5, 1.5, -2.25, 0.0, 1024.0, 0.125, 7.0, 3.75, 41.0, 0.25, 99.5]), repr),
    Kind("decimals", "DECIMAL(12, 2)", missing([Decimal(t) for t in "19.99 -0.01 1234567.89 0.00 100.10 7.50 41.00 2.25 3.05 99.99 0.70".split()])),
    # More digits than a float has.
    Kind("decimals of 18 digits", "DECIMAL(18, 2)", missing([Decimal("1234567890123456.78") + n for n in range(11)])),
    Kind(
        "decimals of 38 digits",
        "DECIMAL(38, 10)",
        missing([Decimal("1234567890123456789012345678.1234567890") + n for n in range(11)]),
    ),
    Kind("booleans", "BOOLEAN", missing([True, False, False, True, True, True, False, True, False, False, True]), lambda v: str(v).upper()),
    Kind("dates", "DATE", missing([day(text) for text in DAYS]), lambda v: f"DATE '{v.isoformat()}'"),
    Kind("timestamps", "TIMESTAMP", missing([moment(text) for text in MOMENTS]), instant),
    Kind("timestamps with a zone", "TIMESTAMP", missing([moment(text).replace(tzinfo=BERLIN) for text in MOMENTS]), instant),
    Kind(
        "times",
        "TIME",
        missing([datetime.time(n, 7 * n % 60, 11 * n % 60, 250_000 * (n % 4)) for n in range(11)]),
        lambda v: f"TIME '{v.isoformat()}'",
    ),
    Kind("durations", "BIGINT", missing([datetime.timedelta(days=n, seconds=n + 1) for n in range(11)]), lambda v: str(v // datetime.timedelta(microseconds=1))),
    Kind("texts", "VARCHAR", missing(TEXTS), quoted),
    Kind("texts of digits", "VARCHAR", missing("007 0815 1e5 +5 12 00 1.0 3.50 24103 1_000 -0".split()), quoted),
    Kind("texts of two lines", "VARCHAR", missing([f"line {n}\nand {n + 1}" for n in range(11)]), quoted),
    Kind("empty texts", "VARCHAR", missing(["", "a", "b", "", "c", "d", "", "e", "f", "g", "h"]), quoted),
    Kind("categories", "VARCHAR", missing(list("ABCABCABCAB")), quoted),
    Kind("UUIDs", "UUID", missing(UUIDS), lambda v: quoted(str(v))),
    Kind("structs", "STRUCT", missing([{"town": "Kiel" if n % 2 else "Ulm", "number": n} for n in range(11)]), condition=fields),
    # Whatever a list or bytes are, they are not NULL.
    Kind("lists", "LIST", missing([[n, n + 1] for n in range(11)]), condition=lambda _: "x IS NOT NULL"),
    Kind("bytes", "BYTEA", missing([bytes([n, 255 - n]) for n in range(11)]), condition=lambda _: "x IS NOT NULL"),
]
KIND = {kind.name: kind for kind in KINDS}
