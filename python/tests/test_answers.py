"""Answers of the built-in tables: rows, errors, receipts, exceptions, and that reading is free."""

import asyncio
import datetime
import decimal
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

import hushql as hq

COUNT = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM adult"
BY_SEX = "SELECT sex, LAPLACE(eps=1) COUNT(*) AS n FROM adult GROUP BY sex"


def left(session, name="adult"):
    return next(float(one.left) for one in session.budgets() if one.name == name)


def test_a_question_is_answered_and_charged_once(lab):
    answer = lab.sql(BY_SEX)
    assert answer.columns == ["sex", "n"] and len(answer) == 2
    assert {row[0] for row in answer.rows()} == {"Female", "Male"}
    assert all(abs(n - 16_000) < 10_000 for _, n in answer.rows())
    assert answer.errors == {"n": [3.0, 3.0]}
    assert answer.accuracy == (hq.Accuracy("n", "within", 3.0, 0.95),)
    assert answer.receipt.spent.epsilon == 1.0 and float(answer.receipt.left["adult"]) == 9.0
    for _ in range(3):
        answer.rows(), str(answer), repr(answer), answer._repr_html_(), answer.errors, answer.receipt
    assert left(lab) == 9.0


def test_choices_have_an_accuracy_and_no_error(lab):
    answer = lab.sql("SELECT ARGMAX EXPONENTIAL(eps=1) status FROM adult GROUP BY status")
    assert answer.errors == {}
    assert [one.kind for one in answer.accuracy] == ["winner", "average"]
    assert isinstance(answer.scalar(), str)


def test_the_page_of_an_answer_shows_rows_errors_and_receipt_and_escapes(vault, lab):
    html = lab.sql(BY_SEX)._repr_html_()
    assert "± 95 %" in html and "cost ε = 1" in html and "<table>" in html
    html = lab.sql("SELECT '<script>alert(1)</script>' AS \"<b>\", NULL AS nothing")._repr_html_()
    assert "<script>" not in html and "<b>" not in html and "<i>NULL</i>" in html


def test_what_is_known_beforehand_costs_nothing(lab):
    cost = lab.cost("SELECT LAPLACE(eps=1) COUNT(*), LAPLACE(eps=0.5) AVG(age) FROM adult")
    assert (str(cost), cost.epsilon, cost.rho, cost.is_free) == ("ε = 1.5", 1.5, None, False)
    assert lab.cost("SELECT 1").is_free and lab.cost("SELECT 1").epsilon == 0.0
    explanation = lab.explain(COUNT)
    assert "LAPLACE" in explanation.text and json.dumps(explanation.json).count("LAPLACE")
    assert "<pre>" in explanation._repr_html_()
    told = {one.cost.epsilon: one.accuracy[0].value for one in lab.forecast(COUNT)}
    assert told[0.5] == 2 * told[1.0]
    assert left(lab) == 10.0


def test_values_take_the_place_of_parameters(lab):
    query = "SELECT $1 AS a, $2 AS b, $3 AS c, $4 AS d, $5 AS e"
    row = lab.sql(query, [None, True, -5, 0.5, "it's; DROP TABLE adult"]).rows()[0]
    assert row == (None, True, -5, 0.5, "it's; DROP TABLE adult")
    dates = [datetime.date(2026, 2, 28), datetime.datetime(2026, 2, 28, 12, 30), decimal.Decimal("0.25")]
    assert lab.sql("SELECT $1 AS a, $2 AS b, $3 AS c", dates).rows() == [
        ("2026-02-28", "2026-02-28 12:30:00", decimal.Decimal("0.25"))
    ]
    exact = decimal.Decimal("12345678901234567890.123456789012345678")
    assert lab.sql("SELECT $1 AS a, $1 = 12345678901234567890.123456789012345678 AS b", [exact]).rows() == [(exact, True)]
    east = datetime.timezone(datetime.timedelta(hours=2))
    assert lab.sql("SELECT $1 AS a", [datetime.datetime(2026, 1, 1, 1, tzinfo=east)]).rows() == [("2025-12-31 23:00:00",)]
    assert lab.sql("SELECT $1 AS a", (one for one in [7])).scalar() == 7


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ("ab", TypeError),
        ({"a": 1}, TypeError),
        (5, TypeError),
        ([b"bytes"], TypeError),
        ([[1]], TypeError),
        ([object()], TypeError),
        ([1 + 2j], TypeError),
        ([2**63], ValueError),
        ([decimal.Decimal("NaN")], ValueError),
        ([decimal.Decimal("0.123456789012345678901234567890123456789")], ValueError),
        ([decimal.Decimal("1E+400")], ValueError),
        ([math.nan], hq.Refused),
        ([math.inf], hq.Refused),
        (["\udc80"], ValueError),
        ([], hq.Refused),
        ([1, 2], hq.Refused),
    ],
)
def test_strange_values_are_not_taken(lab, values, error):
    with pytest.raises(error):
        lab.sql("SELECT LAPLACE(eps=1) COUNT(*) FROM adult WHERE age > $1", values)
    assert left(lab) == 10.0


