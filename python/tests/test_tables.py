"""Tables of other packages, also strange ones. Each package is skipped where it is not installed."""

import datetime
import os
import warnings

import pytest

import hushql as hq

SECRET = "Ann-Secret-4711"


def count(session):
    return session.sql("SELECT LAPLACE(eps=900) COUNT(*) AS n FROM t").scalar()


def test_pandas(declared):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"id": [1, 2, 3, 3], "ward": ["a", "b", "a", None]})
    lab = declared(frame)
    assert count(lab) == 3, "one row of each person, as its unit allows"
    answer = lab.sql("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t")
    frame = answer.df(errors=True)
    assert list(frame.columns) == ["n", "n ±"] and frame["n ±"][0] == 3.0
    assert list(answer.df().columns) == ["n"]


def test_a_second_frame_charges_nothing(declared):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    lab = declared(pandas.DataFrame({"id": [1, 2]}), epsilon=1)
    answer = lab.sql("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t")
    assert answer.df().equals(answer.df())
    assert float(lab.budgets()[0].left) == 0.0


def test_the_rows_are_copied(declared):
    pandas = pytest.importorskip("pandas")
    numpy = pytest.importorskip("numpy")
    pytest.importorskip("pyarrow")
    ids = numpy.arange(1000)
    frame = pandas.DataFrame({"id": ids}, copy=False)
    lab = declared(frame)
    try:
        ids[:] = 0
    except ValueError:
        pass
    assert count(lab) == 1000


def test_nan_is_no_number(declared):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"id": [1, 2, 3], "x": [float("nan"), float("inf"), 5.0]})
    vault = hq.in_memory()
    lab = declared(frame, vault=vault)
    vault.owner().execute("ALTER TABLE t ALTER COLUMN x SET PRIVACY DOMAIN BETWEEN (0, 10)")
    total = lab.sql("SELECT LAPLACE(eps=90) SUM(x) AS s FROM t").scalar()
    assert 0 <= total <= 20


def test_polars(declared):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {"id": [1, 2, 3], "ward": polars.Series(["a", "b", "a"], dtype=polars.Categorical), "day": [datetime.date(2026, 1, 1)] * 3}
    )
    lab = declared(frame)
    assert count(lab) == 3
    wards = lab.sql("SELECT ward, LAPLACE(eps=50) COUNT(*) AS n FROM t GROUP BY ward KEYS ('a', 'b')")
    assert sorted(wards.pl(errors=True).rows())[0][:2] == ("a", 2)
    assert wards.pl().columns == ["ward", "n"]
    assert polars.DataFrame(wards).shape == (2, 2)
    sliced = polars.concat([frame, frame.with_columns(id=polars.col("id") + 10)], rechunk=False)
    assert count(declared(sliced)) == 6


def test_pyarrow(declared):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"id": pyarrow.chunked_array([[1, 2], [], [3]]), "w": ["a", "b", None]})
    lab = declared(table)
    assert count(lab) == 3
    answer = lab.sql("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t")
    assert answer.arrow().equals(pyarrow.table(answer))
    assert answer.arrow(errors=True).column_names == ["n", "n ±"]
    assert count(declared(table.to_batches()[0])) == 2
    assert count(declared(table.to_reader())) == 3
    assert count(declared(table.slice(1, 1))) == 1


def test_duckdb(declared):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    connection = duckdb.connect()
    relation = connection.sql("SELECT range AS id, 'w' || (range % 3) AS ward FROM range(5000)")
    if not hasattr(relation, "__arrow_c_stream__"):
        pytest.skip("this DuckDB has relations without __arrow_c_stream__")
    lab = declared(relation)
    assert abs(count(lab) - 5000) <= 1
    answer = lab.sql("SELECT ward, LAPLACE(eps=1) COUNT(*) AS n FROM t GROUP BY ward KEYS ('w0', 'w1')").arrow()
    assert connection.sql("SELECT count(*) FROM answer").fetchall() == [(2,)]


def test_dictionaries_times_and_nested_columns(declared):
    pyarrow = pytest.importorskip("pyarrow")
    other = pyarrow.chunked_array(
        [pyarrow.array(["a", "b"]).dictionary_encode(), pyarrow.array(["c"]).dictionary_encode()]
    )
    east = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    table = pyarrow.table(
        {
            "id": [1, 2, 3],
            "d": other,
            "t": pyarrow.array([east] * 3, pyarrow.timestamp("us", tz="Europe/Helsinki")),
            "l": pyarrow.array([[1], [], None], pyarrow.list_(pyarrow.int64())),
            "s": pyarrow.array([{"a": 1}] * 3),
            "v": pyarrow.array(["x", "y", None], pyarrow.string_view()),
            "big": pyarrow.array(["x", "y", None], pyarrow.large_string()),
            "raw": pyarrow.array([b"\xff"] * 3),
            "dec": pyarrow.array([None] * 3, pyarrow.decimal128(10, 2)),
            "nothing": pyarrow.nulls(3),
        }
    )
    for column in table.column_names[1:]:
        one = table.select(["id", column])
        try:
            lab = declared(one)
        except hq.Error as error:
            assert isinstance(error, (hq.CatalogError, hq.Refused)), column
            continue
        assert count(lab) == 3, column
    lab = declared(table.select(["id", "d"]))
    answer = lab.sql("SELECT d, LAPLACE(eps=90) COUNT(*) AS n FROM t GROUP BY d KEYS ('a', 'c')")
    assert sorted(answer.rows()) == [("a", 1), ("c", 1)]


