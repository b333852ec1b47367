"""A question of HushQL as plain SQL, which DuckDB answers: without mechanisms, options and bounds.

    SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) kind, SUM(x, contribution_bounds_per_group => (0, 5)) FROM t GROUP BY kind
    → SELECT kind, SUM(x) FROM t GROUP BY kind
"""

import re


def closing(text: str, at: int) -> int:
    """The place behind the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place + 1
    raise ValueError(f"a bracket is not closed: {text[at:]}")


def without_calls(text: str, start: str) -> str:
    """The text without each `start(…)`."""
    while found := re.search(rf"(?i)\b{start}\s*\(", text):
        text = text[: found.start()] + text[closing(text, found.end() - 1) :].lstrip()
    return text


def without_named(text: str) -> str:
    """The text without named arguments."""
    while found := re.search(r",\s*(\w+)\s*=>\s*", text):
        at, depth = found.end(), 0
        while depth > 0 or text[at] not in ",)":
            depth += (text[at] == "(") - (text[at] == ")")
            at += 1
        text = text[: found.start()] + text[at:]
    return text


def plain(statement: str) -> str:
    text = without_calls(statement, r"WITH\s+DIFFERENTIAL_PRIVACY\s+OPTIONS")
    text = re.sub(r"(?i)\bWITH\s+DIFFERENTIAL_PRIVACY\s+", "", text)
    text = without_calls(text, r"(?:LAPLACE|GAUSSIAN|EXPONENTIAL|AUTO)")
    text = without_calls(text, r"KEYS")
    return without_named(text)
