"""The distance of answers from the truth at one ε, by engine.

Each engine has a folder of its own for its packages. So this file runs once for each engine, and imports an engine's packages
only in the function that needs them. The script `run` does all of this.

    errors.py data     FOLDER ADULT.csv [--rows N]        makes FOLDER/adult.parquet and FOLDER/orders.parquet
    errors.py ENGINE   FOLDER [--program HUSHQL] [--times N] [--lines NAME…]     adds the answers of an engine to FOLDER/ENGINE.json
    errors.py table    FOLDER                             prints the Markdown tables

A line of the tables is a query on one table, with a fixed bound on the rows of a person. An engine's file maps the name of a line to
the answers: numbers, objects from key to number, or lists of chosen values, the best first.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

EPSILON, DELTA = 1.0, 1e-6
ROWS = 50  # of a person, in all groups together, wherever a line does not say otherwise
STATUS = ["Married-civ-spouse", "Never-married", "Divorced", "Separated", "Widowed", "Married-spouse-absent", "Married-AF-spouse"]
CITIES = [f"city{i:02}" for i in range(100)]
AGES, HOURS, PRICES = (0, 120), (0, 100), (0, 100)

# For each line: table, query, aggregate and column, and the bound on a person's rows.
LINES = {
    "adult count": ("adult", "COUNT(*)", "count", None, 1),
    "adult groups": ("adult", "COUNT(*) by 7 marital statuses", "groups", "status", 1),
    "adult sum": ("adult", "SUM of hours a week, 0 to 100", "sum", "hours_per_week", 1),
    "adult mean": ("adult", "AVG(age), 0 to 120", "mean", "age", 1),
    "adult median": ("adult", "MEDIAN(age)", "median", "age", 1),
    "adult argmax": ("adult", "the most frequent age", "argmax", "age", 1),
    "adult top": ("adult", "the 5 most frequent ages", "top", "age", 1),
    "orders count": ("orders", "COUNT(*)", "count", None, ROWS),
    "orders count 1000": ("orders", "COUNT(*), 1,000 rows a person", "count", None, 1000),
    "orders groups": ("orders", "COUNT(*) by 100 cities", "groups", "city", ROWS),
    "orders sum": ("orders", "SUM(price), 0 to 100", "sum", "price", ROWS),
    "orders mean": ("orders", "AVG(price)", "mean", "price", ROWS),
    "orders median": ("orders", "MEDIAN(price)", "median", "price", ROWS),
    "orders people": ("orders", "the number of people", "people", None, ROWS),
    "orders argmax": ("orders", "the most frequent price, in tenths", "argmax", "dimes", ROWS),
    "orders top": ("orders", "the 5 most frequent prices, in tenths", "top", "dimes", ROWS),
    "orders price": ("orders", "the best price, in cents up to 100", "price", "price", ROWS),
}


def keys(column):
    return {"status": STATUS, "city": CITIES, "age": list(range(AGES[0], AGES[1] + 1)), "dimes": list(range(1_001))}[column]


def bounds(column):
    return {"age": AGES, "hours_per_week": HOURS, "price": PRICES}[column]


# The data


def data(folder, adult, rows):
    """Adult from its CSV file, and orders from a fixed seed. There are a tenth as many people as orders. Half of the people have at
    most 6 orders, and one has 9 in 1,000 of all orders; a power law holds in between. Two of three orders are from a person's own
    city, and cities differ in size. Prices are in cents, log-normal around 12, with a level for each person."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table = pa.csv.read_csv(adult).select(["age", "status", "hours_per_week"])
    pa.parquet.write_table(table, folder / "adult.parquet")
    draw = np.random.default_rng(7)
    people = rows // 10
    rank = np.arange(people)
    orders = np.floor(1.5 + 3.024 * (people / (rank + 0.5)) ** (2 / 3)).astype(np.int64)
    orders[0] = rows * 9 // 1000
    user = np.repeat(rank, orders)
    city = lambda n: (100 * draw.random(n) ** 1.5).astype(np.int64)
    at = np.where(draw.random(len(user)) < 1 / 3, city(len(user)), np.repeat(city(people), orders))
    level = np.repeat(draw.normal(np.log(12), 0.5, people), orders)
    price = np.clip(np.round(np.exp(level + draw.normal(0, 0.4, len(user))), 2), 0.01, 100)
    shuffled = draw.permutation(len(user))
    columns = {"user_id": user[shuffled], "city": np.array(CITIES)[at[shuffled]], "price": price[shuffled]}
    columns["dimes"] = np.round(columns["price"] * 100).astype(np.int64) // 10
    pa.parquet.write_table(pa.table(columns), folder / "orders.parquet")
    print(f"{len(user):,} orders of {people:,} people, median {int(np.median(orders))}, largest {orders[0]:,}", file=sys.stderr)


