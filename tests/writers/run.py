"""Files as real writers write them: each writer's types, as HushQL reads them.

    python3 tests/writers/run.py PROGRAM [FOLDER]            # compares docs/formats.md with what happens
    python3 tests/writers/run.py PROGRAM [FOLDER] --write    # writes its tables anew; --tries shows all that was tried

The packages are installed into FOLDER (target/writers), once, each environment by itself: pandas 2 and 3, and Spark, which needs Java.
An environment that does not install is skipped, and then the page is not compared. The run fails if a value is not what its writer wrote,
or if a table differs from the page.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

sys.dont_write_bytecode = True

from ask import Program, ask
from page import OUT, answers, replaced, tables

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "formats.md"

# Each environment: its script, and its packages with their versions.
ENVIRONMENTS = {
    "libraries": (
        "libraries.py",
        [
            "pandas==3.1.1",
            "pyarrow==26.0.1",
            "polars==2.1.0",
            "duckdb==2.0.1",
            "fastparquet==2026.9.0",
            "fastavro==1.13.1",
            "deltalake==1.6.6",
            "dask[dataframe]==2026.8.0",
            "pyreadstat==1.3.7",
            "openpyxl==3.1.5",
        ],
    ),
    "pandas2": ("libraries.py", ["pandas==2.3.3", "pyarrow==26.0.1"]),
    "spark": ("spark.py", ["pyspark==4.3.0"]),
}


def install(folder: Path, packages: list) -> Path | None:
    """The Python of an environment with these packages, or None if they do not install."""
    python, stamp = folder / "bin" / "python", folder / "packages"
    if stamp.exists() and stamp.read_text() == "\n".join(packages):
        return python
    try:
        venv.create(folder, with_pip=True, clear=True)
    except Exception as error:  # Debian has venv in a package of its own.
        print(f"skipped: {folder.name}: venv does not work here ({error})")
        return None
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    done = subprocess.run([*pip, *packages], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"skipped: {folder.name}: {done.stderr.strip().splitlines()[-1]}")
        return None
    stamp.write_text("\n".join(packages))
    return python


def written(target: Path, files: Path) -> tuple:
    """What all writers wrote, and the environments that are not there."""
    notes, skipped = [], []
    for name, (script, packages) in ENVIRONMENTS.items():
        if name == "spark" and not shutil.which("java"):
            print("skipped: spark: there is no Java")
            skipped.append(name)
            continue
        python = install(target / name, packages)
        if python is None:
            skipped.append(name)
            continue
        folder = files / name
        folder.mkdir()
        subprocess.run([python, HERE / script, folder], check=True, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        notes += [json.loads(line) for line in (folder / "wrote.jsonl").read_text().splitlines()]
        print(f"{name}: {len(notes)} files so far")
    return notes, skipped


def answers_read(program: Path, target: Path, files: Path) -> list:
    """What COPY writes, as the libraries read it; fails if one of them reads another value."""
    folder = files / "answers"
    folder.mkdir()
    python = target / "libraries" / "bin" / "python"
    words = [python, "-W", "ignore", HERE / "answers.py", program, folder]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> int:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    program = Path(words[0]).resolve()
    target = Path(words[1] if len(words) > 1 else ROOT / "target" / "writers").resolve()
    target.mkdir(parents=True, exist_ok=True)
    # Each declaration waits for the disk; in memory it does not.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as files:
        files = Path(files)
        notes, skipped = written(target, files)
        notes = unique(notes)
        results, tried = ask(Program(program, files), notes)
        read = None if "libraries" in skipped else answers_read(program, target, files)
    wrong = [(note, result) for note, result in zip(notes, results) if result.how == "wrong"]
    for note, result in wrong:
        print(f"WRONG: {note['writer']}, {note['format']}, {note['kind']}: {result.sentence}")
    if "--tries" in sys.argv:
        show(notes, tried)
    page = PAGE.read_text()
    new = replaced(page, tables(notes, results))
    if read is not None:
        new = replaced(new, answers(read), OUT)
    if "--write" in sys.argv:
        PAGE.write_text(new)
    changed = "--write" not in sys.argv and not skipped and new != page
    if changed:
        print("docs/formats.md differs from what happens: run with --write, and look at the difference")
    print(f"{len(notes) - len(wrong) - changed} passed, {len(wrong) + changed} failed")
    return 1 if wrong or changed else 0


def show(notes: list, tried: list) -> None:
    """All that was tried, for whoever looks for the cause of a cell."""
    for note, tries in zip(notes, tried):
        for way, result in tries:
            print(f"{note['format']} | {note['writer']} | {note['kind']} | {way}: {result.how}: {result.sentence}")


def unique(notes: list) -> list:
    """Each writer once: those that two environments have are of the first."""
    seen = {}
    for note in notes:
        seen.setdefault((note["writer"], note["format"], note["kind"]), note)
    return list(seen.values())


if __name__ == "__main__":
    sys.exit(main())
