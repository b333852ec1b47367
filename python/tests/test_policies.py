"""What owners state, from Python: floors, templates, rules, months and public presence."""

import pytest

import hushql as hq

ROWS = """patient,zip,day,age
1,z1,2026-01-03,30
2,z1,2026-01-09,41
3,z2,2026-02-11,52
"""


@pytest.fixture
def visits(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text(ROWS)
    return path


@pytest.fixture
def stated(visits):
    """An owner with a table of visits, before anybody is declared to be protected."""
    vault = hq.in_memory()
    owner = vault.owner()
    columns = "patient BIGINT, zip VARCHAR, day DATE, age BIGINT"
    owner.execute(f"CREATE EXTERNAL TABLE visits ({columns}) STORED AS CSV LOCATION '{visits}'")
    return vault, owner


def private(owner, unit, limit="epsilon=1000"):
    owner.execute(f"ALTER TABLE visits SET PRIVACY UNIT {unit}")
    owner.execute("ALTER TABLE visits ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 99)")
    owner.execute(f"CREATE PRIVACY BUDGET b FOR visits LIMIT ({limit})")


def test_a_floor_hides_numbers_of_few_people(stated):
    vault, owner = stated
    private(owner, "(patient) UNIQUE")
    owner.execute("ALTER TABLE visits SET PRIVACY FLOOR 10")
    question = "SELECT zip, LAPLACE(eps=400) COUNT(*) AS n FROM visits GROUP BY zip KEYS ('z1', 'z2')"
    answer = vault.analyst("lab").sql(question)
    assert [row[1] for row in answer.rows()] == [None, None]
    assert any("10 people" in note for note in answer.notes)


def test_a_template_is_called_with_values(stated):
    vault, owner = stated
    private(owner, "(patient) UNIQUE")
    body = "SELECT LAPLACE(eps=400) COUNT(*) AS n FROM visits WHERE age > $than"
    owner.execute(f"CREATE TEMPLATE older(than BIGINT BETWEEN (0, 90)) AS {body}")
    lab = vault.analyst("lab")
    assert lab.sql("SELECT * FROM older(40)").scalar() == 2
    with pytest.raises(hq.Refused) as refused:
        lab.sql("SELECT * FROM older(91)")
    assert "older(" in str(refused.value)


def test_a_rule_is_named_by_its_refusal(stated):
    vault, owner = stated
    private(owner, "(patient) UNIQUE")
    owner.execute("ALTER TABLE visits SET RULES (no_key=(zip))")
    with pytest.raises(hq.Refused) as refused:
        vault.analyst("lab").sql("SELECT zip, LAPLACE(eps=1) COUNT(*) FROM visits GROUP BY zip KEYS ('z1')")
    assert refused.value.code == "HQ035" and "no_key=(zip)" in str(refused.value)


def test_a_question_of_a_month_is_charged_to_it(stated):
    vault, owner = stated
    private(owner, "(patient) PER MONTH OF (day) MAX ROWS 1")
    lab = vault.analyst("lab")
    january = "day >= DATE '2026-01-01' AND day < DATE '2026-02-01'"
    answer = lab.sql(f"SELECT LAPLACE(eps=400) COUNT(*) AS n FROM visits WHERE {january}")
    assert answer.scalar() == 2
    assert "2026-01" in str(lab.explain(f"SELECT LAPLACE(eps=1) COUNT(*) FROM visits WHERE {january}").text)


def test_numbers_of_public_presence_are_exact_and_free(stated):
    vault, owner = stated
    private(owner, "(patient) UNIQUE PRESENCE PUBLIC WITH (zip)")
    lab = vault.analyst("lab")
    answer = lab.sql("SELECT zip, COUNT(*) AS n FROM visits GROUP BY zip KEYS ('z1', 'z2') ORDER BY zip")
    assert answer.rows() == [("z1", 2), ("z2", 1)]
    assert float(lab.budgets()[0].left) == 1000.0
