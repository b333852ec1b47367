-- GoogleSQL | shop | What the documents of GoogleSQL and BigQuery show, and what its analyzer is tested with, each shape once. Table functions, structs, arrays and protocol buffers are left out.

-- A sum and a maximum
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(points), MAX(points) FROM visits;

-- Values that are not NULL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(points) FROM visits;

-- A sum
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(kind) FROM visits;

-- A mean
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) AVG(kind) FROM visits;

-- A mean of decimals
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) AVG(paid) FROM visits;

-- By group: two counts and a sum with bounds
-- = SELECT kind, COUNT(*), COUNT(word), SUM(points) FROM visits GROUP BY kind
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind, COUNT(*, contribution_bounds_per_group => (0, 5)), COUNT(word, contribution_bounds_per_group => (0, 10)), SUM(points, contribution_bounds_per_group => (0, 100)) FROM visits GROUP BY kind;

-- Rows, with a bound for each group
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM visits;

-- Values, with a bound for each group
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(points, contribution_bounds_per_group => (0, 10)) FROM visits;

-- Keys alone, of text
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6) word FROM visits GROUP BY word;

-- Keys alone, declared
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6) kind FROM visits GROUP BY kind;

-- Keys alone, without a delta of the statement
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) word FROM visits GROUP BY word;

-- Two keys alone
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6) kind, word FROM visits GROUP BY kind, word;

-- A key behind the number
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6) COUNT(points, contribution_bounds_per_group => (0, 10)), word FROM visits GROUP BY word;

-- Arithmetic on a number
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) 1 + COUNT(points, contribution_bounds_per_group => (0, 10)) FROM visits;

-- Arithmetic on a key and a number
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind + COUNT(points, contribution_bounds_per_group => (0, 10)) AS s FROM visits GROUP BY kind;

-- A number and a key
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 5)) + kind AS s FROM visits GROUP BY kind;

-- A count of a sum of columns
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(kind + points, contribution_bounds_per_group => (0, 5)) FROM visits;

-- A sum of a constant
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(1, contribution_bounds_per_group => (0, 5)) FROM visits;

-- A count and a sum of a constant, by group
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind, COUNT(*), SUM(1, contribution_bounds_per_group => (0, 5)) FROM visits GROUP BY kind;

-- A quotient of two counts
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(points) / COUNT(*) AS share FROM visits;

-- A condition of two counts
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) IF(COUNT(*) > 0, COUNT(*), COUNT(points)) AS n FROM visits;

-- A count of IF with a constant condition
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6) word, COUNT(IF(TRUE, kind, NULL)) AS n FROM visits GROUP BY 1;

-- A trailing comma in SELECT
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6) word, COUNT(*) AS n, FROM visits GROUP BY 1;

-- A population variance
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) VAR_POP(kind) FROM visits;

-- A variance and a sum
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) VAR_POP(minutes), SUM(minutes) FROM visits;

-- Two variances
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) VAR_POP(kind), VAR_POP(minutes) FROM visits;

-- A deviation with bounds
-- = SELECT STDDEV_POP(GREATEST(2, LEAST(3.5, kind))) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) STDDEV_POP(kind, contribution_bounds_per_row => (2, 3.5)) FROM visits;

-- A deviation
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) STDDEV_POP(kind) FROM visits;

-- Two deviations
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) STDDEV_POP(kind), STDDEV_POP(minutes) FROM visits;

-- A deviation and a variance
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) STDDEV_POP(minutes), VAR_POP(minutes) FROM visits;

-- Two percentiles
-- = SELECT quantile_disc(kind, 0.5), FLOOR(quantile_disc(minutes, 0.6)) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) PERCENTILE_CONT(kind, 0.5), FLOOR(PERCENTILE_CONT(minutes, 0.6)) FROM visits;

-- Two percentiles with bounds
-- = SELECT quantile_disc(GREATEST(2, LEAST(3, kind)), 0.5), FLOOR(quantile_disc(GREATEST(1, LEAST(40, minutes)), 0.6)) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) PERCENTILE_CONT(kind, 0.5, contribution_bounds_per_row => (2, 3)), FLOOR(PERCENTILE_CONT(minutes, 0.6, contribution_bounds_per_row => (1, 40))) FROM visits;

-- Approximate quantiles with bounds
-- = SELECT [quantile_disc(points, 0), quantile_disc(points, 0.25), quantile_disc(points, 0.5), quantile_disc(points, 0.75), quantile_disc(points, 1)] FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) APPROX_QUANTILES(points, 4, contribution_bounds_per_row => (0, 20)) FROM visits;

-- Two lists of approximate quantiles, by group
-- = SELECT kind, [quantile_disc(kind, 0), quantile_disc(kind, 1)], [quantile_disc(points, 0), quantile_disc(points, 0.5), quantile_disc(points, 1)] FROM visits GROUP BY kind
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind, APPROX_QUANTILES(kind, 1), APPROX_QUANTILES(points, 2) FROM visits GROUP BY kind;

-- APPROX_COUNT_DISTINCT of the unit
-- = SELECT COUNT(DISTINCT person_id) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) APPROX_COUNT_DISTINCT(person_id) FROM visits;

-- APPROX_COUNT_DISTINCT of a value
-- = SELECT COUNT(DISTINCT word) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) APPROX_COUNT_DISTINCT(word) FROM visits;

