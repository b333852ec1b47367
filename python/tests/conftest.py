"""What the tests share: the built-in tables, and a table that is declared."""

import pytest

import hushql as hq


@pytest.fixture
def vault():
    with hq.demo() as vault:
        yield vault


@pytest.fixture
def lab(vault):
    return vault.analyst("lab")


@pytest.fixture
def declared():
    """Registers a table whose unit is the column `id`, with a budget, and gives an analyst's session."""

    def declare(data, epsilon=1000, vault=None):
        vault = vault or hq.in_memory()
        vault.register("t", data)
        vault.owner().execute(
            f"ALTER TABLE t SET PRIVACY UNIT (id) MAX ROWS 1; CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon={epsilon})"
        )
        return vault.analyst("lab")

    return declare
