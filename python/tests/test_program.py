"""The command `hushql` of the package."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

COMMAND = Path(sysconfig.get_path("scripts")) / "hushql"
if not COMMAND.exists():
    pytest.skip("the package is not installed with its command", allow_module_level=True)


def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(COMMAND), *arguments], input=text, capture_output=True, text=True, check=False)


def test_it_answers_and_returns_the_status_of_the_program() -> None:
    answered = run("demo", "--format", "json", "-c", "SELECT LAPLACE(eps=5) COUNT(*) AS n FROM adult")
    assert answered.returncode == 0, answered
    assert abs(json.loads(answered.stdout)["rows"][0][0] - 32_561) < 20
    refused = run("demo", "-c", "SELECT age FROM adult")
    assert refused.returncode == 3, refused
    spent = run("demo", "-c", "SELECT LAPLACE(eps=99) COUNT(*) FROM adult")
    assert spent.returncode == 4, spent
    assert run("demo", "--no-such-option").returncode == 2
    cluster = run("demo", "--cluster", "keys", "-c", "SELECT 1 AS x")
    assert (cluster.returncode, "cargo build --release -p hushql-cluster" in cluster.stderr) == (1, True), cluster


def test_a_vault_of_the_command_is_one_of_the_package(tmp_path: Path) -> None:
    import hushql as hq

    (tmp_path / "people.csv").write_text("id,age\n" + "".join(f"{i},{20 + i % 50}\n" for i in range(400)))
    vault = str(tmp_path / "study.db")
    assert run("init", vault).returncode == 0
    declared = run(
        vault,
        "--owner",
        text=f"CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{tmp_path / 'people.csv'}';"
        "ALTER TABLE people SET PRIVACY UNIT ROW; CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=2);",
    )
    assert declared.returncode == 0, declared
    with hq.open(vault) as opened:
        assert opened.analyst("lab").budgets()[0].left.amount == 2
    assert run(vault, "--analyst", "lab", "-c", "SELECT LAPLACE(eps=1) COUNT(*) FROM people").returncode == 0


def test_it_is_the_module_and_has_its_version() -> None:
    import hushql as hq

    module = subprocess.run([sys.executable, "-m", "hushql", "--version"], capture_output=True, text=True, check=True)
    assert module.stdout == run("--version").stdout == f"hushql {hq.__version__}\n"


def test_it_imports_nothing_that_it_does_not_need() -> None:
    script = "import sys, hushql.__main__; print(*sorted(n for n in sys.modules if n.startswith(('hushql', 'dataclasses', 'typing'))))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["hushql", "hushql.__main__"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_an_interrupt_ends_it(tmp_path: Path) -> None:
    vault = str(tmp_path / "study.db")
    assert run("init", vault).returncode == 0
    server = subprocess.Popen([str(COMMAND), "serve", vault, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    for line in server.stderr:
        if "listening on 127.0.0.1" in line:
            break
    server.send_signal(signal.SIGINT)
    # The server says goodbye to its clients, or ends by the signal. Python would have noted it and gone on.
    _, rest = server.communicate(timeout=60)
    assert server.returncode in (0, -signal.SIGINT) and "Traceback" not in rest, (server.returncode, rest)
