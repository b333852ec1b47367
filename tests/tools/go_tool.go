// lib/pq, by database/sql, and pgx, by its own interface.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgx/v4"
	"github.com/lib/pq"
)

var host, port, user, password, question = os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]

func said(step string, more string, value any) {
	name, _ := json.Marshal(step)
	line := fmt.Sprintf(`{"step": %s`, name)
	if more != "" {
		text, _ := json.Marshal(value)
		line += fmt.Sprintf(`, %q: %s`, more, text)
	}
	fmt.Println(line + "}")
}

func step(name string, run func() error) bool {
	err := run()
	if err == nil {
		said(name, "", nil)
	} else {
		said(name, "error", strings.Join(strings.Fields(err.Error()), " "))
	}
	return err == nil
}

func version(pack string) {
	found, _ := exec.Command("dpkg-query", "-W", "-f", "${Version}", pack).Output()
	said("version", "version", strings.Split(string(found), "-")[0])
}

// The URL is written by hand: lib/pq takes no `+` for a space.
func url(password string) string {
	escaped := strings.ReplaceAll(password, " ", "%20")
	return fmt.Sprintf("postgres://%s:%s@%s:%s/hushql?sslmode=disable", user, escaped, host, port)
}

// A question with parameters, and the whole numbers of its first column.
type asked struct {
	name   string
	sql    string
	values []any
	found  []int64
}

func day(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// `array` makes an array of texts, and `null` is the driver's NULL.
func questions(array func(...string) any) []asked {
	return []asked{
		{"between", question + " WHERE day BETWEEN $1 AND $2", []any{day(2024, 2, 1), day(2024, 3, 1)}, []int64{30}},
		{"like", question + " WHERE city LIKE $1", []any{"R%"}, []int64{100}},
		{"operator of like", question + " WHERE city ~~ $1", []any{"R%"}, []int64{100}},
		{"ilike", question + " WHERE city ILIKE '%' || $1 || '%'", []any{"OS"}, []int64{100}},
		{"having", "SELECT count(*) AS n, city FROM people GROUP BY city HAVING count(*) > $1 ORDER BY city", []any{10}, []int64{100, 100}},
		{"division", question + " WHERE age / $1 = 2", []any{30}, []int64{60}},
		{"remainder", question + " WHERE age % $1 = 0", []any{3}, []int64{66}},
		{"year", question + " WHERE extract(year FROM day) = $1", []any{2024}, []int64{200}},
		{"time", question + " WHERE seen >= $1", []any{day(2024, 1, 5)}, []int64{105}},
		{"fraction", question + " WHERE wage > $1", []any{150.5}, []int64{100}},
		{"boolean", question + " WHERE ok = $1", []any{true}, []int64{100}},
		{"comparison", question + " WHERE (age > 30) = $1", []any{true}, []int64{118}},
		{"list", question + " WHERE age IN ($1, $2)", []any{3, 4}, []int64{6}},
		{"any", question + " WHERE city = ANY($1)", []any{array("Rome", "Bonn")}, []int64{100}},
		{"any of a cast", question + " WHERE city = ANY($1::text[])", []any{array("Rome", "Bonn")}, []int64{100}},
		{"null", question + " WHERE age > $1", []any{nil}, []int64{0}},
		{"case", "SELECT sum(CASE WHEN age > $1 THEN 1 ELSE 0 END)::bigint AS n FROM people", []any{30}, []int64{118}},
		{"escape", question + ` WHERE city LIKE E'R\x25' AND age < $1`, []any{90}, []int64{100}},
		{"chart", "SELECT count(*) AS n, date_trunc('month', day) AS m FROM people WHERE day >= $1 AND day < $2 GROUP BY 2 ORDER BY 2", []any{day(2024, 1, 1), day(2024, 4, 1)}, []int64{30, 29, 31}},
		{"limit", "SELECT k FROM numbers ORDER BY k LIMIT $1", []any{3}, []int64{0, 1, 2}},
		{"limit with a type", "SELECT k FROM numbers WHERE k > $1 ORDER BY k LIMIT 2::bigint", []any{7}, []int64{8, 9}},
		{"distinct on", "SELECT DISTINCT ON (k / 10) k FROM numbers WHERE k < $1 ORDER BY k / 10, k", []any{25}, []int64{0, 10, 20}},
		{"probe", "SELECT age FROM people WHERE 1 = 0 AND age > $1", []any{3}, nil},
	}
}

func equal(found, wanted []int64) error {
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		return fmt.Errorf("found %v instead of %v", found, wanted)
	}
	return nil
}

const (
	// It takes a minute, and little memory.
	long    = "SELECT count(*) AS n FROM numbers a, numbers b, numbers c, numbers d WHERE concat(a.k, '-', b.k, '-', c.k, '-', d.k) LIKE '%9_8%7-%6%'"
	tables  = "SELECT table_name FROM information_schema.tables WHERE table_schema = $1 ORDER BY table_name"
	columns = "SELECT a.attnum::bigint FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid WHERE c.relname = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
	insert  = "INSERT INTO few SELECT $1::bigint WHERE 1 = 0"
	unknown = "SELECT nothing FROM people"
	preview = "SELECT * FROM people LIMIT 10"
	spent   = "SELECT count(*) AS n FROM few"
)

