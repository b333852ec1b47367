"""Sessions: the statements of the owner and of analysts."""

from __future__ import annotations

import asyncio
import datetime
import decimal
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Union

from . import _told
from ._answer import Answer
from ._told import Budget, Cost, Explanation, Forecast

if TYPE_CHECKING:
    from . import _hushql

#: A value of a parameter. NumPy numbers are accepted, too.
Parameter = Union[None, bool, int, float, str, decimal.Decimal, datetime.date, datetime.datetime, datetime.time]


class Session:
    """The session of an analyst, or of the owner. Make one with `Vault.analyst` or `Vault.owner`.

    Threads may share it. While a statement runs, other Python threads run, too. Ctrl-C ends the wait immediately,
    and the statement at its next pause. Charges stay.
    """

    def __init__(self, native: _hushql.Session, name: str) -> None:
        self._native, self._name = native, name

    def __repr__(self) -> str:
        return f"<hushql session of {self._name}>"

    def sql(self, query: str, params: Iterable[Parameter] | None = None) -> Answer:
        """Answers a query, and charges it once. Values replace `$1`, `$2`, …, and are never parsed as SQL.

        >>> import hushql as hq
        >>> lab = hq.demo().analyst("lab")
        >>> answer = lab.sql("SELECT LAPLACE(eps=0.1) COUNT(*) FROM adult WHERE age > $1 AND sex = $2", [40, "Male"])
        >>> answer.receipt.spent.epsilon
        0.1
        """
        return _answer(self._start(query, params).wait())

    async def asql(self, query: str, params: Iterable[Parameter] | None = None) -> Answer:
        """The same for asyncio. A cancelled task stops waiting. Charges stay.

        >>> import asyncio, hushql as hq
        >>> lab = hq.demo().analyst("lab")
        >>> asyncio.run(lab.asql("SELECT 1")).scalar()
        1
        """
        running = self._start(query, params)
        try:
            return _answer(await asyncio.to_thread(running.wait))
        except asyncio.CancelledError:
            running.cancel()
            raise

    def execute(self, script: str) -> Answer | Explanation | str:
        """Runs statements of any kind, separated by `;`, and returns the result of the last one: rows, an explanation or a sentence.

        >>> import hushql as hq
        >>> hq.demo().owner().execute("ALTER TABLE census SET PUBLIC")
        'table census is public: answers may show its rows to anyone'
        """
        return _given(self._native.execute(_text(script, "a statement")))

    def explain(self, query: str) -> Explanation:
        """The releases, the cost and the accuracy that a query would have. It reads no private data and costs nothing."""
        return _told.explanation(self._native.explain(_text(query, "a query")))

    def cost(self, query: str) -> Cost:
        """The cost of a statement, without running it. It raises the errors that the statement would raise before its charge."""
        return _told.cost(self._native.cost(_text(query, "a query")))

    def forecast(self, query: str) -> list[Forecast]:
        """The cost and the accuracy that a query would have, at smaller and larger ε. It costs nothing.

        >>> import hushql as hq
        >>> lab = hq.demo().analyst("lab")
        >>> told = lab.forecast("SELECT LAPLACE(eps=0.5) COUNT(*) FROM adult")
        >>> {one.cost.epsilon: one.accuracy[0].value for one in told}[0.25]
        12.0
        """
        told = self._native.forecast(_text(query, "a query"))
        return [Forecast(_told.cost(cost), _told.accuracy(accuracy)) for cost, accuracy in told]

    def budgets(self) -> list[Budget]:
        """The budgets, with spending and remainder. If a budget has slices, an analyst sees only their own.

        >>> import hushql as hq
        >>> for budget in hq.demo().analyst("lab").budgets():
        ...     print(budget)
        adult for adult: ε = 10, δ = 1e-5 of ε = 10, δ = 1e-5 left
        bids for bids: ε = 10, δ = 1e-5 of ε = 10, δ = 1e-5 left
        orders for orders: ε = 10, δ = 1e-5 of ε = 10, δ = 1e-5 left
        """
        found = self._native.budgets()
        return [Budget(name, table, *(_told.spend(one) for one in spends)) for name, table, *spends in found]

    def tables(self) -> dict[str, list[str]]:
        """The tables and views, with their columns.

        >>> import hushql as hq
        >>> hq.demo().analyst("lab").tables()["bids"]
        ['bidder', 'bid']
        """
        return dict(self._native.tables())

    def _start(self, query: str, params: Iterable[Parameter] | None) -> _hushql.Running:
        return self._native.start(_text(query, "a query"), _values(params))


def _answer(given: object) -> Answer:
    answer = _given(given)
    if not isinstance(answer, Answer):
        raise TypeError("this statement has no rows: use execute()")
    return answer


def _given(given: Any) -> Answer | Explanation | str:
    if isinstance(given, str):
        return given
    if isinstance(given, tuple):
        return _told.explanation(given)
    return Answer(given)


def _text(text: object, what: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{what} is a str, not {type(text).__name__}")
    return text


def _values(params: Iterable[Parameter] | None) -> list[None | bool | int | float | str | _Digits]:
    if params is None:
        return []
    if isinstance(params, (str, bytes, dict, set, frozenset)):
        raise TypeError(f"values for $1, $2, … are a list, not {type(params).__name__}")
    return [_value(value, i + 1) for i, value in enumerate(params)]


class _Digits:
    """The digits of a decimal. The engine keeps all of them."""

    def __init__(self, digits: str) -> None:
        self.digits = digits


def _digits(value: decimal.Decimal) -> _Digits | None:
    """A decimal without an exponent, if it has at most 38 significant digits."""
    if not value.is_finite() or abs(value.adjusted()) > 38:
        return None
    digits = format(value, "f")
    whole, _, fraction = digits.lstrip("-").partition(".")
    count = len(whole.lstrip("0")) + len(fraction.rstrip("0"))
    return _Digits(digits) if count <= 38 else None


def _value(value: Any, number: int) -> None | bool | int | float | str | _Digits:
    """A parameter in the form for the engine. An error names its type, not the value."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, str):
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise ValueError(f"the text of ${number} is not valid in Unicode")
        return str(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"the value of ${number} does not fit into 64 bits")
        return int(value)
    if isinstance(value, decimal.Decimal):
        digits = _digits(value)
        if digits is None:
            raise ValueError(f"the Decimal of ${number} is not a number of at most 38 digits")
        return digits
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return str(value.isoformat(sep=" "))
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    raise TypeError(f"the value of ${number} is None, a bool, a number, a str or a date, not {type(value).__name__}")