-- COUNT(DISTINCT) of the unit by group
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6) word, COUNT(DISTINCT person_id) AS n FROM visits GROUP BY word;

-- COUNTIF
-- = SELECT COUNT(*) FILTER (WHERE points > 10) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNTIF(points > 10) FROM visits;

-- HAVING on a key
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6) word, COUNT(*) AS n FROM visits GROUP BY word HAVING starts_with(word, 'a');

-- HAVING on a number
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind, COUNT(*) AS n FROM visits GROUP BY kind HAVING COUNT(*) > 100;

-- ORDER BY and LIMIT of the answer
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind, SUM(points) AS s FROM visits GROUP BY kind ORDER BY s DESC LIMIT 2;

-- refused: SELECT DISTINCT of an answer
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) DISTINCT COUNT(points, contribution_bounds_per_group => (0, 10)) FROM visits;

-- ROLLUP
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind, SUM(points) FROM visits GROUP BY ROLLUP(kind);

-- CUBE
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind, EXTRACT(MONTH FROM seen) AS m, COUNT(*) FROM visits GROUP BY CUBE(kind, m);

-- GROUPING SETS
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind, EXTRACT(MONTH FROM seen) AS m, COUNT(*) FROM visits GROUP BY GROUPING SETS(kind, m);

-- A subquery without tables as a key
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind, (SELECT 1) AS one, SUM(points) FROM visits GROUP BY 1, 2;

-- EXISTS of a public table inside a count
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind, COUNT(IF(EXISTS(SELECT 1 FROM kinds), kind, NULL)) AS n FROM visits GROUP BY kind;

-- A count of persons above a row number of their own
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT RANK() OVER (PARTITION BY person_id ORDER BY seen) AS r FROM visits);

-- refused: A rank over the rows of all people
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT RANK() OVER (ORDER BY points) AS r FROM visits);

-- refused: A sum of *
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(*, contribution_bounds_per_group => (10, 100)) FROM visits;

-- refused: Rows without a group or an aggregate
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind FROM visits;

-- refused: A column beside the groups
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(points), word, kind FROM visits GROUP BY word;

-- refused: Without FROM
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM();

-- refused: An aggregate of an aggregate
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(COUNT(points, contribution_bounds_per_group => (0, 10))) FROM visits;

-- refused: SUM(DISTINCT)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(DISTINCT kind, contribution_bounds_per_group => (0, 1)) FROM visits;

-- refused: AVG(DISTINCT)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) AVG(DISTINCT kind, contribution_bounds_per_group => (0, 1)) FROM visits;

-- refused: A sum of texts
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(word, contribution_bounds_per_group => (0, 1)) FROM visits;

-- refused: A mean of texts
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) AVG(word, contribution_bounds_per_group => (0, 1)) FROM visits;

-- refused: Bounds without their name
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(word, (0, 1)) FROM visits;

-- refused: An argument too many
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(word, 1.0, contribution_bounds_per_group => (0, 1)) FROM visits;

-- refused: COUNT without an argument
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT() FROM visits;

-- refused: Texts as bounds
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => ('abc', 'def')) FROM visits;

-- refused: A subquery as bounds
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(minutes, contribution_bounds_per_group => (SELECT AS STRUCT 0, 1)) FROM visits;

-- refused: CLAMPED BETWEEN, of the older dialect
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(* CLAMPED BETWEEN 0 AND 10) FROM visits;

-- refused: ANON_COUNT, of the older dialect
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) ANON_COUNT(*) FROM visits;

-- refused: HAVING MAX in an aggregate
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(kind HAVING MAX 1, contribution_bounds_per_group => (0, 1)) FROM visits;

-- refused: A negative bound of a count
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (-2, -1)) FROM visits;

-- Bounds of decimals
-- = SELECT SUM(GREATEST(1.9, LEAST(3.5, s))) FROM (SELECT SUM(paid) AS s FROM visits GROUP BY person_id)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(paid, contribution_bounds_per_group => (1.9, 3.5)) FROM visits;

-- Four sums with bounds
-- = SELECT SUM(k), SUM(p), SUM(m) FROM (SELECT LEAST(8, SUM(kind)) AS k, LEAST(30, SUM(points)) AS p, LEAST(90, SUM(minutes)) AS m FROM visits GROUP BY person_id)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(kind, contribution_bounds_per_group => (0, 8)), SUM(points, contribution_bounds_per_group => (0, 30)), SUM(minutes, contribution_bounds_per_group => (0, 90)) FROM visits;

-- Means with bounds
-- = SELECT AVG(k), AVG(m) FROM (SELECT LEAST(3, AVG(kind)) AS k, LEAST(20, AVG(minutes)) AS m FROM visits GROUP BY person_id)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) AVG(kind, contribution_bounds_per_group => (0, 3)), AVG(minutes, contribution_bounds_per_group => (0, 20)) FROM visits;

-- A count of a constant, once a person
-- = SELECT COUNT(DISTINCT person_id) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(1, contribution_bounds_per_group => (0, 1)) FROM visits;

-- Rows, once a person
-- = SELECT COUNT(DISTINCT person_id) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 1)) FROM visits;

-- Rows, twice a person
-- = SELECT SUM(LEAST(2, n)) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY person_id)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 2)) FROM visits;

-- The unit, once a person
-- = SELECT COUNT(DISTINCT person_id) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(person_id, contribution_bounds_per_group => (0, 1)) FROM visits;