# HushQL


def hushql(folder, lines, times, program, chosen=False):
    """Runs a script of statements, each with one release, as an analyst of a vault with a large budget."""
    quoted = lambda values: ", ".join(f"'{value}'" for value in values)
    owner = f"""
        CREATE EXTERNAL TABLE adult STORED AS PARQUET LOCATION '{folder}/adult.parquet';
        ALTER TABLE adult SET PRIVACY UNIT ROW;
        ALTER TABLE adult ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN {AGES};
        ALTER TABLE adult ALTER COLUMN hours_per_week SET PRIVACY DOMAIN BETWEEN {HOURS};
        ALTER TABLE adult ALTER COLUMN status SET PRIVACY DOMAIN IN ({quoted(STATUS)});
        CREATE PRIVACY BUDGET adult FOR adult LIMIT (epsilon=1000000) REPLAY (OFF);
        CREATE EXTERNAL TABLE orders STORED AS PARQUET LOCATION '{folder}/orders.parquet';
        ALTER TABLE orders SET PRIVACY UNIT (user_id);
        ALTER TABLE orders ALTER COLUMN price SET PRIVACY DOMAIN BETWEEN {PRICES} STEP 0.01;
        ALTER TABLE orders ALTER COLUMN dimes SET PRIVACY DOMAIN BETWEEN (0, 1000);
        ALTER TABLE orders ALTER COLUMN city SET PRIVACY DOMAIN IN ({quoted(CITIES)});
        CREATE PRIVACY BUDGET orders FOR orders LIMIT (epsilon=1000000) REPLAY (OFF);"""

    def statement(table, kind, column, rows):
        bound = "" if table == "adult" else ", rows=auto" if chosen else f", total={rows}"
        if chosen and (table == "adult" or rows != ROWS or kind not in ("count", "groups", "sum", "mean")):
            return None
        cost = f"(eps={EPSILON:g}{bound})"
        return {
            "count": f"SELECT LAPLACE{cost} COUNT(*) AS a FROM {table}",
            "groups": f"SELECT {column}, LAPLACE{cost} COUNT(*) AS a FROM {table} GROUP BY {column}",
            "sum": f"SELECT LAPLACE{cost} SUM({column}) AS a FROM {table}",
            "mean": f"SELECT LAPLACE{cost} AVG({column}) AS a FROM {table}",
            "median": f"SELECT EXPONENTIAL{cost} MEDIAN({column}) AS a FROM {table}",
            "people": f"SELECT LAPLACE(eps={EPSILON:g}) COUNT(DISTINCT user_id) AS a FROM {table}",
            "argmax": f"SELECT ARGMAX AUTO{cost} {column} FROM {table} GROUP BY {column}",
            "top": f"SELECT TOP 5 AUTO{cost} {column} FROM {table} GROUP BY {column}",
            "price": f"SELECT ARGMAX GENERALIZED_EXPONENTIAL{cost} best IN RANGE(0.01, 100, 0.01) BY REVENUE({column}, best) FROM {table}",
        }[kind]

    with tempfile.TemporaryDirectory() as vaults:
        vault = f"{vaults}/errors.db"

        def call(*arguments, text=None):
            script = pathlib.Path(vaults, "script.sql")
            if text is not None:
                script.write_text(text)
            done = subprocess.run([program, *arguments], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr)
            return done.stdout

        call("init", vault)
        call(vault, "--owner", "-f", f"{vaults}/script.sql", text=owner)
        for name in lines:
            table, _, kind, column, rows = LINES[name]
            sql = statement(table, kind, column, rows)
            if sql is None:
                continue
            out = call(vault, "--analyst", "bench", "--quiet", "--format", "json", "-f", f"{vaults}/script.sql", text=f"{sql};\n" * times)
            answers = [json.loads(line)["rows"] for line in out.splitlines()]
            if kind == "groups":
                answers = [dict(rows) for rows in answers]
            elif kind in ("argmax", "top"):
                answers = [[row[0] for row in rows] for rows in answers]
            else:
                answers = [rows[0][0] for rows in answers]
            yield name, answers


