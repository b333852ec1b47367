"""libpq as C programs call it: a statement is prepared and described, and only then bound to texts, as RPostgres and PHP do it."""

import ctypes
import ctypes.util
import threading
import time

from report import DATABASE, HOST, PASSWORD, PORT, QUESTION, USER, expect, step, version

# The results of libpq that are good.
OK, TUPLES, COPY_OUT, SINGLE, PIPELINE_SYNC = 1, 2, 3, 9, 10
CONNECTED = 0

# It takes a minute, and little memory.
LONG = (
    "SELECT count(*) AS n FROM numbers a, numbers b, numbers c, numbers d "
    "WHERE concat(a.k, '-', b.k, '-', c.k, '-', d.k) LIKE '%9_8%7-%6%'"
)

# Each: a name, the question, its values, the types of PostgreSQL that are described, and the first column.
BOOL, INT8, INT4, TEXT, FLOAT8, TEXTS, DATE, TIMESTAMP, NUMERIC = 16, 20, 23, 25, 701, 1009, 1082, 1114, 1700
ASKED = [
    ("between", f"{QUESTION} WHERE day BETWEEN $1 AND $2", ["2024-02-01", "2024-03-01"], [DATE, DATE], ["30"]),
    ("like", f"{QUESTION} WHERE city LIKE $1", ["R%"], [TEXT], ["100"]),
    ("operator of like", f"{QUESTION} WHERE city ~~ $1", ["R%"], [TEXT], ["100"]),
    ("ilike", f"{QUESTION} WHERE city ILIKE '%' || $1 || '%'", ["OS"], [TEXT], ["100"]),
    ("having", "SELECT count(*) AS n, city FROM people GROUP BY city HAVING count(*) > $1 ORDER BY city", ["10"], [INT8], ["100", "100"]),
    ("division", f"{QUESTION} WHERE age / $1 = 2", ["30"], [INT8], ["60"]),
    ("remainder", f"{QUESTION} WHERE age % $1 = 0", ["3"], [INT8], ["66"]),
    ("year", f"{QUESTION} WHERE extract(year FROM day) = $1", ["2024"], [NUMERIC], ["200"]),
    ("time", f"{QUESTION} WHERE seen >= $1", ["2024-01-05 00:00:00"], [TIMESTAMP], ["105"]),
    ("fraction", f"{QUESTION} WHERE wage > $1", ["150.5"], [FLOAT8], ["100"]),
    ("boolean", f"{QUESTION} WHERE ok = $1", ["t"], [BOOL], ["100"]),
    ("comparison", f"{QUESTION} WHERE (age > 30) = $1", ["true"], [BOOL], ["118"]),
    ("list", f"{QUESTION} WHERE age IN ($1, $2)", ["3", "4"], [INT8, INT8], ["6"]),
    ("any", f"{QUESTION} WHERE city = ANY($1)", ["{Rome,Bonn}"], [TEXTS], ["100"]),
    ("any of a cast", f"{QUESTION} WHERE city = ANY($1::text[])", ["{Rome,Bonn}"], [TEXTS], ["100"]),
    ("null", f"{QUESTION} WHERE age > $1", [None], [INT8], ["0"]),
    ("case", "SELECT sum(CASE WHEN age > $1 THEN 1 ELSE 0 END)::bigint AS n FROM people", ["30"], [INT8], ["118"]),
    ("escape", f"{QUESTION} WHERE city LIKE E'R\\x25' AND age < $1", ["90"], [INT8], ["100"]),
    (
        "chart",
        "SELECT count(*) AS n, date_trunc('month', day) AS m FROM people WHERE day >= $1 AND day < $2 GROUP BY 2 ORDER BY 2",
        ["2024-01-01", "2024-04-01"], [DATE, DATE], ["30", "29", "31"],
    ),
    ("limit", "SELECT k FROM numbers ORDER BY k LIMIT $1", ["3"], [INT8], ["0", "1", "2"]),
    ("limit with a type", "SELECT k FROM numbers WHERE k > $1 ORDER BY k LIMIT 2::bigint", ["7"], [INT8], ["8", "9"]),
    ("distinct on", "SELECT DISTINCT ON (k / 10) k FROM numbers WHERE k < $1 ORDER BY k / 10, k", ["25"], [INT8], ["0", "10", "20"]),
    ("probe", "SELECT age FROM people WHERE 1 = 0 AND age > $1", ["3"], [INT8], []),
]


