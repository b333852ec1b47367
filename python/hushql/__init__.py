"""HushQL: a SQL engine with differential privacy, which answers questions about people and protects each of them.

>>> import hushql as hq
>>> vault = hq.demo()
>>> lab = vault.analyst("lab")
>>> answer = lab.sql("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM adult")
>>> answer.accuracy[0].value
3.0
>>> print(answer.receipt)
cost ε = 1 · left adult ε = 9, δ = 1e-5
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._answer import Answer
    from ._errors import (
        BindError,
        BudgetExhausted,
        CatalogError,
        ClosedError,
        Error,
        ExecutionError,
        InternalError,
        Refused,
        SyntaxError,
        VaultError,
    )
    from ._hushql import __version__
    from ._session import Session
    from ._told import Accuracy, Budget, Cost, Explanation, Forecast, Receipt, Spend
    from ._vault import Vault, demo, in_memory, init, open

__all__ = [
    "Accuracy",
    "Answer",
    "BindError",
    "Budget",
    "BudgetExhausted",
    "CatalogError",
    "ClosedError",
    "Cost",
    "Error",
    "ExecutionError",
    "Explanation",
    "Forecast",
    "InternalError",
    "Receipt",
    "Refused",
    "Session",
    "Spend",
    "SyntaxError",
    "Vault",
    "VaultError",
    "__version__",
    "demo",
    "in_memory",
    "init",
    "open",
]


# Where each name is. It is imported when it is first used, so that the command `hushql` starts without what only Python needs.
_MODULES = {
    "_answer": ("Answer",),
    "_errors": (
        "BindError",
        "BudgetExhausted",
        "CatalogError",
        "ClosedError",
        "Error",
        "ExecutionError",
        "InternalError",
        "Refused",
        "SyntaxError",
        "VaultError",
    ),
    "_hushql": ("__version__",),
    "_session": ("Session",),
    "_told": ("Accuracy", "Budget", "Cost", "Explanation", "Forecast", "Receipt", "Spend"),
    "_vault": ("Vault", "demo", "in_memory", "init", "open"),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'hushql' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_WHERE[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext hushql` in a notebook brings the magic `%%hush`."""
    from ._magic import load

    load(ipython)