@pytest.mark.parametrize("text", [None, 5, b"SELECT 1", ["SELECT 1"]])
def test_a_statement_is_a_str(lab, text):
    for ask in (lab.sql, lab.cost, lab.explain, lab.execute, lab.forecast):
        with pytest.raises(TypeError):
            ask(text)


def test_exceptions_tell_code_hint_position_and_budget(lab):
    with pytest.raises(hq.Refused) as refused:
        lab.sql("SELECT LAPLACE(within=5) SUM(order_id) FROM orders")
    assert refused.value.code == "HQ007" and "CLAMP" in refused.value.hint
    assert str(refused.value).startswith("HQ007 refused: ") and "write: CLAMP" in str(refused.value)
    with pytest.raises(hq.BudgetExhausted) as exhausted:
        lab.sql("SELECT LAPLACE(eps=1000) COUNT(*) FROM adult")
    assert exhausted.value.budget == "adult"
    with pytest.raises(hq.SyntaxError) as syntax:
        lab.sql("SELECT 1\n  1 1")
    assert syntax.value.position[0] == 2
    with pytest.raises(hq.BindError) as bind:
        lab.sql("SELECT oops FROM census")
    assert bind.value.position == (1, 8)
    with pytest.raises(hq.SyntaxError) as second:
        lab.execute("SELECT 1;\nSELEC 2")
    assert second.value.position[0] == 2
    for one in (hq.Refused, hq.BudgetExhausted, hq.SyntaxError, hq.BindError, hq.ExecutionError, hq.CatalogError):
        assert issubclass(one, hq.Error)
    assert issubclass(hq.ClosedError, hq.VaultError) and issubclass(hq.InternalError, hq.Error)
    assert left(lab) == 10.0


def test_statements_of_any_kind_are_executed(vault, lab):
    assert isinstance(lab.execute("SHOW PRIVACY"), hq.Answer)
    assert isinstance(lab.execute(f"EXPLAIN PRIVACY {COUNT}"), hq.Explanation)
    owner = vault.owner()
    said = owner.execute("ALTER TABLE census SET PUBLIC; CREATE PRIVACY BUDGET more FOR adult LIMIT (epsilon=5);")
    assert said.startswith("budget more")
    assert lab.execute("  ") == ""
    with pytest.raises(hq.Refused):
        lab.execute("ALTER TABLE adult SET PUBLIC")
    with pytest.raises(hq.Refused, match="execute"):
        lab.sql("SHOW PRIVACY")


def test_one_value(lab):
    assert lab.sql("SELECT 2").scalar() == 2
    with pytest.raises(ValueError, match="rows"):
        lab.sql("SELECT 1 AS a, 2 AS b").scalar()


def test_a_panic_is_the_constant_sentence(capfd):
    with pytest.raises(hq.InternalError) as error:
        hq._vault._hushql._panics("cell 42")
    assert str(error.value) == "the engine's own checks failed, and nothing was answered; please report the query"
    out = capfd.readouterr()
    assert "42" not in out.out + out.err + repr(error.value)


def test_vaults_on_disk(tmp_path):
    path = tmp_path / "study.db"
    with hq.init(path) as vault:
        assert str(path) in repr(vault)
        with pytest.raises(hq.VaultError):
            hq.init(path)
    with hq.open(str(path)) as vault:
        assert vault.owner().budgets() == []
        assert "CREATE" not in vault.dump()
        assert isinstance(vault.doctor(), hq.Answer)
    with pytest.raises(hq.VaultError):
        hq.open(tmp_path / "none.db")
    for wrong in (None, 5):
        with pytest.raises(TypeError):
            hq.open(wrong)
    (tmp_path / "kept").mkdir()
    anchored = tmp_path / "kept" / "other.db"
    hq.init(anchored, anchor=tmp_path / "other.anchor").close()
    with pytest.raises(hq.VaultError):
        hq.open(anchored)
    hq.open(anchored, anchor=tmp_path / "other.anchor").close()


def test_a_closed_vault_answers_nothing(vault):
    lab, owner = vault.analyst("lab"), vault.owner()
    answer = lab.sql(COUNT)
    vault.close()
    vault.close()
    for ask in (
        lambda: lab.sql(COUNT),
        lambda: owner.execute("SELECT 1"),
        lambda: lab.budgets(),
        lambda: vault.analyst("other"),
        lambda: vault.owner(),
        lambda: vault.register("t", answer),
        lambda: vault.dump(),
    ):
        with pytest.raises(hq.ClosedError):
            ask()
    assert "closed" in repr(vault)
    assert len(answer.rows()) == 1, "an answer outlives its vault"


