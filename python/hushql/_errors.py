"""Exceptions. All exceptions of the engine are subclasses of `Error`.

An exception may quote the statement, names and declarations, but no private value.
"""

from __future__ import annotations


class Error(Exception):
    """A statement has no answer. `message` says why; `hint` says what to write instead, if the engine knows.

    >>> import hushql as hq
    >>> try:
    ...     hq.demo().analyst("lab").sql("SELECT age FROM adult")
    ... except hq.Error as error:
    ...     print(type(error).__name__, error.code)
    Refused HQ001
    """

    kind: str = "error"
    message: str
    hint: str | None
    #: Line and column in the statement, from 1, if they are known.
    position: tuple[int, int] | None

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        position: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.position = position

    def __str__(self) -> str:
        if self.hint is None:
            return self.message
        return f"{self.message}\n  write: {self.hint}"


class SyntaxError(Error):
    """The text does not parse. `position` says where.

    >>> import hushql as hq
    >>> try:
    ...     hq.demo().analyst("lab").sql("SELECT 1 FROM")
    ... except hq.SyntaxError as error:
    ...     print(error.position)
    (1, 14)
    """

    kind = "syntax"


class BindError(Error):
    """A name or a type is wrong. `position` says where.

    >>> import hushql as hq
    >>> try:
    ...     hq.demo().analyst("lab").sql("SELECT oops FROM census")
    ... except hq.BindError as error:
    ...     print(error.position)
    (1, 8)
    """

    kind = "bind"


class Refused(Error):
    """The engine refuses the statement, at no cost. `code` names the reason, and `hint` says what to write instead.

    >>> import hushql as hq
    >>> try:
    ...     hq.demo().analyst("lab").cost("SELECT LAPLACE(within=5) SUM(order_id) FROM orders")
    ... except hq.Refused as error:
    ...     print(error.code, "CLAMP" in error.hint)
    HQ007 True
    """

    kind = "refused"
    code: str = ""

    def __str__(self) -> str:
        return f"{self.code} refused: {super().__str__()}"


class BudgetExhausted(Error):
    """The budget does not suffice. Nothing was charged. `budget` is its name.

    >>> import hushql as hq
    >>> try:
    ...     hq.demo().analyst("lab").sql("SELECT LAPLACE(eps=1000) COUNT(*) FROM adult")
    ... except hq.BudgetExhausted as error:
    ...     print(error.budget)
    adult
    """

    kind = "budget"
    budget: str | None = None


class ExecutionError(Error):
    """The query failed while it ran. Charges stay. The sentence is always the same, because another one could depend on a row."""

    kind = "execution"


class CatalogError(Error):
    """A declaration contradicts the catalog or the data."""

    kind = "catalog"


class VaultError(Error):
    """The vault cannot be read or written: nothing is answered without it.

    >>> import hushql as hq
    >>> try:
    ...     hq.open("/nowhere/study.db")
    ... except hq.VaultError as error:
    ...     print("hushql init" in str(error))
    True
    """

    kind = "ledger"


class ClosedError(VaultError):
    """The vault is closed, or was opened in another process.

    >>> import hushql as hq
    >>> with hq.demo() as vault:
    ...     lab = vault.analyst("lab")
    >>> lab.budgets()
    Traceback (most recent call last):
    hushql.ClosedError: the vault is closed
    """

    kind = "closed"


class InternalError(Error):
    """The engine's own checks failed, or it panicked: a bug. The sentence is always the same."""

    kind = "internal"


_KINDS: dict[str, type[Error]] = {
    one.kind: one
    for one in (
        SyntaxError,
        BindError,
        Refused,
        BudgetExhausted,
        ExecutionError,
        CatalogError,
        VaultError,
        ClosedError,
        InternalError,
    )
}
for _one in (Error, *_KINDS.values()):
    _one.__module__ = "hushql"


def made(
    kind: str,
    message: str,
    code: str | None,
    hint: str | None,
    position: tuple[int, int] | None,
    budget: str | None,
) -> Error:
    """The exception for an error of the engine."""
    error = _KINDS.get(kind, Error)(message, hint, position)
    if isinstance(error, Refused):
        error.code = code or ""
    if isinstance(error, BudgetExhausted):
        error.budget = budget
    return error