-- The unit under other names, once a person
-- = SELECT COUNT(DISTINCT person_id) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(b, contribution_bounds_per_group => (0, 1)) FROM (SELECT a AS b FROM (SELECT a FROM (SELECT person_id AS a FROM visits)));

-- A sum of ones, once a person
-- = SELECT COUNT(DISTINCT person_id) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(1, contribution_bounds_per_group => (0, 1)) FROM visits;

-- A sum of decimal ones, once a person
-- = SELECT COUNT(DISTINCT person_id) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(1.0, contribution_bounds_per_group => (0.0, 1.0)) FROM visits;

-- A sum of zeros
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(0, contribution_bounds_per_group => (0, 1)) FROM visits;

-- A sum of 1 + 1, once a person
-- = SELECT COUNT(DISTINCT person_id) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(1 + 1, contribution_bounds_per_group => (0, 1)) FROM visits;

-- Two counts, once a person
-- = SELECT COUNT(DISTINCT person_id), COUNT(DISTINCT person_id) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 1)) AS a, COUNT(1, contribution_bounds_per_group => (0, 1)) AS b FROM visits;

-- Rows as a report in JSON
-- ~ {"result": {"value": 3000}, "bounding_report": {"lower_bound": 0, "upper_bound": 5}}
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 5), report_format => 'JSON') AS r FROM visits;

-- A sum as a report in JSON
-- ~ {"result": {"value": 23646}}
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(points, report_format => 'JSON') AS r FROM visits;

-- A mean as a report in JSON
-- ~ {"result": {"value": 3}}
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) AVG(kind, report_format => 'JSON') AS r FROM visits;

-- A mean with bounds as a report in JSON
-- ~ {"bounding_report": {"lower_bound": 0, "upper_bound": 60}}
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) AVG(minutes, contribution_bounds_per_group => (0, 60), report_format => 'JSON') AS r FROM visits;

-- refused: Reports as protocol buffers
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(points, report_format => 'PROTO') FROM visits;

-- refused: A report in a format that does not exist
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(points, report_format => 1) FROM visits;

-- refused: WITH REPORT, of the older dialect
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(* WITH REPORT) FROM visits;

-- No options
SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*, contribution_bounds_per_group => (0, 100)) FROM visits;

-- Empty options
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS() COUNT(*, contribution_bounds_per_group => (0, 100)) FROM visits;

-- A delta of 0
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=0) COUNT(*) FROM visits;

-- A delta alone
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(delta=1e-6) COUNT(*) FROM visits;

-- Sums of constants as values
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=19000 + 1000, delta=1e-6, max_groups_contributed=2 + 3) word, COUNT(*) AS n FROM visits GROUP BY word;

-- Products of constants as values
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1000 * 20) COUNT(*) FROM visits;

-- A trailing comma in the options
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000,) COUNT(*) FROM visits;

-- refused: An epsilon of 0
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0) COUNT(*) FROM visits;

-- refused: k_threshold, of the older dialect
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, k_threshold=10) COUNT(*) FROM visits;

-- refused: An unknown option
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(foo=0) COUNT(*) FROM visits;

-- refused: An option with a path
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(f1.epsilon=0) COUNT(*) FROM visits;

-- refused: A text as a value
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon='0') COUNT(*) FROM visits;

-- refused: A column as a value
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=kind) COUNT(*) FROM visits;

-- refused: A subquery as a value
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=(SELECT 1)) COUNT(*) FROM visits;

-- refused: An option twice
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, epsilon=20000) COUNT(*) FROM visits;

-- refused: A parameter without a value
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=@e) COUNT(*) FROM visits;

-- max_groups_contributed
-- = SELECT COUNT(*) FROM (SELECT DISTINCT kind FROM visits)
SELECT COUNT(*) FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, max_groups_contributed=1) kind, COUNT(*) AS n FROM visits GROUP BY kind);

-- max_groups_contributed with bounds
-- = SELECT COUNT(*) FROM (SELECT DISTINCT kind FROM visits)
SELECT COUNT(*) FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, max_groups_contributed=1) kind, COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM visits GROUP BY kind);

-- max_groups_contributed of NULL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, max_groups_contributed=NULL) kind, COUNT(*) AS n FROM visits GROUP BY kind;

-- max_groups_contributed for groups of a public table
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, max_groups_contributed=5) k.kind, COUNT(*, contribution_bounds_per_group => (0, 100)) AS n FROM visits AS v, kinds AS k GROUP BY k.kind;

-- refused: max_groups_contributed of 0
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, max_groups_contributed=0) kind, COUNT(*) FROM visits GROUP BY kind;

-- refused: max_groups_contributed beyond 32 bits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, max_groups_contributed=99999999999) kind, COUNT(*) FROM visits GROUP BY kind;

-- refused: max_groups_contributed of 2.0
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, max_groups_contributed=2.0) kind, COUNT(*) FROM visits GROUP BY kind;

-- max_rows_contributed
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, max_rows_contributed=5) COUNT(*) FROM visits;

-- max_rows_contributed of values
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, max_rows_contributed=5) COUNT(points) FROM visits;

-- max_rows_contributed of NULL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, max_rows_contributed=NULL) COUNT(*) FROM visits;

-- max_rows_contributed of 1 + 4
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, max_rows_contributed=1 + 4) COUNT(*) FROM visits;