def test_a_closed_file_can_be_opened_again_while_sessions_are_held(tmp_path):
    path = tmp_path / "study.db"
    vault = hq.init(path)
    lab = vault.analyst("lab")
    vault.close()
    again = hq.open(path)
    assert again.analyst("lab").budgets() == []
    with pytest.raises(hq.ClosedError):
        lab.budgets()


def test_two_vaults_are_apart(tmp_path):
    one, two = hq.demo(), hq.demo()
    one.analyst("lab").sql(COUNT)
    assert left(two.analyst("lab")) == 10.0 and left(one.analyst("lab")) == 9.0


@pytest.mark.parametrize("name", ["owner", "0wner", "", "a b", "x" * 65, "ä"])
def test_names_of_analysts(vault, name):
    with pytest.raises(hq.Error):
        vault.analyst(name)


def test_threads_share_a_session_and_each_answer_is_charged(lab):
    answers, errors = [], []

    def ask():
        try:
            for _ in range(3):
                answers.append(lab.sql("SELECT LAPLACE(eps=0.1) COUNT(*) FROM adult").receipt)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not errors and len(answers) == 24
    charged = sum(receipt.spent.parts[0].amount for receipt in answers if receipt.spent.parts)
    assert left(lab) == 10.0 - float(charged)


def test_other_threads_run_while_a_query_does(lab):
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    begun = time.monotonic()
    lab.sql("SELECT status, sex, LAPLACE(eps=1) COUNT(*) FROM adult GROUP BY status, sex")
    ended = time.monotonic()
    stop.set()
    thread.join()
    within = [one for one in ticks if begun < one < ended]
    assert len(within) >= 3, "the GIL was held"


def test_asyncio(lab):
    async def ask():
        return await asyncio.gather(*(lab.asql("SELECT LAPLACE(eps=0.5) COUNT(*) FROM adult") for _ in range(4)))

    assert len(asyncio.run(ask())) == 4

    async def refused():
        await lab.asql("SELECT age FROM adult")

    with pytest.raises(hq.Refused):
        asyncio.run(refused())


# Some seconds of one core: a join of eight small tables without a condition.
SLOW = f"SELECT SUM({' * '.join(f'{name}.share' for name in 'abcdefgh')}) FROM {', '.join(f'census {name}' for name in 'abcdefgh')}"


def test_a_cancelled_task_ends(lab):
    async def cancelled():
        task = asyncio.create_task(lab.asql(SLOW))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    begun = time.monotonic()
    asyncio.run(cancelled())
    assert time.monotonic() - begun < 10


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name == "nt", reason="signals of Unix")
def test_ctrl_c_ends_the_wait():
    script = f"""
import hushql as hq, os, signal, threading, time
# A shell's background jobs ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
lab = hq.demo().analyst("lab")
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begun = time.monotonic()
try:
    lab.sql({SLOW!r})
except KeyboardInterrupt:
    assert time.monotonic() - begun < 10
    print(lab.sql("SELECT 1").scalar(), "interrupted")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "1 interrupted", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_vault_does_not_survive_a_fork_and_a_child_opens_its_own():
    script = f"""
import hushql as hq, os, sys, warnings
warnings.simplefilter("ignore")
vault = hq.demo()
lab = vault.analyst("lab")
lab.sql({COUNT!r})
sys.stdout.flush()
child = os.fork()
if child == 0:
    try:
        lab.sql({COUNT!r})
    except hq.ClosedError as error:
        assert "fork" in str(error)
        hq.demo().analyst("lab").sql({COUNT!r})
        del lab, vault
        os._exit(7)
    os._exit(1)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), lab.sql({COUNT!r}).receipt.spent.epsilon is not None)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "7 True", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_that_ends_leaves_the_file_of_its_parent_alone(tmp_path):
    script = f"""
import hushql as hq, os, sys, warnings
warnings.simplefilter("ignore")
vault = hq.init({str(tmp_path / "study.db")!r})
with open({str(tmp_path / "rows.csv")!r}, "w") as rows:
    rows.write("id\\n1\\n2\\n")
vault.register_files("t", {str(tmp_path / "rows.csv")!r})
vault.owner().execute("ALTER TABLE t SET PRIVACY UNIT (id) MAX ROWS 1; CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=3)")
lab = vault.analyst("lab")
lab.sql({COUNT.replace("adult", "t")!r})
child = os.fork()
if child == 0:
    del lab, vault
    sys.exit(7)
_, status = os.waitpid(child, 0)
lab.sql({COUNT.replace("adult", "t WHERE id > 1")!r})
del lab
vault.close()
vault = hq.open({str(tmp_path / "study.db")!r})
print(os.waitstatus_to_exitcode(status), vault.owner().budgets()[0].left)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "7 ε = 1", done.stderr


@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="no /proc")
def test_memory_returns_after_a_thousand_queries():
    script = """
