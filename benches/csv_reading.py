"""How long a program takes to read a CSV file, beside an earlier one.

    python3 benches/csv_reading.py target/release/hushql EARLIER/target/release/hushql [MEGABYTES]

Both read the same file (1,000 MB unless said), in turns, five times each after one that warms the cache. It prints the median of each and
their ratio, and fails if the first program takes more than 1.1 times the time of the second. Numbers, dates, decimals and texts in quotes
stand in the file, since each kind has its own reader; the same file as Parquet is not read, because no cell of it is.
"""

import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOST, RUNS = 1.1, 5
QUERY = "SELECT COUNT(*) AS n, SUM(age) AS age, SUM(fee) AS fee, COUNT(DISTINCT day) AS days, COUNT(note) AS notes FROM t"


def write(path: Path, megabytes: int) -> None:
    """Rows of about 60 bytes. One block of them is repeated, since only the time to read them counts."""
    dice = random.Random(7)
    rows = []
    for _ in range(100_000):
        day = f"20{dice.randrange(10, 30)}-{dice.randrange(1, 13):02}-{dice.randrange(1, 29):02}"
        note = '"said ""no"", twice"' if dice.random() < 0.1 else f"note {dice.randrange(10_000)}"
        rows.append(f"{dice.randrange(10**9)},{dice.randrange(100)},{dice.randrange(10**6) / 100:.2f},{day},{dice.random()},{note}\n")
    block = "".join(rows).encode()
    with path.open("wb") as file:
        file.write(b"id,age,fee,day,x,note\n")
        for _ in range(max(1, megabytes * 10**6 // len(block))):
            file.write(block)


def seconds(program: Path, folder: Path, path: Path) -> float:
    columns = "(id BIGINT, age INT, fee DECIMAL(10, 2), day DATE, x DOUBLE, note VARCHAR)"
    vault = folder / f"{abs(hash(program))}.db"
    if not vault.exists():
        subprocess.run([program, "init", vault], check=True, capture_output=True)
        for statement in [f"CREATE EXTERNAL TABLE t {columns} STORED AS CSV LOCATION '{path}'", "ALTER TABLE t SET PUBLIC"]:
            subprocess.run([program, vault, "--owner", "-c", statement], check=True, capture_output=True)
    begin = time.monotonic()
    subprocess.run([program, vault, "--owner", "-c", QUERY], check=True, capture_output=True)
    return time.monotonic() - begin


def main() -> int:
    programs = [Path(word).resolve() for word in sys.argv[1:3]]
    megabytes = int(sys.argv[3]) if len(sys.argv) > 3 else 1_000
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        path = folder / "t.csv"
        write(path, megabytes)
        taken = {program: [] for program in programs}
        for run in range(RUNS + 1):
            for program in programs:
                found = seconds(program, folder, path)
                if run > 0:
                    taken[program].append(found)
    now, before = [statistics.median(taken[program]) for program in programs]
    print(f"{now:.2f} s, earlier {before:.2f} s, ratio {now / before:.3f} (at most {MOST})")
    return 0 if now / before <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