-- refused: max_rows_contributed of 0
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, max_rows_contributed=0) COUNT(*) FROM visits;

-- refused: max_rows_contributed of 2.0
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, max_rows_contributed=2.0) COUNT(*) FROM visits;

-- Groups and rows at once
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, max_rows_contributed=5, max_groups_contributed=3) COUNT(*) FROM visits;

-- min_privacy_units_per_group
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6, min_privacy_units_per_group=20) word, COUNT(*) AS n FROM visits GROUP BY word;

-- privacy_unit_column
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, privacy_unit_column=person_id) kind, COUNT(*) AS n FROM visits GROUP BY kind;

-- privacy_unit_column behind an alias
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, privacy_unit_column=v.person_id) v.kind, COUNT(*) AS n FROM visits AS v GROUP BY v.kind;

-- privacy_unit_column of a subquery
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, privacy_unit_column=v.person_id) v.kind, COUNT(*) AS n FROM (SELECT * FROM visits) AS v GROUP BY v.kind;

-- privacy_unit_column behind the table's name
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, privacy_unit_column=visits.person_id) kind, COUNT(*) AS n FROM visits GROUP BY kind;

-- privacy_unit_column under another name of a subquery
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, privacy_unit_column=who) kind, COUNT(*) AS n FROM (SELECT person_id AS who, kind FROM visits) GROUP BY kind;

-- privacy_unit_column in brackets
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, privacy_unit_column=(person_id)) COUNT(*) FROM visits;

-- privacy_unit_column of the table it refers to
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, privacy_unit_column=p.id) p.sex, COUNT(*) AS n FROM visits AS v JOIN people AS p ON v.person_id = p.id GROUP BY p.sex;

-- refused: A column that is not the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, privacy_unit_column=kind) COUNT(*) FROM visits;

-- refused: A column that does not exist
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, privacy_unit_column=nobody) COUNT(*) FROM visits;

-- A column that the subquery leaves out, and the declaration names
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, privacy_unit_column=person_id) COUNT(*) FROM (SELECT kind FROM visits);

-- refused: A subquery as the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, privacy_unit_column=(SELECT 1)) COUNT(*) FROM visits;

-- A text as the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, privacy_unit_column='person_id') COUNT(*) FROM visits;

-- refused: Two columns as the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, privacy_unit_column=(person_id, kind)) COUNT(*) FROM visits;

-- LAPLACE_THRESHOLD without GROUP BY
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6, group_selection_strategy=LAPLACE_THRESHOLD) COUNT(*) FROM visits;

-- LAPLACE_THRESHOLD without GROUP BY, with groups
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6, group_selection_strategy=LAPLACE_THRESHOLD, max_groups_contributed=3) COUNT(*) FROM visits;

-- LAPLACE_THRESHOLD with max_groups_contributed of NULL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6, group_selection_strategy=LAPLACE_THRESHOLD, max_groups_contributed=NULL) COUNT(*) FROM visits;

-- LAPLACE_THRESHOLD of unknown groups
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6, group_selection_strategy=LAPLACE_THRESHOLD) word, COUNT(*) AS n FROM visits GROUP BY word;

-- group_selection_strategy of NULL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=NULL) COUNT(*) FROM visits;

-- PUBLIC_GROUPS without GROUP BY
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) COUNT(*) FROM visits;

-- PUBLIC_GROUPS without GROUP BY, with groups
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS, max_groups_contributed=3) COUNT(*) FROM visits;

-- PUBLIC_GROUPS of a right join
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) kind, COUNT(*) AS n FROM visits RIGHT OUTER JOIN (SELECT DISTINCT kind FROM kinds) USING (kind) GROUP BY kind;

-- PUBLIC_GROUPS of a right join of texts
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, SUM(kind) AS n FROM visits RIGHT JOIN (SELECT DISTINCT word FROM words) USING (word) GROUP BY word;

-- PUBLIC_GROUPS of a left join
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) kind, COUNT(*) AS n FROM (SELECT DISTINCT kind FROM kinds) LEFT OUTER JOIN visits USING (kind) GROUP BY kind;

-- PUBLIC_GROUPS of a public GROUP BY
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) AS n FROM (SELECT word FROM words GROUP BY word) LEFT OUTER JOIN visits USING (word) GROUP BY word;

-- PUBLIC_GROUPS with max_groups_contributed of NULL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS, max_groups_contributed=NULL) word, COUNT(*) AS n FROM visits RIGHT OUTER JOIN (SELECT DISTINCT word FROM words) USING (word) GROUP BY word;

-- PUBLIC_GROUPS behind a self-join by the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) AS n FROM (SELECT b.person_id, b.word FROM visits AS a RIGHT OUTER JOIN visits AS b USING (person_id)) RIGHT OUTER JOIN (SELECT DISTINCT word FROM words) USING (word) GROUP BY word;

-- PUBLIC_GROUPS of two columns
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) kind, word, COUNT(*) AS n FROM visits RIGHT OUTER JOIN (SELECT DISTINCT kind, word FROM kinds CROSS JOIN words) USING (kind, word) GROUP BY kind, word;

-- PUBLIC_GROUPS in quotes
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy='PUBLIC_GROUPS') kind, COUNT(*) AS n FROM visits RIGHT OUTER JOIN (SELECT DISTINCT kind FROM kinds) USING (kind) GROUP BY kind;

