"""What tools ask that do not install here: in our own words, after the public sources of Metabase, and of Npgsql, by which Power BI connects."""

from report import DATABASE, HOST, MORE, PASSWORD, PORT, USER, expect, step, version

METABASE = {
    "time zone": ("SHOW timezone", (), None),
    "schemas": ("SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' ORDER BY 1", (), lambda rows: ("public",) in rows),
    "enums": ("SELECT s.nspname, k.typname FROM pg_type k JOIN pg_namespace s ON s.oid = k.typnamespace WHERE k.oid IN (SELECT DISTINCT enumtypid FROM pg_enum)", (), None),
    "privileges": (
        """WITH all_of_them AS (
               SELECT NULL AS role, r.schemaname AS schema, r.objectname AS name,
                      pg_catalog.has_any_column_privilege(current_user, '"' || replace(r.schemaname, '"', '""') || '"."' || replace(r.objectname, '"', '""') || '"', 'update') AS changes,
                      pg_catalog.has_any_column_privilege(current_user, '"' || replace(r.schemaname, '"', '""') || '"."' || replace(r.objectname, '"', '""') || '"', 'select') AS reads
               FROM (SELECT schemaname, tablename AS objectname FROM pg_catalog.pg_tables
                     UNION SELECT schemaname, viewname FROM pg_catalog.pg_views
                     UNION SELECT schemaname, matviewname FROM pg_catalog.pg_matviews) r
               WHERE r.schemaname !~ '^pg_' AND r.schemaname <> 'information_schema' AND pg_catalog.has_schema_privilege(current_user, r.schemaname, 'usage'))
           SELECT * FROM all_of_them WHERE reads ORDER BY schema, name""",
        (), lambda rows: any(row[2] == "people" for row in rows),
    ),
    "tables": (
        """SELECT s.nspname AS "schema", r.relname AS "name",
                  CASE r.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE NULL END AS "type",
                  t.description, u.n_live_tup AS estimate
           FROM pg_catalog.pg_class AS r INNER JOIN pg_catalog.pg_namespace AS s ON r.relnamespace = s.oid
           LEFT JOIN pg_catalog.pg_description AS t ON (r.oid = t.objoid) AND (t.objsubid = 0) AND (t.classoid = 'pg_class'::regclass)
           LEFT JOIN pg_stat_user_tables AS u ON (s.nspname = u.schemaname) AND (r.relname = u.relname)
           WHERE s.nspname !~ '^pg_' AND s.nspname <> 'information_schema' AND r.relkind IN ('r', 'p', 'v', 'f', 'm') AND s.nspname IN (%s) ORDER BY "type", "schema", "name" """,
        ("public",), lambda rows: ("public", "people", "TABLE") in [row[:3] for row in rows],
    ),
    "fields": (
        """SELECT f.column_name AS "name", CASE WHEN f.udt_schema IN ('public', 'pg_catalog') THEN FORMAT('%%s', f.udt_name) ELSE FORMAT('"%%s"."%%s"', f.udt_schema, f.udt_name) END AS kind,
                  f.ordinal_position - 1 AS place, f.table_schema, f.table_name, k.column_name IS NOT NULL AS is_key,
                  COL_DESCRIPTION(CAST(CAST(FORMAT('%%I.%%I', CAST(f.table_schema AS TEXT), CAST(f.table_name AS TEXT)) AS REGCLASS) AS OID), f.ordinal_position) AS note,
                  ((f.column_default IS NULL) OR (LOWER(f.column_default) = 'null')) AND (f.is_nullable = 'NO') AND NOT (((f.column_default IS NOT NULL) AND (f.column_default LIKE '%%nextval(%%')) OR (f.is_identity <> 'NO')) AS needed
           FROM information_schema.columns AS f LEFT JOIN
                (SELECT c.table_schema, c.table_name, u.column_name FROM information_schema.table_constraints AS c INNER JOIN information_schema.key_column_usage AS u
                   ON (c.constraint_name = u.constraint_name) AND (c.table_schema = u.table_schema) AND (c.table_name = u.table_name) WHERE c.constraint_type = 'PRIMARY KEY') AS k
                ON (f.table_schema = k.table_schema) AND (f.table_name = k.table_name) AND (f.column_name = k.column_name)
           WHERE f.table_schema !~ '^information_schema|catalog_history|pg_' AND f.table_schema IN (%s)
           UNION ALL
           SELECT a.attname, CASE WHEN e.nspname IN ('public', 'pg_catalog') THEN FORMAT('%%s', k.typname) ELSE FORMAT('"%%s"."%%s"', e.nspname, k.typname) END,
                  a.attnum - 1, s.nspname, r.relname, FALSE, NULL, FALSE
           FROM pg_catalog.pg_class AS r INNER JOIN pg_catalog.pg_namespace AS s ON s.oid = r.relnamespace INNER JOIN pg_catalog.pg_attribute AS a ON a.attrelid = r.oid
           INNER JOIN pg_catalog.pg_type AS k ON k.oid = a.atttypid INNER JOIN pg_catalog.pg_namespace AS e ON e.oid = k.typnamespace
           WHERE (r.relkind = 'm') AND (a.attnum >= 1) AND s.nspname IN (%s) ORDER BY table_schema, table_name, place""",
        ("public", "public"), lambda rows: [row[0] for row in rows if row[4] == "people"] == ["id", "age", "city", "day", "seen", "wage", "ok"],
    ),
    "foreign keys": (
        """SELECT fs.nspname, fr.relname, fa.attname, ps.nspname, pr.relname, pa.attname FROM pg_constraint AS c
           INNER JOIN pg_class AS fr ON c.conrelid = fr.oid INNER JOIN pg_namespace AS fs ON c.connamespace = fs.oid INNER JOIN pg_attribute AS fa ON c.conrelid = fa.attrelid
           INNER JOIN pg_class AS pr ON c.confrelid = pr.oid INNER JOIN pg_namespace AS ps ON pr.relnamespace = ps.oid INNER JOIN pg_attribute AS pa ON c.confrelid = pa.attrelid
           WHERE fs.nspname !~ '^information_schema|catalog_history|pg_' AND c.contype = 'f'::char AND fa.attnum = ANY(c.conkey) AND pa.attnum = ANY(c.confkey) AND fs.nspname IN (%s)""",
        ("public",), lambda rows: rows == [],
    ),
    "indexes": (
        """SELECT x.spc, x.tab, trim(BOTH '"' FROM pg_catalog.pg_get_indexdef(x.own, x.place, FALSE)) FROM
             (SELECT s.nspname AS spc, r.relname AS tab, (information_schema._pg_expandarray(i.indkey)).n AS place, o.oid AS own
              FROM pg_catalog.pg_class AS r INNER JOIN pg_catalog.pg_namespace AS s ON r.relnamespace = s.oid INNER JOIN pg_catalog.pg_index AS i ON r.oid = i.indrelid
              INNER JOIN pg_catalog.pg_class AS o ON o.oid = i.indexrelid WHERE i.indpred IS NULL AND s.nspname !~ '^information_schema|pg_' AND s.nspname IN (%s)) AS x WHERE x.place = 1""",
        ("public",), lambda rows: rows == [],
    ),
    "probe": ('SELECT TRUE AS "_" FROM "public"."people" WHERE 1 <> 1 LIMIT 0', (), lambda rows: rows == []),
    "question": ('SELECT COUNT(*) AS "count" FROM "public"."people"', (), lambda rows: rows == [(200,)]),
    "condition": ('SELECT COUNT(*) AS "count" FROM "public"."people" WHERE ("public"."people"."city" = %s) AND ("public"."people"."age" > %s)', ("Rome", 30), lambda rows: 40 < rows[0][0] < 80),
    "chart by month": (
        """SELECT DATE_TRUNC('month', "public"."people"."day") AS "day", COUNT(*) AS "count" FROM "public"."people"
           WHERE ("public"."people"."day" >= date '2024-01-01') AND ("public"."people"."day" < date '2024-04-01')
           GROUP BY DATE_TRUNC('month', "public"."people"."day") ORDER BY DATE_TRUNC('month', "public"."people"."day") ASC""",
        (), lambda rows: [row[1] for row in rows] == [30, 29, 31],
    ),
    "values of a filter": (
        'SELECT "public"."people"."city" AS "city" FROM "public"."people" GROUP BY "public"."people"."city" ORDER BY "public"."people"."city" ASC LIMIT 1000',
        (), lambda rows: rows == [("Oslo",), ("Rome",)],
    ),
    "fingerprint of rows": ('SELECT SUBSTRING("public"."people"."city", 1, 1234) AS "sub" FROM "public"."people" LIMIT 10000', (), None),
}

