"""Real clients against `hushql serve`: each logs in, asks, and looks around.

    python3 tests/clients/run.py TARGET_FOLDER
    python3 tests/clients/run.py --packages TARGET_FOLDER      # installs the clients, and nothing else

The clients are installed into TARGET_FOLDER/clients, once. A client that does not install, or a program that is not there, is
skipped, with a line that says so. The server is TARGET_FOLDER/debug/hushql, on a vault that is made for it.
"""

import os
import subprocess
import sys
import time
import venv
from pathlib import Path

# What each client's package is called, and the module that says it is there.
PACKAGES = {
    "psycopg2-binary": "psycopg2",
    "psycopg[binary]": "psycopg",
    "asyncpg": "asyncpg",
    "pg8000": "pg8000",
    "sqlalchemy": "sqlalchemy",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "polars": "polars",
    "connectorx": "connectorx",
    "adbc-driver-postgresql": "adbc_driver_postgresql",
}


def install(folder: Path) -> Path | None:
    """The Python of the clients' environment, with all packages that install."""
    python = folder / "bin" / "python"
    try:
        if not python.exists():
            venv.create(folder, with_pip=True, clear=True)
    except Exception as error:  # Debian has venv in a package of its own.
        print(f"skipped: clients in Python: venv does not work here ({error})")
        return None
    found = [name for name, module in PACKAGES.items() if not has(python, module)]
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "1", "--timeout", "10"]
    if found and subprocess.run([*pip, *found], capture_output=True).returncode != 0:
        for name in found:
            if subprocess.run([*pip, name], capture_output=True).returncode != 0:
                print(f"skipped: {name} does not install")
    return python


def has(python: Path, module: str) -> bool:
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", look]).returncode == 0


def main() -> int:
    arguments = [word for word in sys.argv[1:] if word != "--packages"]
    target = Path(arguments[0]).resolve()
    here = Path(__file__).resolve().parent
    began = time.monotonic()
    python = install(target / "clients")
    if python is None:
        return 0
    if "--packages" in sys.argv:
        return 0
    installed = time.monotonic()
    done = subprocess.run([python, here / "checks.py", target / "debug" / "hushql", *arguments[1:]], env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    print(f"clients: {installed - began:.1f} s to install, {time.monotonic() - installed:.1f} s to check")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