var seven = []int64{1, 2, 3, 4, 5, 6, 7}

func expect(condition bool, message string) error {
	if condition {
		return nil
	}
	return errors.New(message)
}

// Asks what takes a minute, for half a second.
func cancelled(run func(context.Context) error) error {
	ends, stop := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer stop()
	begun := time.Now()
	err := run(ends)
	if err == nil {
		return errors.New("what takes a minute has an answer")
	}
	return expect(time.Since(begun) < 20*time.Second, "it went on after its end")
}

func libpq() {
	version("golang-github-lib-pq-dev")
	db, err := sql.Open("postgres", url(password))
	if !step("connect", func() error {
		if err != nil {
			return err
		}
		return db.Ping()
	}) {
		return
	}
	db.SetMaxOpenConns(1)
	numbers := func(rows *sql.Rows, err error) ([]int64, error) {
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		names, err := rows.Columns()
		if err != nil {
			return nil, err
		}
		var found []int64
		for rows.Next() {
			var number int64
			cells := []any{&number}
			for range names[1:] {
				cells = append(cells, new(any))
			}
			if err := rows.Scan(cells...); err != nil {
				return nil, err
			}
			found = append(found, number)
		}
		return found, rows.Err()
	}
	one := func(sql string, wanted []int64, values ...any) error {
		found, err := numbers(db.Query(sql, values...))
		if err != nil {
			return err
		}
		return equal(found, wanted)
	}
	step("question", func() error { return one(question, []int64{200}) })
	for _, each := range questions(func(texts ...string) any { return pq.Array(texts) }) {
		each := each
		step("parameter: "+each.name, func() error { return one(each.sql, each.found, each.values...) })
	}
	step("prepared", func() error {
		statement, err := db.Prepare(question + " WHERE age > $1")
		if err != nil {
			return err
		}
		defer statement.Close()
		for _, age := range []int{30, 30, 60} {
			if _, err := numbers(statement.Query(age)); err != nil {
				return err
			}
		}
		return nil
	})
	step("tables", func() error {
		rows, err := db.Query(tables, "public")
		if err != nil {
			return err
		}
		defer rows.Close()
		names := ""
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			names += " " + name
		}
		return expect(strings.Contains(names, "people") && strings.Contains(names, "adults"), "other tables:"+names)
	})
	step("columns", func() error { return one(columns, seven, "people") })
	step("types", func() error {
		rows, err := db.Query("SELECT count(*) AS n, avg(age)::float8 AS mean, city FROM people GROUP BY city")
		if err != nil {
			return err
		}
		defer rows.Close()
		types, err := rows.ColumnTypes()
		if err != nil {
			return err
		}
		found := ""
		for _, each := range types {
			found += each.DatabaseTypeName() + " "
		}
		return expect(found == "INT8 FLOAT8 TEXT ", found)
	})
	step("arrays", func() error {
		var names pq.StringArray
		err := db.QueryRow("SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0", "people").Scan(&names)
		if err != nil {
			return err
		}
		return expect(len(names) == 7 && names[0] == "id", fmt.Sprint(names))
	})
	step("transaction", func() error {
		begun, err := db.Begin()
		if err != nil {
			return err
		}
		if _, err := numbers(begun.Query(question)); err != nil {
			return err
		}
		return begun.Commit()
	})
	step("cursor", func() error {
		begun, err := db.Begin()
		if err != nil {
			return err
		}
		defer begun.Rollback()
		if _, err := begun.Exec("DECLARE c SCROLL CURSOR FOR SELECT k FROM numbers WHERE k < 5 ORDER BY k"); err != nil {
			return err
		}
		for fetch, wanted := range map[string][]int64{"FETCH FIRST FROM c": {0}, "FETCH LAST FROM c": {4}} {
			found, err := numbers(begun.Query(fetch))
			if err == nil {
				err = equal(found, wanted)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	step("refusal", func() error {
		_, err := db.Exec(unknown)
		var known *pq.Error
		if !errors.As(err, &known) || known.Code != "42703" {
			return fmt.Errorf("another error: %v", err)
		}
		return nil
	})
	step("cancel", func() error {
		return cancelled(func(ends context.Context) error {
			_, err := db.ExecContext(ends, long)
			return err
		})
	})
	step("after a cancel", func() error { return one(question, []int64{200}) })
	step("spent budget", func() error { return one(spent, []int64{3}) })
	step("insert", func() error { _, err := db.Exec(insert, 7); return err })
	step("preview", func() error { _, err := db.Exec(preview); return err })
	step("wrong password", func() error {
		other, err := sql.Open("postgres", url("wrong"))
		if err == nil {
			err = other.Ping()
		}
		var known *pq.Error
		if !errors.As(err, &known) || known.Code.Class() != "28" {
			return fmt.Errorf("another error: %v", err)
		}
		return nil
	})
}

func pgxTool() {
	version("golang-github-jackc-pgx-v4-dev")
	ctx := context.Background()
	var db *pgx.Conn
	if !step("connect", func() (err error) { db, err = pgx.Connect(ctx, url(password)); return err }) {
		return
	}
	numbers := func(rows pgx.Rows, err error) ([]int64, error) {
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		var found []int64
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				return nil, err
			}
			number, ok := values[0].(int64)
			if !ok {
				return nil, fmt.Errorf("no int64: %T", values[0])
			}
			found = append(found, number)
		}
		return found, rows.Err()
	}
	one := func(sql string, wanted []int64, values ...any) error {
		found, err := numbers(db.Query(ctx, sql, values...))
		if err != nil {
			return err
		}
		return equal(found, wanted)
	}
	step("question", func() error { return one(question, []int64{200}) })
	for _, each := range questions(func(texts ...string) any { return texts }) {
		each := each
		step("parameter: "+each.name, func() error { return one(each.sql, each.found, each.values...) })
	}
	step("simple protocol", func() error {
		return one(question+" WHERE day BETWEEN $1 AND $2", []int64{30}, pgx.QuerySimpleProtocol(true), day(2024, 2, 1), day(2024, 3, 1))
	})
	step("prepared", func() error {
		found, err := db.Prepare(ctx, "asked", question+" WHERE age > $1")
		if err != nil {
			return err
		}
		if found.ParamOIDs[0] != 20 || string(found.Fields[0].Name) != "n" {
			return fmt.Errorf("described as %v, %v", found.ParamOIDs, found.Fields)
		}
		for _, age := range []int{30, 30, 60} {
			if _, err := numbers(db.Query(ctx, "asked", age)); err != nil {
				return err
			}
		}
		return db.Deallocate(ctx, "asked")
	})
	step("batch", func() error {
		batch := &pgx.Batch{}
		batch.Queue(question)
		batch.Queue(question+" WHERE age > $1", 30)
		results := db.SendBatch(ctx, batch)
		defer results.Close()
		for _, wanted := range [][]int64{{200}, {118}} {
			found, err := numbers(results.Query())
			if err == nil {
				err = equal(found, wanted)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	step("tables", func() error {
		rows, err := db.Query(ctx, tables, "public")
		if err != nil {
			return err
		}
		defer rows.Close()
		names := ""
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			names += " " + name
		}
		return expect(strings.Contains(names, "people") && strings.Contains(names, "adults"), "other tables:"+names)
	})
	step("columns", func() error { return one(columns, seven, "people") })
	step("types", func() error {
		rows, err := db.Query(ctx, "SELECT count(*) AS n, avg(age)::float8 AS mean, city FROM people GROUP BY city")
		if err != nil {
			return err
		}
		defer rows.Close()
		found := ""
		for _, each := range rows.FieldDescriptions() {
			found += fmt.Sprint(each.DataTypeOID, " ")
		}
		return expect(found == "20 701 25 ", found)
	})
	step("arrays", func() error {
		var names []string
		err := db.QueryRow(ctx, "SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0", "people").Scan(&names)
		if err != nil {
			return err
		}
		return expect(len(names) == 7 && names[0] == "id", fmt.Sprint(names))
	})
	step("transaction", func() error {
		begun, err := db.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err := numbers(begun.Query(ctx, question)); err != nil {
			return err
		}
		return begun.Commit(ctx)
	})
	step("cursor", func() error {
		begun, err := db.Begin(ctx)
		if err != nil {
			return err
		}
		defer begun.Rollback(ctx)
		if _, err := begun.Exec(ctx, "DECLARE c SCROLL CURSOR FOR SELECT k FROM numbers WHERE k < $1 ORDER BY k", 5); err != nil {
			return err
		}
		for fetch, wanted := range map[string][]int64{"FETCH FIRST FROM c": {0}, "FETCH LAST FROM c": {4}} {
			found, err := numbers(begun.Query(ctx, fetch))
			if err == nil {
				err = equal(found, wanted)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	step("refusal", func() error {
		_, err := db.Exec(ctx, unknown)
		var known *pgconn.PgError
		if !errors.As(err, &known) || known.Code != "42703" {
			return fmt.Errorf("another error: %v", err)
		}
		return nil
	})
	step("spent budget", func() error { return one(spent, []int64{3}) })
	step("insert", func() error { _, err := db.Exec(ctx, insert, 7); return err })
	step("preview", func() error { _, err := db.Exec(ctx, preview); return err })
	step("cancel", func() error {
		return cancelled(func(ends context.Context) error {
			_, err := db.Exec(ends, long)
			return err
		})
	})
	// It closes the connection of a statement that it gives up.
	step("after a cancel", func() error {
		again, err := pgx.Connect(ctx, url(password))
		if err == nil {
			db = again
			err = one(question, []int64{200})
		}
		return err
	})
	step("wrong password", func() error {
		_, err := pgx.Connect(ctx, url("wrong"))
		var known *pgconn.PgError
		if !errors.As(err, &known) || !strings.HasPrefix(known.Code, "28") {
			return fmt.Errorf("another error: %v", err)
		}
		return nil
	})
}

func main() {
	if os.Args[6] == "pgx" {
		pgxTool()
	} else {
		libpq()
	}
}