def hushql_auto(folder, lines, times, program):
    """The same, but with a bound that the engine chooses, if it can."""
    return hushql(folder, lines, times, program, chosen=True)


# OpenDP


def opendp(folder, lines, times, _):
    """Data frames by the context API, which truncates the rows of each person. A mean is the API's ratio of a noisy sum and a noisy
    length.

    The winner is the library's noisy maximum of counts. Its input is truncated beforehand at random, because the constructors for
    vectors do not do this. A list is read from noisy counts of all keys: `make_noisy_top_k` needs five times the noise here.
    """
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    tables = {table: pl.read_parquet(f"{folder}/{table}.parquet") for table in ("adult", "orders")}

    def measurement(table, kind, column, rows):
        unit = dp.unit_of(contributions=1) if table == "adult" else dp.unit_of(contributions=1, identifier="user_id")
        margins = [dp.polars.Margin(max_length=100_000_000)]
        loss = dp.loss_of(epsilon=EPSILON)
        frame = tables[table].lazy()
        query = dp.Context.compositor(data=frame, privacy_unit=unit, privacy_loss=loss, split_evenly_over=1, margins=margins).query()
        if table == "orders":
            query = query.truncate_per_group(1 if kind == "people" else rows)
        if kind == "count":
            query = query.select(dp.len(signed=True))
        elif kind == "people":
            query = query.select(pl.col("user_id").dp.n_unique(signed=True))
        elif kind == "sum":
            query = query.select(pl.col(column).dp.sum(bounds(column)))
        elif kind == "mean":
            query = query.select(pl.col(column).dp.mean(bounds(column)))
        elif kind == "median":
            low, high = bounds(column)
            places = list(range(low, high + 1)) if column == "age" else [i / 100 for i in range(low * 100, high * 100 + 1)]
            query = query.select(pl.col(column).dp.median(places))
        else:
            known = pl.LazyFrame({column: keys(column)}, schema={column: tables[table].schema[column]})
            query = query.group_by(column).agg(dp.len(signed=True)).with_keys(known)
        return query.resolve()

    def winner(table, column, rows):
        values = tables[table]
        if table == "orders":
            values = values.filter(pl.int_range(pl.len()).shuffle().over("user_id") < rows)
        found = dict(values.group_by(column).len().iter_rows())
        return [found.get(key, 0) for key in keys(column)]

    for name in lines:
        table, _, kind, column, rows = LINES[name]
        answers = []
        if kind == "argmax":
            space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int, monotonic=True)
            make = lambda scale: space >> dp.m.then_noisy_max(dp.max_divergence(), scale=scale)
            noisy_max = dp.binary_search_chain(make, d_in=rows, d_out=EPSILON)
            answers = [[keys(column)[noisy_max(winner(table, column, rows))]] for _ in range(times)]
        elif kind != "price":
            measure = measurement(table, kind, column, rows)
            for _ in range(times):
                answer = measure(tables[table].lazy()).collect()
                answers.append(dict(answer.iter_rows()) if kind in ("groups", "top") else answer.item())
            if kind == "top":
                answers = [best(counts) for counts in answers]
        if answers:
            yield name, answers


def best(counts):
    """The five keys with the largest counts. Ties are broken at random."""
    return sorted(counts, key=lambda key: (-counts[key], random.random()))[:5]


# SmartNoise SQL


