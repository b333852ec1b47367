"""The distance of synthetic rows from the true ones: the mean total variation over all pairs of columns, and the seconds.

    synthetic.py PEER  FOLDER ADULT.csv [--columns 14|4] [--delta D] [--seed N] [--program HUSHQL]    adds a line to FOLDER/synthetic.jsonl
    synthetic.py table FOLDER ADULT.csv [--columns 14|4] [--delta D]                                   prints a Markdown table of them

Each peer gets the same integers 0, 1, 2, … for the values of each column, and their number. Both are public, and never computed
from the rows. The script `synthetic` runs this file once for each peer and seed, with an environment for each package.
"""

import argparse
import csv
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

EPSILON = 1.0
# The range of each integer column, and its number of buckets. Other columns have the values that occur in the published table.
NUMBERS = {
    "age": (17, 90, 74),
    "fnlwgt": (0, 1_500_000, 100),
    "education_num": (1, 16, 16),
    "capital_gain": (0, 99_999, 100),
    "capital_loss": (0, 4_499, 100),
    "hours_per_week": (1, 99, 99),
}
FOURTEEN = [
    "age", "workclass", "fnlwgt", "education_num", "status", "occupation", "relationship",
    "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
]
FOUR = ["age", "sex", "status", "income"]


def coded(path, columns):
    """Rows of codes, and the number of codes of each column."""
    import numpy as np

    rows = list(csv.DictReader(open(path, newline="")))
    codes, sizes = [], []
    for column in columns:
        values = [row[column] for row in rows]
        if column in NUMBERS:
            low, high, parts = NUMBERS[column]
            size = parts
            codes.append([(min(max(int(v), low), high) - low) * parts // (high - low + 1) for v in values])
        else:
            known = {value: at for at, value in enumerate(sorted(set(values)))}
            size = len(known)
            codes.append([known[v] for v in values])
        sizes.append(size)
    return np.array(codes, dtype=np.int64).T, sizes


def distances(true, made, sizes):
    """For each pair of columns, half the sum of the differences between the shares of each pair of codes."""
    import numpy as np

    for a, b in itertools.combinations(range(len(sizes)), 2):
        share = lambda rows: np.bincount(rows[:, a] * sizes[b] + rows[:, b], minlength=sizes[a] * sizes[b]) / len(rows)
        yield 0.5 * float(np.abs(share(true) - share(made)).sum())


def rho_of(epsilon, delta):
    """The largest ρ whose best conversion to (ε, δ) exceeds neither, by bisection (Bun, Steinke 2016; Canonne, Kamath, Steinke 2020)."""

    def least_delta(rho):
        orders = [1 + 1.02**n / 100 for n in range(1200)]
        logs = ((a - 1) * (a * rho - epsilon) + a * math.log1p(-1 / a) - math.log(a - 1) for a in orders)
        return min(logs)

    low, high = 0.0, epsilon
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if least_delta(middle) <= math.log(delta) else (low, middle)
    return low


# HushQL


def hushql(rows, sizes, columns, delta, seed, program):
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(f"{folder}/t.csv", rows, fmt="%d", delimiter=",", header=",".join(columns), comments="")
        declared = ", ".join(f"{column} BIGINT" for column in columns)
        owner = f"""
            CREATE EXTERNAL TABLE t ({declared}) STORED AS CSV LOCATION '{folder}/t.csv' OPTIONS ('format.has_header' 'true');
            ALTER TABLE t SET PRIVACY UNIT ROW;
            CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=1000, delta=1e-6);"""
        for column, size in zip(columns, sizes):
            owner += f"\nALTER TABLE t ALTER COLUMN {column} SET PRIVACY DOMAIN BETWEEN (0, {size - 1});"
        cost = f"eps={EPSILON:g}" + (f", delta={delta:g}" if delta else "")
        make = f"CREATE SYNTHETIC TABLE s AS AIM({cost}) SELECT {', '.join(columns)} FROM t"

        def run(who, sql):
            pathlib.Path(f"{folder}/run.sql").write_text(sql)
            done = subprocess.run([program, f"{folder}/v.db", *who, "-f", f"{folder}/run.sql"], capture_output=True, text=True)
            if done.returncode:
                sys.exit(done.stderr)

        subprocess.run([program, "init", f"{folder}/v.db"], check=True, capture_output=True)
        run(["--owner"], owner)
        begun = time.monotonic()
        run(["--analyst", "lab"], make)
        seconds = time.monotonic() - begun
        run(["--owner"], f"COPY s TO '{folder}/s.csv'")
        made = []
        for row in csv.DictReader(open(f"{folder}/s.csv", newline="")):
            # A row may have NULL, which the others cannot generate. It counts as a code that no true row has.
            made.append([int(row[c]) if row[c] else size for c, size in zip(columns, sizes)])
    return np.array(made), seconds


# OpenDP


def opendp(algorithm):
    def make(rows, sizes, columns, delta, seed, program):
        import numpy as np
        import opendp.prelude as dp
        import polars as pl

        dp.enable_features("contrib")
        frame = pl.LazyFrame({column: rows[:, at] for at, column in enumerate(columns)})
        begun = time.monotonic()
        # Their conversion to ρ is within 2 % of ours. Here they get all of our ρ.
        rho = rho_of(EPSILON, delta)
        context = dp.Context.compositor(
            data=frame, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=rho, delta=0.0)
        )
        keys = {column: list(range(size)) for column, size in zip(columns, sizes)}
        chosen = dp.mbi.MST() if algorithm == "mst" else dp.mbi.AIM()
        table = context.query(rho=rho, delta=0.0).select(*columns).contingency_table(keys=keys, algorithm=chosen).release()
        made = table.synthesize()
        seconds = time.monotonic() - begun
        # They may generate NULL, too. It counts as a code that no true row has.
        filled = [made[column].cast(pl.Int64).fill_null(size) for column, size in zip(columns, sizes)]
        return np.array([values.to_numpy() for values in filled]).T, seconds

    return make


# SmartNoise Synth


def smartnoise(algorithm):
    def make(rows, sizes, columns, delta, seed, program):
        import numpy as np
        import pandas as pd
        from snsynth.aim import AIMSynthesizer
        from snsynth.mst import MSTSynthesizer
        from snsynth.transform import LabelTransformer, TableTransformer

        np.random.seed(seed)
        frame = pd.DataFrame(rows, columns=columns)

        def of(size):
            label = LabelTransformer(nullable=False)
            label.fit(list(range(size)))
            return label

        begun = time.monotonic()
        synthesizer = (MSTSynthesizer if algorithm == "mst" else AIMSynthesizer)(epsilon=EPSILON, delta=delta)
        synthesizer.fit(frame, transformer=TableTransformer([of(size) for size in sizes]))
        made = synthesizer.sample(len(rows))
        made = np.array(pd.DataFrame(made).astype(np.int64))
        return made, time.monotonic() - begun

    return make


PEERS = {
    "hushql": hushql,
    "opendp_mst": opendp("mst"),
    "opendp_aim": opendp("aim"),
    "smartnoise_mst": smartnoise("mst"),
    "smartnoise_aim": smartnoise("aim"),
}


def main():
    given = argparse.ArgumentParser()
    given.add_argument("peer")
    given.add_argument("folder", type=pathlib.Path)
    given.add_argument("adult")
    given.add_argument("--columns", type=int, default=14, choices=[14, 4])
    given.add_argument("--delta", type=float, default=1e-9)
    given.add_argument("--seed", type=int, default=1)
    given.add_argument("--program", default="hushql")
    given = given.parse_args()
    lines, task = given.folder / "synthetic.jsonl", [given.columns, given.delta]
    if given.peer == "table":
        told = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
        print("| peer | runs | mean total variation of pairs | largest | seconds |\n|---|---|---|---|---|")
        for peer in PEERS:
            own = [one for one in told if one["peer"] == peer and one["task"] == task]
            if own:
                means = [one["mean"] for one in own]
                said = f"{statistics.mean(means):.4f} ({min(means):.4f}–{max(means):.4f})"
                largest, seconds = max(one["largest"] for one in own), statistics.mean(one["seconds"] for one in own)
                print(f"| {peer} | {len(own)} | {said} | {largest:.3f} | {seconds:.1f} |")
        return
    columns = FOURTEEN if given.columns == 14 else FOUR
    rows, sizes = coded(given.adult, columns)
    made, seconds = PEERS[given.peer](rows, sizes, columns, given.delta, given.seed, os.path.abspath(given.program))
    # Room for NULL.
    all_of = list(distances(rows, made, [size + 1 for size in sizes]))
    line = {
        "peer": given.peer, "task": task, "seed": given.seed, "rows": len(made), "seconds": seconds,
        "mean": statistics.mean(all_of), "largest": max(all_of),
    }
    with open(lines, "a") as out:
        print(json.dumps(line), file=out)
    print(f"{given.peer}: {line['mean']:.4f} in {seconds:.1f} s", file=sys.stderr)


main()