def test_empty_tables(declared):
    pyarrow = pytest.importorskip("pyarrow")
    assert count(declared(pyarrow.table({"id": pyarrow.array([], pyarrow.int64())}))) == 0
    try:
        hq.in_memory().register("t", pyarrow.table({}))
    except hq.Error:
        pass


def test_two_columns_of_one_name():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], ["a", "a"])
    with pytest.raises(hq.Error):
        hq.in_memory().register("t", table)


@pytest.mark.parametrize("data", [None, 5, "t", [1, 2], {"id": [1]}, object(), hq.Answer])
def test_what_is_no_table_is_not_taken(data):
    with pytest.raises((TypeError, hq.Error)):
        hq.in_memory().register("t", data)


class Broken:
    def __init__(self, does):
        self.does = does

    def __arrow_c_stream__(self, requested_schema=None):
        return self.does()


def fails():
    raise ValueError(f"could not convert {SECRET}")


@pytest.mark.parametrize("does", [fails, lambda: None, lambda: 5, lambda: object()])
def test_broken_streams_tell_no_value(does):
    with pytest.raises(hq.CatalogError) as error:
        hq.in_memory().register("t", Broken(does))
    told = []
    one = error.value
    while one is not None:
        told.append(f"{one!r} {one}")
        one = one.__cause__ or one.__context__
    assert SECRET not in " ".join(told)


def test_frames_that_are_not_arrow_tell_no_value(capfd):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"id": [1, 2], "x": pandas.Series([5, SECRET], dtype=object)})
    with pytest.raises(hq.CatalogError) as error:
        hq.in_memory().register("t", frame)
    import traceback

    told = "".join(traceback.format_exception(error.value))
    assert SECRET not in told
    assert SECRET not in "".join(capfd.readouterr())


def test_invalid_bytes_are_not_taken():
    pyarrow = pytest.importorskip("pyarrow")
    bad = pyarrow.StringArray.from_buffers(1, pyarrow.py_buffer(b"\0\0\0\0\2\0\0\0"), pyarrow.py_buffer(b"\xff\xfe"))
    with pytest.raises(hq.CatalogError):
        hq.in_memory().register("t", pyarrow.table({"id": bad}))


def test_private_values_are_in_no_text(declared, caplog, capfd):
    pyarrow = pytest.importorskip("pyarrow")
    vault = hq.in_memory()
    lab = declared(pyarrow.table({"id": [1, 2], "name": [SECRET, SECRET]}), vault=vault)
    told = [repr(vault), repr(lab), repr(lab.budgets()), repr(lab.tables()), vault.dump(), str(vault.doctor())]
    for query in ("SELECT name FROM t", "SELECT LAPLACE(eps=1) SUM(CAST(name AS INT)) FROM t", "SELECT LAPLACE(eps=1) COUNT(*) FROM t"):
        try:
            told.append(str(lab.sql(query)))
        except hq.Error as error:
            told.append(f"{error!r} {error}")
    told.extend([caplog.text, *capfd.readouterr()])
    assert SECRET not in " ".join(told)


def test_a_table_is_registered_again_with_its_columns(declared):
    pyarrow = pytest.importorskip("pyarrow")
    vault = hq.in_memory()
    lab = declared(pyarrow.table({"id": [1, 2]}), vault=vault)
    vault.register("t", pyarrow.table({"id": [1, 2, 3]}))
    assert count(lab) == 3
    with pytest.raises(hq.CatalogError, match="other columns"):
        vault.register("t", pyarrow.table({"other": [1]}))
    with pytest.raises(hq.Refused):
        vault.register("u", pyarrow.table({"id": [1]}))
        lab.sql("SELECT LAPLACE(eps=1) COUNT(*) FROM u")


def test_files(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for i in range(2):
        parquet.write_table(pyarrow.table({"id": [10 * i, 10 * i + 1]}), tmp_path / f"part{i}.parquet")
    (tmp_path / "rows.csv").write_text("id,x\n1,2\n2,3\n")
    vault = hq.init(tmp_path / "study.db")
    vault.register_files("t", os.path.join(tmp_path, "*.parquet"))
    vault.register_files("c", tmp_path / "rows.csv")
    vault.owner().execute("ALTER TABLE t SET PRIVACY UNIT (id) MAX ROWS 1; CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=1000)")
    vault.owner().execute("ALTER TABLE c SET PUBLIC")
    lab = vault.analyst("lab")
    first = lab.sql("SELECT LAPLACE(eps=900) COUNT(*) AS n FROM t")
    assert first.scalar() == 4
    again = lab.sql("SELECT LAPLACE(eps=900) COUNT(*) AS n FROM t")
    assert again.receipt.is_replayed and again.receipt.spent.is_free
    assert lab.sql("SELECT SUM(x) FROM c").scalar() == 5
    for wrong in ("rows.xlsx", "rows"):
        with pytest.raises(ValueError, match="format"):
            vault.register_files("u", tmp_path / wrong)
    with pytest.raises(hq.CatalogError):
        vault.register_files("u", tmp_path / "none.parquet")
    with pytest.raises(hq.Error, match="object store"):
        vault.register_files("u", "s3://bucket/visits/*.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vault.close()