-- PUBLIC_GROUPS with names of the tables
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) COUNT(*) AS n FROM visits AS v RIGHT OUTER JOIN (SELECT DISTINCT word FROM words) AS w ON v.word = w.word GROUP BY w.word;

-- PUBLIC_GROUPS of a table whose words may repeat
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) AS n FROM words LEFT OUTER JOIN visits USING (word) GROUP BY word;

-- PUBLIC_GROUPS of generated days
-- = SELECT d.day, COUNT(v.kind) AS n FROM (SELECT UNNEST(range(1, 8)) AS day) AS d LEFT JOIN visits AS v ON d.day = EXTRACT(ISODOW FROM v.seen) GROUP BY d.day
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) d.day, COUNT(v.kind) AS n FROM (SELECT * FROM (VALUES (1), (2), (3), (4), (5), (6), (7)) AS t(day)) AS d LEFT JOIN visits AS v ON d.day = EXTRACT(ISODOW FROM v.seen) GROUP BY d.day;

-- PUBLIC_GROUPS by a key that is computed
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) kind + 1 AS next, COUNT(*) AS n FROM visits RIGHT JOIN (SELECT DISTINCT kind FROM kinds) USING (kind) GROUP BY kind + 1;

-- PUBLIC_GROUPS of two public tables
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) k.kind, w.word, COUNT(v.person_id) AS n FROM (SELECT DISTINCT kind FROM kinds) AS k CROSS JOIN (SELECT DISTINCT word FROM words) AS w LEFT JOIN visits AS v ON v.kind = k.kind AND v.word = w.word GROUP BY k.kind, w.word;

-- PUBLIC_GROUPS of two right joins
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) kind, word, COUNT(*) AS n FROM visits RIGHT OUTER JOIN (SELECT DISTINCT kind FROM kinds) USING (kind) RIGHT OUTER JOIN (SELECT DISTINCT word FROM words) USING (word) GROUP BY kind, word;

-- PUBLIC_GROUPS of a CTE
WITH listed AS (SELECT DISTINCT word FROM words) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) AS n FROM visits RIGHT JOIN listed USING (word) GROUP BY word;

-- PUBLIC_GROUPS of a CTE whose words may repeat
WITH listed AS (SELECT word FROM words) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) AS n FROM visits RIGHT JOIN listed USING (word) GROUP BY word;

-- PUBLIC_GROUPS and an inner join with a public table
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) AS n FROM visits RIGHT OUTER JOIN (SELECT DISTINCT word FROM words) USING (word) INNER JOIN words AS again USING (word) GROUP BY word;

-- PUBLIC_GROUPS with a condition on the public side above the join
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) AS n FROM visits RIGHT OUTER JOIN (SELECT DISTINCT word FROM words) USING (word) WHERE starts_with(word, 'b') GROUP BY word;

-- PUBLIC_GROUPS with HAVING on the key
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) AS n FROM visits RIGHT OUTER JOIN (SELECT DISTINCT word FROM words) USING (word) GROUP BY word HAVING starts_with(word, 'b');

-- PUBLIC_GROUPS with conditions on both sides below the join
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(person_id) AS n FROM (SELECT person_id, word FROM visits WHERE kind > 2) RIGHT OUTER JOIN (SELECT DISTINCT word FROM words WHERE starts_with(word, 'b')) USING (word) GROUP BY word;

-- PUBLIC_GROUPS below a subquery
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) AS n FROM (SELECT person_id, word, SUBSTR(word, 1, 3) AS s FROM visits RIGHT OUTER JOIN (SELECT DISTINCT word FROM words) USING (word)) GROUP BY word;

-- PUBLIC_GROUPS below a subquery, under another name
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) other, COUNT(*) AS n FROM (SELECT person_id, word AS other FROM visits RIGHT OUTER JOIN (SELECT DISTINCT word FROM words) USING (word)) GROUP BY other;

-- PUBLIC_GROUPS, of which the first rows are shown
SELECT word, n FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) AS n FROM visits RIGHT OUTER JOIN (SELECT DISTINCT word FROM words) USING (word) GROUP BY word) WHERE n > 10 ORDER BY word LIMIT 3;

-- PUBLIC_GROUPS in two CTEs, joined
WITH a AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) AS n FROM visits RIGHT OUTER JOIN (SELECT DISTINCT word FROM words) USING (word) GROUP BY word), b AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) kind, COUNT(*) AS m FROM visits RIGHT OUTER JOIN (SELECT DISTINCT kind FROM kinds) USING (kind) GROUP BY kind) SELECT word, kind, n + m AS s FROM a CROSS JOIN b;

-- PUBLIC_GROUPS in a CTE with a CTE
WITH a AS (WITH listed AS (SELECT word FROM words) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) AS n FROM visits RIGHT OUTER JOIN (SELECT DISTINCT word FROM listed) USING (word) GROUP BY word) SELECT * FROM a;

-- PUBLIC_GROUPS in two branches of UNION ALL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) AS n FROM visits RIGHT OUTER JOIN (SELECT DISTINCT word FROM words) USING (word) GROUP BY word UNION ALL SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) AS n FROM visits RIGHT OUTER JOIN (SELECT DISTINCT word FROM words) USING (word) GROUP BY word;

-- PUBLIC_GROUPS of declared keys
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) kind, COUNT(*) AS n FROM visits GROUP BY kind;

-- refused: PUBLIC_GROUPS of unknown keys
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) FROM visits GROUP BY word;

