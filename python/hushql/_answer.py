"""Answers: rows, their accuracy, and their cost."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, cast

from . import _told
from ._told import Accuracy, Receipt

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas
    import polars
    import pyarrow

    from . import _hushql

#: The number of rows that a notebook shows.
SHOWN = 100

_STYLE = "text-align:right"


class Answer:
    """The answer to a query. The query was charged once, when it ran. The answer is in memory, and reading it is free.

    Every reader of Arrow streams can read it: `pyarrow.table(answer)`, `polars.DataFrame(answer)`, DuckDB's `FROM answer`.

    >>> import hushql as hq
    >>> lab = hq.demo().analyst("lab")
    >>> answer = lab.sql("SELECT sex, LAPLACE(eps=0.5) COUNT(*) AS n FROM adult GROUP BY sex")
    >>> answer.columns, len(answer)
    (['sex', 'n'], 2)
    >>> answer.errors["n"]
    [6.0, 6.0]
    >>> print(answer.receipt)
    cost ε = 0.5 · left adult ε = 9.5, δ = 1e-5
    """

    def __init__(self, native: _hushql.Answer) -> None:
        self._native = native

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as a stream of Arrow's C interface."""
        return self._native.__arrow_c_stream__(requested_schema)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self._native.columns()]

    def __len__(self) -> int:
        return self._native.num_rows()

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples, without any other package. Decimals are `decimal.Decimal`; dates and nested values are texts.

        >>> import hushql as hq
        >>> hq.demo().analyst("lab").sql("SELECT 1 AS one, 'a' AS a").rows()
        [(1, 'a')]
        """
        return self._native.rows()

    def scalar(self) -> Any:
        """The one value of an answer of one row and one column.

        >>> import hushql as hq
        >>> hq.demo().analyst("lab").sql("SELECT 1 + 1").scalar()
        2
        """
        rows = self.rows()
        if len(rows) != 1 or len(rows[0]) != 1:
            raise ValueError(
                f"the answer has {len(rows)} rows and {len(self.columns)} columns, not one value: use rows()"
            )
        return rows[0][0]

    def arrow(self, errors: bool = False) -> pyarrow.Table:
        """The rows as a table of pyarrow. With `errors`, a column `name ±` follows each number whose error is known."""
        module = _needed("pyarrow", "pyarrow", "arrow()")
        return cast("pyarrow.Table", module.table(_Shown(self._native, errors)))

    def df(self, errors: bool = False) -> pandas.DataFrame:
        """The rows as a data frame of pandas. With `errors`, a column `name ±` follows each number whose error is known."""
        _needed("pandas", "pandas", "df()")
        return cast("pandas.DataFrame", self.arrow(errors).to_pandas())

    def pl(self, errors: bool = False) -> polars.DataFrame:
        """The rows as a data frame of polars. With `errors`, a column `name ±` follows each number whose error is known."""
        module = _needed("polars", "polars", "pl()")
        return cast("polars.DataFrame", module.DataFrame(_Shown(self._native, errors)))

    @property
    def errors(self) -> dict[str, list[float | None]]:
        """The largest error of each number, row by row, by column, with 95 %. Only columns whose error is known are included.

        NULL has None. The error covers only the noise, not values that bounding contributions and clamping cut off.
        """
        found = {}
        for i, (name, _) in enumerate(self._native.columns()):
            own = self._native.errors(i)
            if any(error is not None for error in own):
                found[name] = own
        return found

    @property
    def accuracy(self) -> tuple[Accuracy, ...]:
        """The accuracy of the released columns, each in its worst row.

        >>> import hushql as hq
        >>> lab = hq.demo().analyst("lab")
        >>> lab.sql("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM adult").accuracy
        (Accuracy(column='n', kind='within', value=3.0, confidence=0.95),)
        """
        return _told.accuracy(self._native.accuracy())

    @property
    def notes(self) -> list[str]:
        """Notes that a reader of the numbers should know."""
        return self._native.notes()

    @property
    def receipt(self) -> Receipt | None:
        """The cost and the remaining budgets; None if it cost nothing."""
        parts = self._native.receipt()
        return None if parts is None else _told.receipt(parts)

    def plot(self, ax: matplotlib.axes.Axes | None = None, x: str | None = None, y: str | None = None) -> matplotlib.axes.Axes:
        """Draws the numbers of column `y` over column `x`, with their 95 % errors: bars over texts, points over numbers.

        Without names, `y` is the first column with errors, otherwise the last column of numbers, and `x` is the first other column.
        """
        pyplot = _needed("matplotlib.pyplot", "matplotlib", "plot()")
        numbers = [name for name, is_number in self._native.columns() if is_number]
        if y is None:
            y = next(iter(self.errors), numbers[-1] if numbers else None)
        if y is None or y not in numbers:
            raise ValueError(f"plot() draws a column of numbers; this answer has {', '.join(numbers) or 'none'}")
        if x is None:
            x = next((name for name in self.columns if name != y), None)
        elif x not in self.columns:
            raise ValueError(f"the answer has no column {x}; it has {', '.join(self.columns)}")
        rows = self.rows()
        at = self.columns.index(y)
        drawn = [i for i, row in enumerate(rows) if row[at] is not None]
        values = [rows[i][at] for i in drawn]
        errors = self.errors.get(y)
        yerr = None if errors is None else [errors[i] or 0.0 for i in drawn]
        axes = pyplot.subplots()[1] if ax is None else ax
        of = None if x is None else self.columns.index(x)
        if of is not None and x in numbers:
            axes.errorbar([rows[i][of] for i in drawn], values, yerr=yerr, fmt="o", capsize=4)
            axes.set_xlabel(x)
        else:
            labels = [y if of is None else _label(rows[i][of]) for i in drawn]
            places = range(len(labels))
            axes.bar(places, values, yerr=yerr, capsize=4)
            axes.set_xticks(list(places), labels, rotation=30, ha="right")
        axes.set_ylabel(y if yerr is None else f"{y} (± 95 %)")
        return axes

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        return self._native.text()

    def _repr_html_(self) -> str:
        errors = self.errors
        head, numeric = [], []
        for name, is_number in self._native.columns():
            head.append(name)
            numeric.append(is_number)
            if name in errors:
                head.append("± 95 %")
                numeric.append(True)
        style = [f' style="{_STYLE}"' if is_number else "" for is_number in numeric]
        cells = "".join(f"<th{one}>{html.escape(name)}</th>" for name, one in zip(head, style))
        lines = [f"<table><thead><tr>{cells}</tr></thead><tbody>"]
        for i, row in enumerate(self._native.texts(SHOWN)):
            shown: list[str] = []
            for name, cell in zip(self.columns, row):
                shown.append("<i>NULL</i>" if cell is None else html.escape(cell))
                if name in errors:
                    error = errors[name][i]
                    shown.append("" if error is None else f"{error:.4g}")
            lines.append("<tr>" + "".join(f"<td{one}>{cell}</td>" for cell, one in zip(shown, style)) + "</tr>")
        lines.append("</tbody></table>")
        if len(self) > SHOWN:
            lines.append(f"<p>… and {len(self) - SHOWN} rows more</p>")
        remarks = "<br>".join(html.escape(remark) for remark in self._native.remarks())
        if remarks:
            lines.append(f"<p><small>{remarks}</small></p>")
        return "".join(lines)


class _Shown:
    """The stream of an answer, with or without its errors."""

    def __init__(self, native: _hushql.Answer, errors: bool) -> None:
        self._native, self._errors = native, bool(errors)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema, self._errors)


def _label(value: object) -> str:
    return "NULL" if value is None else str(value)


def _needed(module: str, package: str, method: str) -> Any:
    """An optional package."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(f"{method} needs {package}: pip install {package}") from None