import hushql as hq, os, pathlib

def megabytes():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

def ask(times):
    for i in range(times):
        lab.sql("SELECT status, share FROM census").rows()
        if i % 4 == 0:
            lab.sql("SELECT LAPLACE(eps=0.001) COUNT(*) AS n FROM adult").rows()

lab = hq.demo().analyst("lab")
ask(200)
before = megabytes()
ask(1000)
print(round(megabytes() - before))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert int(done.stdout) < 20, f"{done.stdout} megabytes more {done.stderr}"


def test_plots(lab):
    pytest.importorskip("matplotlib").use("Agg")
    axes = lab.sql(BY_SEX).plot()
    assert axes.get_ylabel() == "n (± 95 %)" and len(axes.patches) == 2
    axes = lab.sql("SELECT 1 AS x, 2.0 AS y UNION ALL SELECT 2, 3.0").plot(x="x", y="y")
    assert axes.get_xlabel() == "x"
    assert lab.sql("SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM adult").plot() is not None
    with pytest.raises(ValueError, match="numbers"):
        lab.sql("SELECT 'a' AS a").plot()
    with pytest.raises(ValueError, match="no column z"):
        lab.sql(COUNT).plot(x="z")


def test_the_magic_of_notebooks(vault, lab, capsys):
    testing = pytest.importorskip("IPython.testing.globalipapp")
    shell = testing.start_ipython() or testing.get_ipython()
    shell.run_line_magic("load_ext", "hushql")
    shell.user_ns.update(lab=lab, hq=hq)
    answer = shell.run_cell_magic("hush", "lab answer", COUNT)
    assert isinstance(answer, hq.Answer) and shell.user_ns["answer"] is answer
    assert shell.run_line_magic("hush", "lab SELECT 1").scalar() == 1
    assert shell.run_line_magic("hush", "SELECT 1").scalar() == 1
    assert shell.run_cell_magic("hush", "", "SELECT 1; SELECT 2").scalar() == 2
    with pytest.raises(ValueError, match="is not a session"):
        shell.run_cell_magic("hush", "nobody", COUNT)
    with pytest.raises(hq.Refused):
        shell.run_cell_magic("hush", "lab", "SELECT age FROM adult")


def test_stubs_name_what_there_is():
    import ast

    import hushql._hushql as native

    package = pathlib.Path(hq.__file__).parent
    assert (package / "py.typed").exists()
    tree = ast.parse((package / "_hushql.pyi").read_text())
    for node in tree.body:
        # A protocol is a type for the checker alone.
        if isinstance(node, ast.ClassDef) and node.name.startswith("_"):
            assert [base.id for base in node.bases] == ["Protocol"], node.name
        elif isinstance(node, ast.ClassDef):
            own = getattr(native, node.name)
            names = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
            assert names == {name for name in vars(own) if not name.startswith("__") or name in names}, node.name
        if isinstance(node, ast.FunctionDef):
            assert callable(getattr(native, node.name))


def test_what_is_public_has_a_docstring():
    for name in hq.__all__:
        one = getattr(hq, name)
        if name != "__version__":
            assert one.__doc__, name
        for own, value in vars(one).items() if isinstance(one, type) else ():
            if not own.startswith("_") and (callable(value) or isinstance(value, property)):
                assert value.__doc__, f"{name}.{own}"


def test_types_are_whole(tmp_path):
    api = pytest.importorskip("mypy.api")
    package = tmp_path / "hushql"
    package.mkdir()
    for file in pathlib.Path(hq.__file__).parent.glob("*.py*"):
        (package / file.name).write_bytes(file.read_bytes())
    out, err, status = api.run(["--strict", "--ignore-missing-imports", "--cache-dir", os.devnull, str(package)])
    assert status == 0, out + err


def test_the_bindings_use_what_any_program_can_import():
    import re

    source = pathlib.Path(__file__).parent.parent / "src"
    files = sorted(source.glob("*.rs"))
    assert len(files) >= 7
    for file in files:
        text = file.read_text()
        assert not re.search(r"hushql::\{?\s*[a-z_]+::", text), f"{file.name} names a hidden module"
        assert "unsafe" not in text and len(text.splitlines()) <= 600, file.name