def smartnoise(folder, lines, times, _):
    """The private reader over data frames, which it copies into SQLite. The rewritten query runs once for ten answers, each with its own
    noise (`pre_aggregated`), because sampling a person's rows takes seconds. Groups are not censored, so no answer needs a δ.
    Choices are read from noisy counts."""
    import pandas as pd
    from snsql import Privacy, from_df

    for name in lines:
        table, _, kind, column, rows = LINES[name]
        if kind in ("median", "price"):
            continue
        fields = {
            "adult": {"age": {"type": "int", "lower": AGES[0], "upper": AGES[1]}, "status": {"type": "string"},
                      "hours_per_week": {"type": "int", "lower": HOURS[0], "upper": HOURS[1]}, "row_privacy": True},
            "orders": {"user_id": {"type": "int", "private_id": True}, "city": {"type": "string"}, "dimes": {"type": "int"},
                       "price": {"type": "float", "lower": float(PRICES[0]), "upper": float(PRICES[1])},
                       "max_ids": 1 if kind == "people" else rows, "sample_max_ids": True},
        }[table]
        metadata = {"": {"x": {table: {**fields, "censor_dims": False}}}}
        key = f"{column}, " if kind in ("groups", "argmax", "top") else ""
        what = {"sum": f"SUM({column})", "mean": f"AVG({column})", "people": "COUNT(DISTINCT user_id)"}.get(kind, "COUNT(*)")
        sql = f"SELECT {key}{what} AS a FROM x.{table}" + (f" GROUP BY {column}" if key else "")
        frame = pd.read_parquet(f"{folder}/{table}.parquet")
        cost = from_df(frame.head(10), privacy=Privacy(epsilon=1.0, delta=0.0), metadata=metadata).get_privacy_cost(sql)[0]
        reader = from_df(frame, privacy=Privacy(epsilon=EPSILON / cost, delta=0.0), metadata=metadata)
        answers = []
        for i in range(times):
            if i % 10 == 0:
                rewritten, _ = reader._rewrite(sql)
                exact = reader._get_reader(rewritten)._execute_ast(rewritten)
            answer = reader.execute(sql, pre_aggregated=exact)[1:]
            answers.append(dict(answer) if key else answer[0][0])
        if kind in ("argmax", "top"):
            answers = [best(counts)[: 1 if kind == "argmax" else 5] for counts in answers]
        yield name, answers


# Tumult Analytics


def tumult(folder, lines, times, _):
    """Sessions with rows by identifier, bounded by the row constraint. Choices are read from noisy counts."""
    from pyspark.sql import SparkSession
    from tmlt.analytics import AddOneRow, AddRowsWithID, KeySet, MaxRowsPerID, PureDPBudget, QueryBuilder, Session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g").config("spark.sql.shuffle.partitions", "2")
    spark = spark.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    sessions = {}
    for table, protected in (("adult", AddOneRow()), ("orders", AddRowsWithID(id_column="user_id"))):
        frame = spark.read.parquet(f"{folder}/{table}.parquet").cache()
        builder = Session.Builder().with_privacy_budget(PureDPBudget(float("inf")))
        sessions[table] = builder.with_private_dataframe(table, frame, protected_change=protected).build()
    for name in lines:
        table, _, kind, column, rows = LINES[name]
        if kind == "price":
            continue
        query = QueryBuilder(table)
        if table == "orders":
            query = query.enforce(MaxRowsPerID(1 if kind == "people" else rows))
        if kind in ("count", "people"):
            query = query.count(name="a")
        elif kind == "sum":
            query = query.sum(column, *bounds(column), name="a")
        elif kind == "mean":
            query = query.average(column, *bounds(column), name="a")
        elif kind == "median":
            query = query.median(column, *bounds(column), name="a")
        else:
            query = query.groupby(KeySet.from_dict({column: keys(column)})).count(name="a")
        answers = []
        for _ in range(times):
            found = [tuple(row) for row in sessions[table].evaluate(query, PureDPBudget(EPSILON)).collect()]
            answers.append(dict(found) if kind in ("groups", "argmax", "top") else found[0][0])
        if kind in ("argmax", "top"):
            answers = [best(counts)[: 1 if kind == "argmax" else 5] for counts in answers]
        yield name, answers


# Qrlew