NPGSQL = {
    "types": (
        """SELECT s.nspname, k.oid, k.typname, k.typtype, k.typnotnull, k.elem FROM (
             SELECT b.oid, b.typnamespace, b.typname, b.typtype, b.typrelid, b.typnotnull, b.relkind, b.elem, e.typname AS elemname, ec.relkind AS elemkind,
                    CASE WHEN ep.proname = 'array_recv' THEN 'a' ELSE e.typtype END AS elemtype
             FROM (SELECT t.oid, typnamespace, typname, typrelid, typnotnull, relkind, typelem,
                          CASE WHEN p.proname = 'array_recv' THEN 'a' ELSE t.typtype END AS typtype,
                          CASE WHEN p.proname = 'array_recv' THEN t.typelem WHEN t.typtype = 'r' THEN rngsubtype
                               WHEN t.typtype = 'm' THEN (SELECT rngtypid FROM pg_range WHERE rngmultitypid = t.oid) WHEN t.typtype = 'd' THEN t.typbasetype END AS elem
                   FROM pg_type AS t LEFT JOIN pg_class AS c ON (c.oid = t.typrelid) LEFT JOIN pg_proc AS p ON p.oid = t.typreceive LEFT JOIN pg_range ON (pg_range.rngtypid = t.oid)) AS b
             LEFT JOIN pg_type AS e ON e.oid = b.elem LEFT JOIN pg_class AS ec ON (ec.oid = e.typrelid) LEFT JOIN pg_proc AS ep ON ep.oid = e.typreceive) AS k
           JOIN pg_namespace AS s ON (s.oid = typnamespace)
           WHERE typtype IN ('b', 'r', 'm', 'e', 'd') OR (typtype = 'c' AND relkind = 'c') OR (typtype = 'p' AND typname IN ('record', 'void'))
              OR (typtype = 'a' AND (elemtype IN ('b', 'r', 'm', 'e', 'd') OR (elemtype = 'p' AND elemname IN ('record', 'void')) OR (elemtype = 'c' AND elemkind = 'c')))
           ORDER BY CASE WHEN typtype IN ('b', 'e', 'p') THEN 0 WHEN typtype = 'r' THEN 1 WHEN typtype = 'm' THEN 2 WHEN typtype = 'c' THEN 3
                         WHEN typtype = 'd' AND elemtype <> 'a' THEN 4 WHEN typtype = 'a' THEN 5 WHEN typtype = 'd' AND elemtype = 'a' THEN 6 END""",
        (), lambda rows: {"int8", "text", "_int8", "date"} <= {row[2] for row in rows} and next(row[5] for row in rows if row[2] == "_int8") == 20,
    ),
    "composite types": (
        """SELECT k.oid, a.attname, a.atttypid FROM pg_type AS k JOIN pg_namespace AS s ON (s.oid = k.typnamespace) JOIN pg_class AS c ON (c.oid = k.typrelid)
           JOIN pg_attribute AS a ON (a.attrelid = k.typrelid) WHERE (k.typtype = 'c' AND c.relkind = 'c') AND attnum > 0 AND NOT attisdropped ORDER BY k.oid, a.attnum""",
        (), None,
    ),
    "enums": ("SELECT pg_type.oid, enumlabel FROM pg_enum JOIN pg_type ON pg_type.oid = enumtypid ORDER BY oid, enumsortorder", (), lambda rows: rows == []),
    "version of the server": ("SELECT version()", (), lambda rows: rows[0][0].startswith("PostgreSQL 15")),
    "tables": ("SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_schema NOT IN ('information_schema', 'pg_catalog') ORDER BY 1, 2", (), lambda rows: ("public", "people", "BASE TABLE") in rows),
    "columns": (
        "SELECT column_name, ordinal_position, is_nullable, CASE WHEN data_type = 'ARRAY' THEN udt_name ELSE data_type END FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY 2",
        ("public", "people"), lambda rows: len(rows) == 7,
    ),
    "reset": ("DISCARD ALL", None, None),
}


def main():
    import psycopg

    asked = {"metabase": METABASE, "npgsql": NPGSQL}[MORE[0]]
    version("–")
    db = step("connect", lambda: psycopg.connect(host=HOST, port=PORT, user=USER, password=PASSWORD, dbname=DATABASE, autocommit=True))
    if db is None:
        return
    for name, (sql, values, holds) in asked.items():

        def run():
            # Without values, a per cent sign is itself.
            cursor = db.execute(sql.replace("%%", "%"), None) if not values else db.execute(sql, values)
            rows = cursor.fetchall() if cursor.description else []
            expect(holds is None or holds(rows), f"other rows: {rows[:9]}")

        step(name, run)
    db.close()


main()
