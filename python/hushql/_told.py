"""Facts about privacy: amounts, receipts, accuracies, budgets and explanations."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any


@dataclass(frozen=True)
class Spend:
    """An amount in one notion: `epsilon` or `rho` with a δ, or a number of `coupons`, as exact decimals."""

    notion: str
    amount: Decimal
    delta: Decimal
    text: str = field(compare=False)

    def __str__(self) -> str:
        return self.text

    def __float__(self) -> float:
        return float(self.amount)


@dataclass(frozen=True)
class Cost:
    """The cost of a statement, in the notions of the budgets that it is charged to.

    >>> import hushql as hq
    >>> cost = hq.demo().analyst("lab").cost("SELECT LAPLACE(eps=0.5) COUNT(*) FROM adult")
    >>> print(cost)
    ε = 0.5
    >>> cost.epsilon, cost.is_free
    (0.5, False)
    """

    text: str = field(compare=False)
    parts: tuple[Spend, ...]

    def __str__(self) -> str:
        return self.text

    def _in(self, notion: str) -> Spend | None:
        return next((part for part in self.parts if part.notion == notion), None)

    @property
    def epsilon(self) -> float | None:
        """The ε; None if the budgets do not count in ε. A free statement costs 0."""
        part = self._in("epsilon")
        return float(part.amount) if part else (0.0 if self.is_free else None)

    @property
    def delta(self) -> float | None:
        """The δ that belongs to the ε."""
        part = self._in("epsilon")
        return float(part.delta) if part else (0.0 if self.is_free else None)

    @property
    def rho(self) -> float | None:
        """The ρ; None if no budget counts in ρ."""
        part = self._in("rho")
        return float(part.amount) if part else (0.0 if self.is_free else None)

    @property
    def is_free(self) -> bool:
        """Whether nothing is charged."""
        return all(part.amount == 0 and part.delta == 0 for part in self.parts)


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of one released column. It covers only the noise, not values that bounds and clamps cut off.

    `kind` is `within` (± `value`), `drawn` (the same, for numbers that decide whether their row is shown), `winner` (the score
    is within `value` of the best), `own_rows`, `rank` (in rows), `block_rank` (in values of blocks), `average` (the mean distance from the best) or `truthful`
    (`value` is a probability). `confidence` is 0.95, or 1 for an average or a probability.
    """

    column: str
    kind: str
    value: float
    confidence: float


@dataclass(frozen=True)
class Receipt:
    """The cost of an answer, and the remaining budgets. `sequence` is the number of the charge in `hushql.ledger`."""

    text: str = field(compare=False)
    spent: Cost
    left: dict[str, Spend]
    cells: tuple[str, ...]
    sequence: int
    #: Whether the answer was paid for before, and is replayed.
    is_replayed: bool
    #: The numbers of the charges that paid for the replayed releases.
    replayed: tuple[int, ...]
    #: The numbers of the charges that paid for kept draws on which the answer is built.
    refined: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Budget:
    """A budget as its reader sees it."""

    name: str
    table: str
    limit: Spend
    spent: Spend
    left: Spend

    def __str__(self) -> str:
        return f"{self.name} for {self.table}: {self.left} of {self.limit} left"


@dataclass(frozen=True)
class Forecast:
    """The cost and the accuracy that a query would have at one ε."""

    cost: Cost
    accuracy: tuple[Accuracy, ...]


@dataclass(frozen=True, repr=False)
class Explanation:
    """The releases, the cost and the accuracy that a query would have. `json` has the same as a dictionary.

    >>> import hushql as hq
    >>> explanation = hq.demo().analyst("lab").explain("SELECT LAPLACE(eps=1) COUNT(*) FROM adult")
    >>> "LAPLACE" in explanation.text
    True
    """

    text: str
    json: dict[str, Any] = field(compare=False)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


def spend(parts: tuple[str, str, str, str]) -> Spend:
    notion, amount, delta, text = parts
    return Spend(notion, Decimal(amount), Decimal(delta), text)


def cost(parts: tuple[str, list[tuple[str, str, str, str]]]) -> Cost:
    text, spends = parts
    return Cost(text, tuple(spend(one) for one in spends))


def accuracy(parts: list[tuple[str, str, float, float]]) -> tuple[Accuracy, ...]:
    return tuple(Accuracy(*one) for one in parts)


def receipt(parts: tuple[Any, ...]) -> Receipt:
    text, spent, left, cells, sequence, is_replayed, (replayed, refined) = parts
    by_budget = {budget: spend(one) for budget, one in left}
    return Receipt(text, cost(spent), by_budget, tuple(cells), sequence, is_replayed, tuple(replayed), tuple(refined))


def explanation(parts: tuple[str, str]) -> Explanation:
    text, as_json = parts
    return Explanation(text, json.loads(as_json))