def qrlew(folder, lines, times, _):
    """Queries that Qrlew rewrites to SQL with noise, which DuckDB runs. Qrlew reads schema and sizes from a database, here one with the
    columns and the same number of empty rows. Keys are texts, because Qrlew lists no other values. Its noise is Gaussian. A mean is
    two releases, each with the noise for the whole budget, so it gets ε/√2: two such Gaussian releases together cost ε. Choices are
    read from noisy counts."""
    import duckdb
    import pyqrlew
    import sqlalchemy

    ask = duckdb.connect()
    empty = sqlalchemy.create_engine("sqlite://")
    columns = {"adult": {"age": "INTEGER", "hours_per_week": "INTEGER", "status": "TEXT", "age_text": "TEXT"},
               "orders": {"user_id": "INTEGER", "price": "FLOAT", "city": "TEXT", "dimes_text": "TEXT"}}
    with empty.begin() as made:
        for table, of in columns.items():
            text = {"adult": "age", "orders": "dimes"}[table]
            ask.execute(f"CREATE TABLE {table} AS SELECT *, {text}::VARCHAR AS {text}_text FROM '{folder}/{table}.parquet'")
            size = ask.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
            listed = ", ".join(f"{column} {sql}" for column, sql in of.items())
            made.execute(sqlalchemy.text(f"CREATE TABLE {table} ({listed})"))
            rows = f"WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM i WHERE x < {size}) SELECT NULL FROM i"
            made.execute(sqlalchemy.text(f"INSERT INTO {table} ({next(iter(of))}) {rows}"))
    data = pyqrlew.Dataset.from_database("data", empty)
    for table, column in (("adult", "age"), ("adult", "hours_per_week"), ("orders", "price")):
        data = data.with_range(None, table, column, *bounds(column))
    for table, column in (("adult", "status"), ("adult", "age"), ("orders", "city"), ("orders", "dimes")):
        name = column if column in columns[table] and columns[table][column] == "TEXT" else f"{column}_text"
        data = data.with_possible_values(None, table, name, [str(key) for key in keys(column)])
    for name in lines:
        table, _, kind, column, rows = LINES[name]
        if kind in ("median", "price"):
            continue
        grouped = kind in ("groups", "argmax", "top")
        key = column if column not in ("age", "dimes") else f"{column}_text"
        sql = {"sum": f"SELECT SUM({column}) AS a FROM {table}", "mean": f"SELECT AVG({column}) AS a FROM {table}",
               "people": "SELECT COUNT(*) AS a FROM (SELECT user_id FROM orders GROUP BY user_id) AS people"
               }.get(kind, f"SELECT {key}, COUNT(*) AS a FROM {table} GROUP BY {key}" if grouped else f"SELECT COUNT(*) AS a FROM {table}")
        unit = [(table, [], "_PRIVACY_UNIT_ROW_" if table == "adult" else "user_id")]
        given = {"epsilon": EPSILON / 2**0.5 if kind == "mean" else EPSILON, "delta": DELTA}
        bound = 1 if kind == "people" else rows
        answers = []
        private = data.relation(sql).rewrite_with_differential_privacy(data, unit, given, float(bound), 1.0)
        for _ in range(times):
            found = ask.execute(private.relation().to_query()).fetchall()
            answers.append(dict(found) if grouped else found[0][0])
        if kind in ("argmax", "top"):
            answers = [best(counts)[: 1 if kind == "argmax" else 5] for counts in answers]
        yield name, answers


# The tables


def exact(folder):
    """The true answer of each line; for choices, the score of each candidate."""
    import duckdb

    truth = {}
    for name, (table, _, kind, column, _) in LINES.items():
        source = f"'{folder}/{table}.parquet'"
        ask = lambda sql: duckdb.sql(sql).fetchall()
        if kind in ("groups", "argmax", "top"):
            truth[name] = {str(key): n for key, n in ask(f"SELECT {column}, COUNT(*) FROM {source} GROUP BY ALL")}
        elif kind == "price":
            sold = "SELECT round(price * 100) AS p, SUM(COUNT(*)) OVER (ORDER BY p DESC) AS n FROM {} GROUP BY p".format(source)
            at = dict(ask(sold))
            above, truth[name] = 0, {}
            for cents in range(10_000, 0, -1):
                above = at.get(float(cents), above)
                truth[name][str(cents)] = cents * int(above)
        else:
            what = {"sum": f"SUM({column})", "mean": f"AVG({column})", "median": f"quantile_disc({column}, 0.5)",
                    "people": "COUNT(DISTINCT user_id)"}.get(kind, "COUNT(*)")
            truth[name] = float(ask(f"SELECT {what} FROM {source}")[0][0])
    return truth