def library():
    pq = ctypes.CDLL(ctypes.util.find_library("pq") or "libpq.so.5")
    for name in ("PQconnectdb", "PQprepare", "PQdescribePrepared", "PQexecPrepared", "PQexec", "PQgetResult", "PQgetCancel"):
        getattr(pq, name).restype = ctypes.c_void_p
    for name in ("PQerrorMessage", "PQgetvalue", "PQresultErrorMessage", "PQresultErrorField"):
        getattr(pq, name).restype = ctypes.c_char_p
    for name in ("PQparamtype", "PQftype"):
        getattr(pq, name).restype = ctypes.c_uint
    return pq


PQ = library()


class Connection:
    def __init__(self, password=PASSWORD):
        about = f"host={HOST} port={PORT} user={USER} password='{password}' dbname={DATABASE}"
        self.link = ctypes.c_void_p(PQ.PQconnectdb(about.encode()))
        if PQ.PQstatus(self.link) != CONNECTED:
            raise ConnectionError(PQ.PQerrorMessage(self.link).decode())

    def close(self):
        PQ.PQfinish(self.link)

    def checked(self, result, *good):
        """A result that is one of these; what the server said, if it is another."""
        result = ctypes.c_void_p(result)
        if PQ.PQresultStatus(result) not in good:
            # C is the code of the error.
            code = PQ.PQresultErrorField(result, ord("C")) or b""
            raise RuntimeError(f"{code.decode()}: {PQ.PQresultErrorMessage(result).decode()}")
        return result

    def described(self, sql, name=b""):
        """Prepares a statement, and returns the types of its parameters and of its columns."""
        self.checked(PQ.PQprepare(self.link, name, sql.encode(), 0, None), OK)
        told = self.checked(PQ.PQdescribePrepared(self.link, name), OK)
        parameters = [PQ.PQparamtype(told, at) for at in range(PQ.PQnparams(told))]
        return parameters, [PQ.PQftype(told, at) for at in range(PQ.PQnfields(told))]

    def executed(self, values, name=b"", binary=0):
        texts = (ctypes.c_char_p * len(values))(*[None if value is None else value.encode() for value in values])
        return self.checked(PQ.PQexecPrepared(self.link, name, len(values), texts, None, None, binary), TUPLES, OK)

    def sql(self, text):
        return self.checked(PQ.PQexec(self.link, text.encode()), TUPLES, OK)


def first(result):
    """The texts of the first column."""
    return [PQ.PQgetvalue(result, row, 0).decode() for row in range(PQ.PQntuples(result))]


def asked(db, sql, values, types, found):
    told, columns = db.described(sql)
    # A year is a numeric for PostgreSQL, and an int4 for HushQL.
    expect(told in (types, [INT4] if types == [NUMERIC] else types), f"described as {told} instead of {types}")
    result = db.executed(values)
    now = [PQ.PQftype(result, at) for at in range(PQ.PQnfields(result))]
    expect(now == columns, f"columns of the types {now} instead of {columns}")
    expect(first(result) == found, f"found {first(result)} instead of {found}")
    db.executed(values, binary=1)


def row_by_row(db):
    db.described("SELECT k FROM numbers WHERE k < $1 ORDER BY k")
    values = (ctypes.c_char_p * 1)(b"3")
    expect(PQ.PQsendQueryPrepared(db.link, b"", 1, values, None, None, 0) == 1, "it was not sent")
    expect(PQ.PQsetSingleRowMode(db.link) == 1, "no single rows")
    found = []
    while result := PQ.PQgetResult(db.link):
        found += first(db.checked(result, SINGLE, TUPLES))
    expect(found == ["0", "1", "2"], f"found {found}")


def pipeline(db):
    """Three questions in one message; the second is refused, and so is the third."""
    expect(PQ.PQenterPipelineMode(db.link) == 1, "no pipeline")
    try:
        for sql in (QUESTION, "SELECT nothing FROM people", QUESTION):
            expect(PQ.PQsendQueryParams(db.link, sql.encode(), 0, None, None, None, None, 0) == 1, "it was not sent")
        expect(PQ.PQpipelineSync(db.link) == 1, "no end")
        found = []
        while found[-1:] != [PIPELINE_SYNC] and len(found) < 9:
            if result := PQ.PQgetResult(db.link):
                found.append(PQ.PQresultStatus(ctypes.c_void_p(result)))
    finally:
        PQ.PQexitPipelineMode(db.link)
    # Row by row, if the statement before was read so. 7 is an error, and 11 what follows an error.
    found = [status for status in found if status != SINGLE]
    expect(found == [TUPLES, 7, 11, PIPELINE_SYNC], f"found {found}")