-- refused: PUBLIC_GROUPS, of which one key is unknown
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) note, p.region, COUNT(*) FROM orders AS o JOIN people AS p ON o.person_id = p.id GROUP BY note, p.region;

-- refused: PUBLIC_GROUPS of keys that people have
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) FROM visits RIGHT OUTER JOIN (SELECT DISTINCT word FROM visits) USING (word) GROUP BY word;

-- refused: PUBLIC_GROUPS of the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) person_id, COUNT(*) FROM visits RIGHT OUTER JOIN (SELECT DISTINCT id AS person_id FROM goods) USING (person_id) GROUP BY person_id;

-- refused: PUBLIC_GROUPS of a full join
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) FROM visits FULL OUTER JOIN (SELECT DISTINCT word FROM words) USING (word) GROUP BY word;

-- refused: PUBLIC_GROUPS of the first rows of people
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) FROM (SELECT person_id, word FROM visits LIMIT 10) RIGHT OUTER JOIN (SELECT DISTINCT word FROM words) USING (word) GROUP BY word;

-- refused: A sample of people's rows
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=PUBLIC_GROUPS) word, COUNT(*) FROM (SELECT person_id, word FROM visits) TABLESAMPLE BERNOULLI (1 PERCENT) RIGHT OUTER JOIN (SELECT DISTINCT word FROM words) USING (word) GROUP BY word;

-- refused: A strategy that does not exist
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=UNDEFINED_STRATEGY) kind, COUNT(*) FROM visits GROUP BY kind;

-- refused: Two strategies
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, group_selection_strategy=LAPLACE_THRESHOLD, group_selection_strategy=PUBLIC_GROUPS) kind, COUNT(*) FROM visits GROUP BY kind;

-- Epsilon of an aggregate
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(points, epsilon => 10000), COUNT(*) FROM visits;

-- Epsilon of each aggregate
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(points, epsilon => 10000), COUNT(*, epsilon => 10000) FROM visits;

-- Epsilon of an aggregate with bounds
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind, SUM(points, contribution_bounds_per_group => (0, 100), epsilon => 4000) AS s, AVG(minutes) AS m FROM visits GROUP BY kind;

-- Epsilon of the choice of groups
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6, group_selection_epsilon=6000) word, SUM(points) AS s FROM visits GROUP BY word;

-- Epsilon of the choice of groups and of an aggregate
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6, group_selection_epsilon=6000) word, SUM(points, epsilon => 4000) AS s, COUNT(*) AS n FROM visits GROUP BY word;

-- refused: An aggregate that costs more than all
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(points, epsilon => 40000) FROM visits;

-- refused: An epsilon of 0 of an aggregate
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(points, epsilon => 0) FROM visits;

-- A self-join by the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM visits AS a INNER JOIN visits AS b ON a.person_id = b.person_id;

-- A self-join USING the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM visits AS a INNER JOIN visits AS b USING (person_id);

-- A self-join by WHERE
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM visits AS a, visits AS b WHERE a.person_id = b.person_id;

-- A self-join by the unit as text
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM visits AS a INNER JOIN visits AS b ON CAST(a.person_id AS VARCHAR) = CAST(b.person_id AS VARCHAR);

-- A self-join by the unit and by more
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM visits AS a INNER JOIN visits AS b ON (a.kind = b.kind AND (a.word = b.word AND a.person_id = b.person_id));

-- A self-join by the unit, said twice
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM visits AS a INNER JOIN visits AS b ON (a.person_id = b.person_id AND a.person_id = b.person_id);

-- A self-join by the unit, once a person
-- = SELECT COUNT(DISTINCT person_id) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 1)) FROM visits AS a INNER JOIN visits AS b ON a.person_id = b.person_id;

-- A cross join with public tables and a self-join
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 900)) FROM ((kinds AS a CROSS JOIN words AS b) CROSS JOIN visits AS c) INNER JOIN visits AS d ON c.person_id = d.person_id;

-- A right join that keeps people
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT b.person_id FROM kinds AS a RIGHT JOIN visits AS b ON a.kind = b.points);

-- A right self-join by the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT a.person_id FROM visits AS a RIGHT JOIN visits AS b ON a.person_id = b.person_id);

-- A left join with a public table
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT a.person_id FROM visits AS a LEFT JOIN kinds AS b ON a.points = b.kind);

-- A left self-join by the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT b.person_id FROM visits AS a LEFT JOIN visits AS b ON a.person_id = b.person_id);

-- A right join that keeps public rows, without groups
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(a.person_id, contribution_bounds_per_group => (0, 100)) FROM visits AS a RIGHT JOIN kinds AS b ON a.kind = b.kind;

-- A left join that keeps public rows, without groups
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(b.person_id, contribution_bounds_per_group => (0, 100)) FROM kinds AS a LEFT JOIN visits AS b ON a.kind = b.kind;

-- A full self-join by the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM visits AS a FULL OUTER JOIN visits AS b ON a.person_id = b.person_id;

-- Two groupings by the unit, joined
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT COUNT(*) AS n, person_id FROM visits GROUP BY person_id) AS a INNER JOIN (SELECT COUNT(*) AS n, person_id FROM visits GROUP BY person_id) AS b ON a.person_id = b.person_id;

-- Rows joined with a grouping by the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM visits AS a INNER JOIN (SELECT COUNT(*) AS n, person_id FROM visits GROUP BY person_id) AS b ON a.person_id = b.person_id;