def errors(kind, truth, answers):
    """The median relative error, the relative bias with its standard error, and the noise: the median distance from the mean of the
    answers, relative to the truth. With groups, each of these is a median over groups. For choices there is only the error: the
    median share of the best score that is lost."""
    if kind in ("argmax", "top"):
        k = 1 if kind == "argmax" else 5
        most = sum(sorted(truth.values(), reverse=True)[:k])
        return statistics.median(1 - sum(truth.get(str(key), 0) for key in answer) / most for answer in answers), None, None, None
    if kind == "price":
        most = max(truth.values())
        return statistics.median(1 - truth[str(round(price * 100))] / most for price in answers), None, None, None
    groups = truth.items() if kind == "groups" else [(None, truth)]
    of = lambda key: [float(answer.get(key, 0.0)) for answer in answers] if key is not None else [float(answer) for answer in answers]
    all_errors, biases, sure, noises = [], [], [], []
    for key, true in groups:
        values = of(key)
        mean = statistics.fmean(values)
        all_errors += [abs(value - true) / true for value in values]
        biases.append((mean - true) / true)
        sure.append(statistics.pstdev(values) / len(values) ** 0.5 / true)
        noises.append(statistics.median(abs(value - mean) / true for value in values))
    middle = statistics.median
    return middle(all_errors), middle(biases), middle(sure), middle(noises)


def percent(x):
    """Two significant digits of a share, in percent."""
    if x == 0:
        return "0"
    x *= 100
    places = 0
    while abs(x) < 10 ** (1 - places) and places < 6:
        places += 1
    return f"{x:.{places}f}".replace("-", "−")


def table(folder):
    truth = exact(folder)
    names = {"hushql": "HushQL", "hushql_auto": "HushQL, rows=auto", "opendp": "OpenDP", "smartnoise": "SmartNoise SQL", "tumult": "Tumult Analytics",
             "qrlew": "Qrlew"}
    found = {engine: json.loads(path.read_text()) for engine in names if (path := folder / f"{engine}.json").exists()}
    for data in ("adult", "orders"):
        engines = [e for e in found if any(LINES[name][0] == data for name in found[e])]
        print(f"\n| {data} | " + " | ".join(names[e] for e in engines) + " |\n|" + "---|" * (len(engines) + 1))
        for name, (of, question, kind, _, _) in LINES.items():
            if of != data:
                continue
            cells = []
            for engine in engines:
                if name not in found[engine]:
                    cells.append("—")
                    continue
                error, bias, sure, noise = errors(kind, truth[name], found[engine][name])
                cell = percent(error)
                if bias is not None:
                    # If the mean of answers is within three standard errors of the truth, there is no visible bias.
                    cell += f" ({percent(bias) if abs(bias) > 3 * sure else '0'}; {percent(noise)})"
                cells.append(cell)
            print(f"| {question} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["data", "hushql", "hushql_auto", "opendp", "smartnoise", "tumult", "qrlew", "table"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("adult", nargs="?", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of orders, about")
    parser.add_argument("--times", type=int, default=200, help="answers to a question about adult; to one about orders, a quarter")
    parser.add_argument("--program", type=pathlib.Path, help="of HushQL")
    parser.add_argument("--lines", nargs="*", default=list(LINES), help="by their names in this file")
    given = parser.parse_args()
    if given.action == "data":
        return data(given.folder, given.adult, given.rows)
    if given.action == "table":
        return table(given.folder)
    path = given.folder / f"{given.action}.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    for name in given.lines:
        times = given.times if LINES[name][0] == "adult" else -(-given.times // 4)
        began = time.time()
        for name, answers in globals()[given.action](given.folder.resolve(), [name], times, given.program):
            found[name] = answers
            path.write_text(json.dumps(found, default=float))
            print(f"{given.action}: {name}: {len(answers)} answers in {time.time() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