def copied(db):
    db.checked(PQ.PQexec(db.link, b"COPY (SELECT k FROM numbers WHERE k < 3 ORDER BY k) TO STDOUT"), COPY_OUT)
    text, lines = ctypes.c_char_p(), []
    while PQ.PQgetCopyData(db.link, ctypes.byref(text), 0) > 0:
        lines.append(text.value.decode())
    while PQ.PQgetResult(db.link):
        pass
    expect(lines == ["0\n", "1\n", "2\n"], f"found {lines}")


def cancelled(db):
    cancel = ctypes.c_void_p(PQ.PQgetCancel(db.link))
    said = ctypes.create_string_buffer(256)
    timer = threading.Timer(0.5, lambda: PQ.PQcancel(cancel, said, 256))
    timer.start()
    begun = time.monotonic()
    try:
        db.sql(LONG)
    except RuntimeError as error:
        expect(str(error).startswith("57014"), str(error))
    else:
        raise AssertionError("what takes a minute has an answer")
    finally:
        timer.join()
    expect(time.monotonic() - begun < 20, "it went on after its end")


def refused(db, sql, code):
    """An error comes with Parse, and the connection goes on."""
    try:
        db.described(sql)
    except RuntimeError as error:
        expect(str(error).startswith(code), str(error))
    else:
        raise AssertionError("it is prepared")
    expect(first(db.sql(QUESTION)) == ["200"], "not 200 people")


def wrong_password():
    try:
        Connection("wrong")
    except ConnectionError:
        return
    raise AssertionError("a wrong password is taken")


def in_transaction(db, *texts):
    """The rows of the last one."""
    db.sql("BEGIN")
    try:
        return first([db.sql(text) for text in texts][-1])
    finally:
        db.sql("ROLLBACK")


def main():
    number = PQ.PQlibVersion()
    version(f"{number // 10000}.{number % 10000}")
    db = step("connect", Connection)
    if db is None:
        return
    step("question", lambda: expect(first(db.sql(QUESTION)) == ["200"], "not 200 people"))
    for name, *rest in ASKED:
        step(f"parameter: {name}", lambda: asked(db, *rest))
    step("prepared", lambda: (db.described(f"{QUESTION} WHERE age > $1", b"s"), db.executed(["30"], b"s"), db.executed(["60"], b"s")))
    step("PREPARE", lambda: expect(in_transaction(db, f"PREPARE p (bigint) AS {QUESTION} WHERE age > $1", "EXECUTE p (30)") == ["118"], "not 118 people"))
    step("row by row", lambda: row_by_row(db))
    step("pipeline", lambda: pipeline(db))
    cursor = "DECLARE c SCROLL CURSOR FOR SELECT k FROM numbers WHERE k < 5 ORDER BY k"
    step("cursor", lambda: expect(in_transaction(db, cursor, "FETCH ALL FROM c", "FETCH BACKWARD 2 FROM c") == ["4", "3"], "other rows"))
    step("copy", lambda: copied(db))
    step("table", lambda: expect(len(first(db.sql("TABLE numbers"))) == 100, "not 100 rows"))
    step("refusal", lambda: refused(db, "SELECT nothing FROM people WHERE age > $1", "42703"))
    step("mistake", lambda: refused(db, "SELECT count(* FROM people WHERE age > $1", "42601"))
    step("cancel", lambda: cancelled(db))
    step("after a cancel", lambda: expect(first(db.sql(QUESTION)) == ["200"], "not 200 people"))
    step("spent budget", lambda: db.sql("SELECT count(*) AS n FROM few"))
    step("insert", lambda: (db.described("INSERT INTO few SELECT $1::bigint WHERE 1 = 0"), db.executed(["7"])))
    step("preview", lambda: db.sql("SELECT * FROM people LIMIT 10"))
    step("wrong password", wrong_password)
    db.close()


main()
