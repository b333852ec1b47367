"""Vaults: declarations, budgets and charges, on disk or in memory."""

from __future__ import annotations

import os
from typing import Any, Union

from . import _hushql
from ._answer import Answer
from ._session import Session

Path = Union[str, "os.PathLike[str]"]


class Vault:
    """A vault. A program that has one acts for the owner of the data. Make one with `init`, `open`, `in_memory` or `demo`.

    At the end of a `with` block it closes, together with its sessions. It belongs to the process that opened it: after a fork,
    open it again.
    """

    def __init__(self, native: _hushql.Vault, place: str) -> None:
        self._native, self._place = native, place

    def __repr__(self) -> str:
        return f"<hushql vault {self._place}{'' if self._native.is_open() else ', closed'}>"

    def owner(self) -> Session:
        """The owner's session, which declares tables, privacy units, domains and budgets."""
        return Session(self._native.owner(), "the owner")

    def analyst(self, name: str) -> Session:
        """The session of an analyst: 1 to 64 letters of ASCII, digits, `_` and `-`."""
        return Session(self._native.analyst(name), name)

    def register(self, name: str, data: Any) -> None:
        """Registers a table: a data frame of pandas or polars, a table of pyarrow, a relation of DuckDB, or any other object with
        `__arrow_c_stream__`.

        The rows are copied once: later changes of the data frame do not reach the table. A new table is undeclared, and every
        query on it is refused until the owner declares its privacy unit, or declares it public. The rows are not in the
        vault's file: register them again after you open it.
        """
        self._native.register(name, data)

    def register_files(self, name: str, path: Path, format: str | None = None) -> str:
        """Declares files as a table: one file, a folder, or a pattern such as `visits/*.parquet`. The vault keeps the declaration.

        `format` is `parquet`, `csv`, `json`, `arrow` or `delta`, a folder with a table of Delta Lake; without it, the ending of the path
        decides. Locations in object stores (`s3://…`) need a build with the feature `objects`; without it, they are refused.
        """
        where = os.fspath(path)
        if format is None:
            ending = where.rstrip("/").rpartition(".")[2].lower()
            format = {"ndjson": "json", "jsonl": "json", "feather": "arrow"}.get(ending, ending)
            if format not in ("parquet", "csv", "json", "arrow", "delta"):
                raise ValueError("the ending of the path does not tell the format: give format='parquet', 'csv', 'json', 'arrow' or 'delta'")
        return self._native.register_files(name, where, format)

    def dump(self) -> str:
        """A script that rebuilds the declarations and the spending."""
        return self._native.dump()

    def doctor(self) -> Answer:
        """The faults that an owner should mend before analysts ask: a row for each."""
        return Answer(self._native.doctor())

    def close(self) -> None:
        """Closes the vault and its sessions. The file is free when running statements have ended."""
        self._native.close()

    def __enter__(self) -> Vault:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def init(path: Path, anchor: Path | None = None) -> Vault:
    """Creates a new vault file and opens it. An anchor is a small file in another place that detects when an older copy replaces
    the vault. An existing file is never overwritten.

    >>> import hushql as hq, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "study.db")
    ...     hq.init(path).close()
    ...     with hq.open(path) as vault:
    ...         print(vault.owner().budgets())
    []
    """
    return Vault(_hushql.Vault.init(path, anchor), os.fspath(path))


def open(path: Path, anchor: Path | None = None) -> Vault:  # noqa: A001
    """Opens a vault file, with its anchor if it has one. It never creates one."""
    return Vault(_hushql.Vault.open(path, anchor), os.fspath(path))


def in_memory() -> Vault:
    """A vault that is lost with the process: for invented data and tests, because its budgets are lost, too."""
    return Vault(_hushql.Vault.in_memory(), "in memory")


def demo() -> Vault:
    """A vault in memory with the invented tables `adult`, `bids`, `orders` and `census`.

    >>> import hushql as hq
    >>> sorted(hq.demo().analyst("lab").tables())
    ['adult', 'bids', 'census', 'orders']
    """
    return Vault(_hushql.Vault.demo(), "in memory")
