"""The suites of peers: their questions, in our words, on small tables of our own.

    python3 tests/peers/run.py PROGRAM [FOLDER] [PEER …]            # compares docs/compat.md with what happens
    python3 tests/peers/run.py PROGRAM [FOLDER] [PEER …] --write    # writes its tables anew; --show shows every answer; --duckdb asks DuckDB alone

Each question is asked at an ε so large that noise has a probability of less than 10⁻⁴⁰, and has to equal what DuckDB answers to the same
question in plain SQL. DuckDB is installed into FOLDER (target/peers), once. The run fails if an answer differs, or if a table differs from
the page. `suites.py` describes the files of questions.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

sys.dont_write_bytecode = True

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGE = "duckdb==2.0.1"


def install(folder: Path) -> Path | None:
    """The Python of an environment with DuckDB, or None if it does not install."""
    python = folder / "bin" / "python"
    found = python.exists() and subprocess.run([python, "-c", "import duckdb"], capture_output=True).returncode == 0
    if found:
        return python
    try:
        venv.create(folder, with_pip=True, clear=True)
    except Exception as error:  # Debian has venv in a package of its own.
        print(f"skipped: venv does not work here ({error})")
        return None
    done = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", PACKAGE], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"skipped: {PACKAGE} does not install: {done.stderr.strip().splitlines()[-1]}")
        return None
    return python


def main() -> int:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    options = [word for word in sys.argv[1:] if word.startswith("--")]
    folder = Path(words[1] if len(words) > 1 else ROOT / "target" / "peers").resolve()
    python = install(folder)
    if python is None:
        return 0
    # Each declaration waits for the disk; in memory it does not.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as files:
        asked = [python, HERE / "suites.py", Path(words[0]).resolve(), files, *words[2:], *options]
        return subprocess.run(asked, env={"PYTHONDONTWRITEBYTECODE": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
