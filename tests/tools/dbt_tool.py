"""dbt-postgres: the project in dbt/."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import version as installed
from pathlib import Path

from report import HOST, PASSWORD, PORT, USER, expect, step, version

HERE = Path(__file__).resolve().parent
HOME = Path(os.environ["TOOLS_HOME"]) / "project"
OWN = {"DBT_HOST": HOST, "DBT_PORT": PORT, "DBT_USER": USER, "DBT_PASSWORD": PASSWORD, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}


def dbt(*arguments):
    program = Path(sys.executable).parent / "dbt"
    run = subprocess.run([program, "--no-use-colors", *arguments, "--profiles-dir", HOME], cwd=HOME, env={**os.environ, **OWN}, capture_output=True, text=True)
    lines = [line.split("  ", 1)[-1].strip() for line in run.stdout.splitlines() if "rror" in line or "FAIL" in line]
    expect(run.returncode == 0, " ".join(lines)[-450:])


shutil.copytree(HERE / "dbt", HOME)
version(installed("dbt-postgres"))
step("debug", lambda: dbt("debug"))
step("test of a source", lambda: dbt("test", "--select", "test_type:singular"))
step("test", lambda: dbt("test", "--select", "source:*", "--exclude", "test_type:singular"))
step("show", lambda: dbt("show", "--inline", "select count(*) as n from {{ source('study', 'people') }}"))
step("docs", lambda: dbt("docs", "generate"))
step("run", lambda: dbt("run"))