-- A grouping by the unit beside a public count
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT COUNT(*) AS n, person_id FROM visits GROUP BY person_id) AS a, (SELECT COUNT(*) AS m FROM kinds) AS b;

-- Groups of a public table of a cross join
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) b.half, COUNT(*, contribution_bounds_per_group => (0, 100)) AS n FROM visits AS a, kinds AS b GROUP BY b.half;

-- refused: A cross join of people with people
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM visits AS a, visits AS b;

-- refused: A self-join by a condition of one side
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM visits AS a INNER JOIN visits AS b ON a.person_id = a.person_id;

-- refused: A self-join by the unit, or by a value
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM visits AS a INNER JOIN visits AS b ON (a.person_id = b.person_id OR a.kind = b.kind);

-- refused: A self-join by a value
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM visits AS a INNER JOIN visits AS b ON a.kind = b.kind;

-- refused: A self-join USING a value
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM visits AS a JOIN visits AS b USING (word);

-- refused: A left self-join by a value
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(a.points) FROM visits AS a LEFT OUTER JOIN visits AS b ON a.word = b.word;

-- refused: A self-join by a value in a subquery
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM (SELECT b.word FROM visits AS a JOIN visits AS b ON a.word = b.word WHERE a.kind % 2 = 0);

-- refused: A full join with a public table
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM kinds AS a FULL OUTER JOIN visits AS b ON a.kind = b.kind;

-- Two counts, UNION ALL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits UNION ALL SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits;

-- Two counts, UNION DISTINCT
-- = SELECT COUNT(*) FROM visits UNION SELECT COUNT(*) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits UNION DISTINCT SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits;

-- Two counts, INTERSECT
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits INTERSECT SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits;

-- Two counts, EXCEPT
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits EXCEPT SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits;

-- A count of people and one of a public table
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits UNION ALL SELECT COUNT(*) FROM kinds;

-- People's rows, three times
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT * FROM visits UNION ALL SELECT * FROM (SELECT * FROM visits UNION ALL SELECT * FROM visits));

-- People's rows twice, once a person
-- = SELECT COUNT(DISTINCT person_id) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 1)) FROM (SELECT * FROM visits UNION ALL SELECT * FROM visits);

-- People's rows, UNION
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT person_id, kind FROM visits UNION SELECT person_id, kind FROM visits);

-- People's rows of two tables
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT person_id FROM visits UNION ALL SELECT person_id FROM orders);

-- People's rows twice, beside public rows
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT kind FROM visits UNION ALL SELECT kind FROM visits) CROSS JOIN (SELECT 'a' AS x, 'b' AS y UNION ALL SELECT 'c', 'd');

-- refused: People's rows EXCEPT people's rows
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM (SELECT kind FROM visits EXCEPT SELECT kind FROM visits);

-- refused: People's rows INTERSECT people's rows
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM (SELECT kind FROM visits INTERSECT SELECT kind FROM visits);

-- refused: People's rows beside rows of nobody
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM (SELECT person_id, kind FROM visits UNION ALL SELECT NULL, NULL);

-- A subquery without the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(points, contribution_bounds_per_group => (0, 10)) FROM (SELECT points FROM visits);

-- A subquery of a subquery
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(points, contribution_bounds_per_group => (0, 10)) FROM (SELECT b.points FROM (SELECT a.points, a.person_id FROM visits AS a) AS b);

-- A grouping by the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT COUNT(*) AS n, person_id FROM visits GROUP BY person_id);

-- A grouping by the unit that is not shown
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY person_id);

-- Groupings by the unit under two names
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT COUNT(*) AS n, y FROM (SELECT x, y FROM (SELECT person_id AS x, person_id AS y FROM visits) GROUP BY x, y) GROUP BY y);

-- A grouping by the unit and a value
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind, COUNT(*) AS n FROM (SELECT person_id, kind FROM visits GROUP BY person_id, kind) GROUP BY kind;

-- An aggregate of each person, by group
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind, AVG(s) AS mean FROM (SELECT person_id, kind, SUM(points) AS s FROM visits GROUP BY person_id, kind) GROUP BY kind;

-- A released count of people beside a public table
SELECT COUNT(*) FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(word, contribution_bounds_per_group => (0, 100)) AS n FROM visits) CROSS JOIN kinds;

-- A count without the unit, counted
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM (SELECT COUNT(*) AS n FROM kinds) CROSS JOIN visits;

-- EXISTS of a public table
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits WHERE EXISTS (SELECT kind FROM kinds);

-- IN of a public table under EXISTS of a public table
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits WHERE 3 IN (SELECT kind FROM kinds WHERE EXISTS (SELECT word FROM words));

-- EXISTS of the person's rows
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits AS v WHERE EXISTS (SELECT 1 FROM orders AS o WHERE o.person_id = v.person_id AND o.channel = 'web');

-- A public table IN a released sum
SELECT kind FROM kinds WHERE 123 IN (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(points) FROM visits);

-- A public table EXISTS a release
SELECT 1 AS one FROM kinds WHERE EXISTS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM visits);

-- EXISTS of a release, in a release
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits WHERE EXISTS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) SUM(points) FROM visits);

-- A released value as a condition of public rows
SELECT kind FROM kinds WHERE (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 5)) AS n FROM visits) > 0;

-- A release of a release
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind, COUNT(*) AS n FROM visits GROUP BY kind);

-- A count of a sum that a release has
SELECT COUNT(*) FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) kind, SUM(points) AS s FROM visits GROUP BY kind) AS t WHERE s > 0;

-- refused: EXISTS of other people's rows
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits WHERE EXISTS (SELECT person_id FROM orders);

-- refused: IN of other people's rows
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits WHERE 3 IN (SELECT kind FROM visits WHERE EXISTS (SELECT kind FROM visits));

-- refused: Rows of people without an aggregate
SELECT kind FROM visits;

-- refused: A public table under EXISTS of people's rows
SELECT 1 FROM kinds WHERE EXISTS (SELECT * FROM visits);

-- refused: A computed unit as a group
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM (SELECT COUNT(*) AS n, 10 + person_id AS x FROM visits GROUP BY x) AS t GROUP BY x;

-- refused: The unit as a group
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6) person_id, COUNT(*) FROM visits GROUP BY person_id;

-- refused: The first rows of people
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM (SELECT a.n FROM (SELECT COUNT(*) AS n, person_id FROM visits GROUP BY person_id) AS a ORDER BY a.n LIMIT 10);

-- refused: A table function of people's rows
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM tvf_of(TABLE visits);

-- refused: A sample of rows, first
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM visits TABLESAMPLE RESERVOIR (1 ROWS);

-- refused: A sample of rows, by a share
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM visits TABLESAMPLE SYSTEM (1 PERCENT);

-- A CTE of people's rows
WITH t AS (SELECT * FROM visits) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM t;

-- A CTE of ones
WITH t AS (SELECT 1 AS one FROM visits) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT * FROM t);

-- Three CTEs, of which one is asked
WITH a AS (SELECT * FROM visits), b AS (SELECT * FROM orders), c AS (SELECT * FROM kinds) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT * FROM a);

-- A release as a CTE
WITH t AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits) SELECT * FROM t;

-- A CTE of people beside a public question
WITH a AS (SELECT * FROM visits), b AS (SELECT * FROM kinds) SELECT COUNT(*) FROM b;

-- A released CTE beside a public question
WITH a AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM visits), b AS (SELECT * FROM kinds) SELECT COUNT(*) FROM b;

-- Two CTEs, people and public, UNION ALL
WITH a AS (SELECT * FROM visits), b AS (SELECT * FROM kinds) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (SELECT * FROM a) UNION ALL SELECT COUNT(*) FROM b;

-- A CTE of a CTE
WITH a AS (SELECT * FROM visits), b AS (SELECT * FROM a) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM b;

-- A CTE joined with its table
WITH a AS (SELECT * FROM visits) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM a INNER JOIN visits AS b ON a.person_id = b.person_id;

-- A CTE beside a public table
WITH a AS (SELECT * FROM visits) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM a CROSS JOIN kinds;

-- A constant CTE beside people
WITH a AS (SELECT 1 AS one) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM a CROSS JOIN visits AS b;

-- Two CTEs of people, joined by the unit
WITH a AS (SELECT * FROM visits), b AS (SELECT * FROM visits) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM a INNER JOIN b ON a.person_id = b.person_id;

-- A CTE twice, beside constants
WITH a AS (SELECT * FROM visits), b AS (SELECT 1 AS one) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM a AS t1 CROSS JOIN b AS t2 INNER JOIN a AS t3 ON t1.person_id = t3.person_id CROSS JOIN b AS t4;

-- A CTE in a subquery
WITH a AS (SELECT * FROM visits) SELECT * FROM (WITH b AS (SELECT * FROM a) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM b);

-- CTEs inside and outside
WITH a AS (SELECT * FROM visits) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*, contribution_bounds_per_group => (0, 100)) FROM (WITH b AS (SELECT * FROM a) SELECT * FROM b);

-- A CTE of people and a release of it
WITH a AS (SELECT * FROM visits), b AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM a) SELECT * FROM b;

-- A CTE in random order
-- = SELECT COUNT(*) FROM visits
WITH t AS (SELECT kind FROM visits ORDER BY RAND()) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6) COUNT(*) AS n FROM t;

-- refused: Two CTEs of people, cross joined
WITH a AS (SELECT * FROM visits), b AS (SELECT * FROM visits) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) AS n FROM a CROSS JOIN b;

-- refused: A recursive CTE of people
WITH RECURSIVE t AS ((SELECT kind, person_id FROM visits) UNION ALL (SELECT kind + 1, person_id FROM t WHERE kind < 9)) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000) COUNT(*) FROM t;

-- Noise: rows of each good
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6) channel, COUNT(*, contribution_bounds_per_group => (0, 100)) AS n FROM orders GROUP BY channel;

-- Means by group, from two tables of people
-- = SELECT p.region, AVG(o.amount) AS mean FROM people AS p JOIN orders AS o ON o.person_id = p.id GROUP BY p.region
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6) p.region, AVG(o.amount, contribution_bounds_per_row => (0, 200)) AS mean FROM people AS p JOIN orders AS o ON o.person_id = p.id GROUP BY p.region;

-- Means with two groups a person
-- = SELECT COUNT(*) FROM regions
SELECT COUNT(*) FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=20000, delta=1e-6, max_groups_contributed=2) region, AVG(income, contribution_bounds_per_group => (0, 100000)) AS mean FROM people GROUP BY region);

-- refused: A preview
SELECT * FROM visits;
