-- The rows of docs/compat.md: `-- construct | where it comes from | note`, then one statement. `owner` behind a second bar: the owner
-- runs it. The tables are the built-in ones; the statements of a section run in their order.

## Reading

-- SELECT without FROM | both
SELECT 1 + 1 AS two;
-- SELECT of private rows | both | release an aggregate; single rows of people are never shown
SELECT age, sex FROM adult;
-- SELECT * of private rows | both | release an aggregate; a preview of rows does not exist
SELECT * FROM adult;
-- SELECT * of a public table | both
SELECT * FROM census;
-- SELECT * EXCEPT (…) | GoogleSQL
SELECT * EXCEPT (share) FROM census;
-- SELECT * REPLACE (…) | GoogleSQL | name the columns
SELECT * REPLACE (share * 2 AS share) FROM census;
-- SELECT AS STRUCT | GoogleSQL
SELECT AS STRUCT status, share FROM census;
-- SELECT DISTINCT over private rows | both | GROUP BY lists declared values; a `delta` finds others
SELECT DISTINCT age FROM adult;
-- SELECT DISTINCT of a column with a declared list | both | the declared values, free
SELECT DISTINCT status FROM adult;
-- SELECT DISTINCT over released rows | both
SELECT DISTINCT sex FROM (SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex) AS c;
-- DISTINCT ON (…) | PostgreSQL | of released and public rows, with its keys first in ORDER BY
SELECT DISTINCT ON (sex) sex, n FROM (SELECT sex, race, COUNT(*) AS n FROM adult GROUP BY sex, race) AS c ORDER BY sex, n DESC;
-- WHERE over private rows | both
SELECT COUNT(*) FROM adult WHERE age BETWEEN 30 AND 39 AND sex = 'Female';
-- WHERE over released rows | both
SELECT status FROM (SELECT status, COUNT(*) AS n FROM adult GROUP BY status) AS c WHERE n > 100;
-- GROUP BY declared values | both
SELECT status, COUNT(*) AS n FROM adult GROUP BY status;
-- GROUP BY values that are not declared | both | a `delta`: `LAPLACE(eps=1, delta=1e-6) COUNT(*)`
SELECT order_id, COUNT(*) AS n FROM orders GROUP BY order_id;
-- GROUP BY values that are not declared, with a delta | both
SELECT price, LAPLACE(eps=1, delta=1e-6, groups=3) COUNT(DISTINCT user_id) AS n FROM orders GROUP BY price;
-- GROUP BY the privacy unit | both | one group for each person would show who is there
SELECT user_id, COUNT(*) AS n FROM orders GROUP BY user_id;
-- GROUP BY an expression | both
SELECT age / 10 * 10 AS decade, COUNT(*) AS n FROM adult GROUP BY age / 10 * 10;
-- GROUP BY a position | both
SELECT sex, COUNT(*) AS n FROM adult GROUP BY 1;
-- GROUP BY an alias | both
SELECT upper(sex) AS s, COUNT(*) AS n FROM adult GROUP BY s;
-- GROUP BY ALL | GoogleSQL
SELECT sex, COUNT(*) AS n FROM adult GROUP BY ALL;
-- HAVING | both
SELECT status, COUNT(*) AS n FROM adult GROUP BY status HAVING COUNT(*) > 100;
-- QUALIFY | GoogleSQL
SELECT status, COUNT(*) AS n FROM adult GROUP BY status QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) = 1;
-- WINDOW w AS (…) | both | write the window out behind OVER
SELECT status, n, SUM(n) OVER w AS so_far FROM (SELECT status, COUNT(*) AS n FROM adult GROUP BY status) AS c WINDOW w AS (ORDER BY n);
-- ORDER BY, NULLS LAST | both
SELECT status, COUNT(*) AS n FROM adult GROUP BY status ORDER BY n DESC NULLS LAST;
-- ORDER BY a position | both
SELECT status, COUNT(*) AS n FROM adult GROUP BY status ORDER BY 2 DESC;
-- LIMIT and OFFSET over released rows | both
SELECT status, COUNT(*) AS n FROM adult GROUP BY status ORDER BY n DESC LIMIT 3 OFFSET 1;
-- LIMIT below a release | both | which rows come first depends on others
SELECT COUNT(*) FROM (SELECT age FROM adult LIMIT 10) AS t;
-- FETCH FIRST n ROWS ONLY | PostgreSQL
SELECT status, COUNT(*) AS n FROM adult GROUP BY status FETCH FIRST 3 ROWS ONLY;
-- TABLESAMPLE | both | which rows are drawn would be secret; noise is enough
SELECT COUNT(*) FROM adult TABLESAMPLE SYSTEM (10);
-- FOR UPDATE | PostgreSQL
SELECT status FROM census FOR UPDATE;
-- VALUES | PostgreSQL
SELECT x, y FROM (VALUES (1, 'a'), (2, 'b')) AS t(x, y);
-- TABLE name | PostgreSQL | `SELECT * FROM census`
TABLE census;
-- Pipe syntax | GoogleSQL | SELECT
FROM census |> WHERE share > 10 |> SELECT status;
-- FOR SYSTEM_TIME AS OF | GoogleSQL
SELECT COUNT(*) FROM adult FOR SYSTEM_TIME AS OF TIMESTAMP '2025-01-01 00:00:00';

## Subqueries and set operations

-- WITH | both
WITH grown AS (SELECT sex FROM adult WHERE age >= 18) SELECT sex, COUNT(*) AS n FROM grown GROUP BY sex;
-- WITH, used twice: one draw | both
WITH c AS (SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex) SELECT a.n - b.n AS zero FROM c AS a JOIN c AS b ON a.sex = b.sex;
-- WITH RECURSIVE | both
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT n FROM t;
-- Subquery in FROM | both
SELECT AVG(age) FROM (SELECT age FROM adult WHERE sex = 'Male') AS men;
-- An aggregate of released rows | both
SELECT MAX(n) AS most FROM (SELECT status, COUNT(*) AS n FROM adult GROUP BY status) AS c;
-- An aggregate of each person's rows, below a release | both
SELECT AVG(spent) FROM (SELECT user_id, SUM(price) AS spent FROM orders GROUP BY user_id) AS t;
-- IN (a subquery of the same person's rows) | both
SELECT COUNT(*) FROM orders WHERE user_id IN (SELECT user_id FROM orders WHERE product = 'wine');
-- IN (a subquery of other people's rows) | both | whether a row counts would depend on other people
SELECT COUNT(*) FROM orders WHERE product IN (SELECT product FROM orders WHERE price > 50);
-- IN (a subquery of a public table) | both
SELECT COUNT(*) FROM adult WHERE status IN (SELECT status FROM census WHERE share > 10);
-- NOT IN (a subquery) | both
SELECT COUNT(*) FROM orders WHERE user_id NOT IN (SELECT user_id FROM orders WHERE product = 'wine');
-- EXISTS | both
SELECT COUNT(*) FROM orders AS o WHERE EXISTS (SELECT 1 FROM orders AS w WHERE w.user_id = o.user_id AND w.product = 'wine');
-- = ANY (a subquery) | PostgreSQL
SELECT COUNT(*) FROM adult WHERE status = ANY (SELECT status FROM census);
-- Correlated subquery as a value | both
SELECT COUNT(*) FROM orders AS o WHERE (SELECT COUNT(*) FROM orders AS p WHERE p.user_id = o.user_id) > 2;
-- Subquery as a value, released | both
SELECT COUNT(*) FROM adult WHERE age > (SELECT LAPLACE(eps=1) AVG(age) FROM adult);
-- Subquery as a value, over other people's rows | both | release it: `(SELECT LAPLACE(eps=1) AVG(age) …)`
SELECT LAPLACE(eps=1) COUNT(*) FROM adult WHERE age > (SELECT AVG(age) FROM adult);
-- LATERAL | PostgreSQL | a subquery as a value, or a join
SELECT COUNT(*) FROM orders AS o, LATERAL (SELECT o.price * 2 AS twice) AS t;
-- ARRAY (a subquery) | both | `array_agg` of released rows
SELECT ARRAY(SELECT status FROM census);
-- UNION ALL of private rows | both
SELECT COUNT(*) FROM (SELECT user_id FROM orders UNION ALL SELECT user_id FROM orders) AS t;
-- UNION ALL of released rows | both
SELECT 'men' AS who, COUNT(*) AS n FROM adult WHERE sex = 'Male' UNION ALL SELECT 'women', COUNT(*) FROM adult WHERE sex = 'Female';
-- UNION (DISTINCT) of private rows | both
SELECT COUNT(*) FROM (SELECT user_id FROM orders UNION SELECT user_id FROM orders) AS t;
-- UNION DISTINCT of released rows | GoogleSQL
SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex UNION DISTINCT SELECT 'x', 0;
-- INTERSECT of released rows | both
SELECT status FROM census INTERSECT SELECT status FROM (SELECT status, COUNT(*) AS n FROM adult GROUP BY status) AS c;
-- EXCEPT of people | both
SELECT COUNT(*) FROM (SELECT user_id FROM orders EXCEPT SELECT user_id FROM orders WHERE price > 50) AS t;
-- EXCEPT of private rows | both | NOT EXISTS, of one person's rows
SELECT COUNT(*) FROM (SELECT city FROM orders EXCEPT SELECT city FROM orders WHERE price > 50) AS t;
-- UNION ALL BY NAME | GoogleSQL
SELECT 1 AS a, 2 AS b UNION ALL BY NAME SELECT 3 AS b, 4 AS a;

## Joins

-- JOIN … ON, with a public table | both
SELECT c.status, COUNT(*) AS n FROM adult AS a JOIN census AS c ON a.status = c.status GROUP BY c.status;
-- JOIN … USING | both
SELECT status, COUNT(*) AS n FROM adult JOIN census USING (status) GROUP BY status;
-- NATURAL JOIN | PostgreSQL
SELECT status, COUNT(*) AS n FROM adult NATURAL JOIN census GROUP BY status;
-- JOIN of one person's rows | both
SELECT COUNT(*) FROM orders AS a JOIN orders AS b ON a.user_id = b.user_id WHERE a.ts < b.ts;
-- JOIN of different people's rows | both | add the units to the condition, or declare a link
SELECT COUNT(*) FROM orders AS a JOIN orders AS b ON a.product = b.product;
-- JOIN of tables without a declared link | both | declare one: `SET PRIVACY UNIT VIA (…) REFERENCES …`
SELECT COUNT(*) FROM orders JOIN bids ON user_id = bidder;
-- LEFT JOIN that keeps private rows | both
SELECT COUNT(*) FROM adult AS a LEFT JOIN census AS c ON a.status = c.status AND c.share > 10;
-- LEFT JOIN that keeps public rows | both
SELECT c.status, COUNT(a.id) AS n FROM census AS c LEFT JOIN adult AS a ON a.status = c.status GROUP BY c.status;
-- RIGHT JOIN | both
SELECT c.status, COUNT(a.id) AS n FROM adult AS a RIGHT JOIN census AS c ON a.status = c.status GROUP BY c.status;
-- FULL JOIN of private rows | both | LEFT JOIN
SELECT COUNT(*) FROM adult AS a FULL JOIN census AS c ON a.status = c.status;
-- FULL JOIN of released rows | both
SELECT c.status, n FROM census AS c FULL JOIN (SELECT status, COUNT(*) AS n FROM adult GROUP BY status) AS a ON a.status = c.status;
-- CROSS JOIN with a public table | both
SELECT COUNT(*) FROM adult CROSS JOIN census;
-- Comma join | both
SELECT COUNT(*) FROM adult AS a, census AS c WHERE a.status = c.status;
-- JOIN of released and public rows | both
SELECT c.status, n, share FROM census AS c JOIN (SELECT status, COUNT(*) AS n FROM adult GROUP BY status) AS a ON a.status = c.status;

## Aggregates across people

-- COUNT(*) | both
SELECT COUNT(*) FROM adult;
-- COUNT(x) | both
SELECT COUNT(age) FROM adult;
-- COUNT(DISTINCT x) | both
SELECT COUNT(DISTINCT user_id) FROM orders;
-- COUNT(DISTINCT x, y) | both | `COUNT(DISTINCT x || '/' || y)`
SELECT COUNT(DISTINCT user_id, product) FROM orders;
-- COUNT(…) FILTER (WHERE …) | PostgreSQL
SELECT COUNT(*) FILTER (WHERE age > 65) AS old FROM adult;
-- COUNTIF | GoogleSQL
SELECT COUNTIF(age > 65) AS old FROM adult;
-- APPROX_COUNT_DISTINCT | GoogleSQL
SELECT APPROX_COUNT_DISTINCT(user_id) FROM orders;
-- SUM | both
SELECT SUM(price) FROM orders;
-- SUM of a column without a range | both | finds one with half of ε; a CLAMP or a domain is better
SELECT LAPLACE(eps=1) SUM(order_id) FROM orders;
-- SUM(DISTINCT x) | both
SELECT SUM(DISTINCT qty) FROM orders;
-- AVG | both
SELECT AVG(age) FROM adult;
-- MIN and MAX | both
SELECT MIN(age), MAX(age) FROM adult;
-- MEDIAN | HushQL
SELECT MEDIAN(age) FROM adult;
-- Any query of one value, by blocks of people | HushQL
SELECT SAMPLE_AND_AGGREGATE(eps=1, blocks=64) MEDIAN(CLAMP(x, -1, 1)) FROM (SELECT CORR(price, qty) AS x FROM orders) AS t;
-- PERCENTILE_CONT(f) WITHIN GROUP (ORDER BY x) | PostgreSQL
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) FROM adult;
-- PERCENTILE_CONT(x, f) | GoogleSQL
SELECT EXPONENTIAL(eps=1) PERCENTILE_CONT(age, 0.5) FROM adult;
-- PERCENTILE_CONT(ARRAY[f, …]) WITHIN GROUP (ORDER BY x) | PostgreSQL
SELECT PERCENTILE_CONT(ARRAY[0.25, 0.5]) WITHIN GROUP (ORDER BY age) FROM adult;
-- PERCENTILE_DISC | both
SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY age) FROM adult;
-- APPROX_QUANTILES | GoogleSQL | `QUANTILE(x, 0.25)` and the like
SELECT LAPLACE(eps=1) APPROX_QUANTILES(age, 4) FROM adult;
-- CDF(x, n) | HushQL
SELECT LAPLACE(eps=1) CDF(CLAMP(age, 0, 100), 100) AS up_to FROM adult;
-- MODE() WITHIN GROUP (ORDER BY x) | PostgreSQL
SELECT MODE() WITHIN GROUP (ORDER BY status) AS usual FROM adult;
-- APPROX_TOP_COUNT | GoogleSQL | `TOP 3 EXPONENTIAL(eps=1) status … GROUP BY status`
SELECT APPROX_TOP_COUNT(status, 3) FROM adult;
-- STDDEV, VARIANCE | both
SELECT STDDEV(age), VARIANCE(age) FROM adult;
-- VAR_POP, STDDEV_SAMP | both
SELECT VAR_POP(age), STDDEV_SAMP(age) FROM adult;
-- CORR, COVAR_POP | both
SELECT CORR(age, hours_per_week) FROM adult;
-- REGR_SLOPE | PostgreSQL
SELECT REGR_SLOPE(hours_per_week, age) FROM adult;
-- ANY_VALUE | both | `MODE(x)`
SELECT ANY_VALUE(status) FROM adult;
-- BOOL_AND, LOGICAL_AND | both | `COUNT(*) FILTER (WHERE NOT x)`
SELECT BOOL_AND(age > 18) FROM adult;
-- BIT_AND | both | one person can turn every bit
SELECT BIT_AND(age) FROM adult;
-- ARRAY_AGG | both | `GROUP BY x` and COUNT(*)
SELECT ARRAY_AGG(status) FROM adult;
-- STRING_AGG | both | `GROUP BY x` and COUNT(*)
SELECT STRING_AGG(status, ',') FROM adult;
-- STRING_AGG(x, ',' ORDER BY x) of released rows | both
SELECT STRING_AGG(status, ',' ORDER BY status) FROM (SELECT status, LAPLACE(eps=1) COUNT(*) AS n FROM adult GROUP BY status) AS c;
-- ARRAY_AGG of released rows | both
SELECT ARRAY_AGG(n) FROM (SELECT status, LAPLACE(eps=1) COUNT(*) AS n FROM adult GROUP BY status) AS c;
-- SUM(x ORDER BY y) | PostgreSQL | without ORDER BY: a sum has no order
SELECT SUM(price ORDER BY ts) FROM orders;
-- ANY_VALUE(x HAVING MAX y) | GoogleSQL
SELECT ANY_VALUE(product HAVING MAX price) FROM orders;
-- GROUP BY ROLLUP | both
SELECT sex, race, COUNT(*) AS n FROM adult GROUP BY ROLLUP (sex, race);
-- GROUP BY CUBE | both
SELECT sex, race, COUNT(*) AS n FROM adult GROUP BY CUBE (sex, race);
-- GROUPING SETS | both
SELECT sex, race, COUNT(*) AS n FROM adult GROUP BY GROUPING SETS ((sex), (race), ());
-- GROUPING(x) | both
SELECT sex, GROUPING(sex) AS total, COUNT(*) AS n FROM adult GROUP BY ROLLUP (sex);
-- PIVOT | GoogleSQL | over a subquery that names its columns, with a list of values
SELECT * FROM (SELECT sex, status FROM adult) PIVOT (COUNT(*) FOR sex IN ('Male', 'Female'));
-- UNPIVOT | GoogleSQL | UNION ALL
SELECT * FROM census UNPIVOT (v FOR c IN (share));

## Windows

-- Windows over released rows | both
SELECT status, n, RANK() OVER (ORDER BY n DESC) AS place FROM (SELECT status, COUNT(*) AS n FROM adult GROUP BY status) AS c;
-- A share of the total | both
SELECT status, n, n * 1.0 / SUM(n) OVER () AS share FROM (SELECT status, COUNT(*) AS n FROM adult GROUP BY status) AS c;
-- LAG and LEAD over released rows | both
SELECT m, n - LAG(n) OVER (ORDER BY m) AS more FROM (SELECT EXTRACT(MONTH FROM ts) AS m, COUNT(*) AS n FROM orders GROUP BY m) AS c;
-- NTILE over released rows | both
SELECT status, NTILE(4) OVER (ORDER BY n) AS q FROM (SELECT status, COUNT(*) AS n FROM adult GROUP BY status) AS c;
-- ROWS BETWEEN over released rows | both
SELECT m, AVG(n) OVER (ORDER BY m ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS smooth FROM (SELECT EXTRACT(MONTH FROM ts) AS m, COUNT(*) AS n FROM orders GROUP BY m) AS c;
-- ROW_NUMBER over one person's rows | both
SELECT SUM(price) FROM (SELECT price, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) AS r FROM orders) AS t WHERE r = 1;
-- LAG over one person's rows | both
SELECT AVG(price - before) FROM (SELECT price, LAG(price, 1, 0.0) OVER (PARTITION BY user_id ORDER BY ts) AS before FROM orders) AS t;
-- A sum over one person's rows | both
SELECT COUNT(*) FROM (SELECT SUM(price) OVER (PARTITION BY user_id) AS spent FROM orders) AS t WHERE spent > 100;
-- A window over rows of different people | both | PARTITION BY the unit
SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (ORDER BY price) AS r FROM orders) AS t WHERE r < 10;
-- NTILE over private rows | both | `QUANTILE(x, 0.25)` and the like
SELECT COUNT(*) FROM (SELECT NTILE(4) OVER (PARTITION BY user_id ORDER BY price) AS q FROM orders) AS t WHERE q = 1;
-- FIRST_VALUE over one person's rows | both
SELECT COUNT(*) FROM (SELECT FIRST_VALUE(product) OVER (PARTITION BY user_id ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS p FROM orders) AS t WHERE p = 'tea';

## Expressions over private rows

-- Arithmetic, comparisons, AND, OR, NOT | both
SELECT COUNT(*) FROM adult WHERE NOT (age * 2 > 60 OR hours_per_week - 10 < 20) AND age % 2 = 0;
-- Arithmetic that can overflow | both | NULL where the result does not fit. Beyond a declared range it is HQ006
SELECT COUNT(*) FROM adult WHERE id + 1 > 5;
-- Division | both
SELECT AVG(hours_per_week / 7.0) FROM adult;
-- Division of decimals | both | a DOUBLE, with all of its digits
SELECT SUM(CAST(price AS DECIMAL(8, 2)) / 3) FROM orders;
-- COALESCE of a text and a number | both | the number in quotes: COALESCE(city, '0')
SELECT COUNT(*) FROM orders WHERE COALESCE(city, 0) = '0';
-- DATE plus hours | both | CAST(x AS TIMESTAMP) + INTERVAL
SELECT COUNT(*) FROM orders WHERE CAST(ts AS DATE) + INTERVAL '12 hours' < ts;
-- CASE | both
SELECT AVG(CASE WHEN sex = 'Male' THEN 1.0 ELSE 0.0 END) AS men FROM adult;
-- IF | GoogleSQL
SELECT AVG(IF(sex = 'Male', 1.0, 0.0)) AS men FROM adult;
-- COALESCE, NULLIF | both
SELECT COUNT(*) FROM adult WHERE COALESCE(NULLIF(age, 0), 1) > 40;
-- IFNULL | GoogleSQL
SELECT COUNT(*) FROM adult WHERE IFNULL(age, 0) > 40;
-- GREATEST, LEAST | both
SELECT SUM(LEAST(qty, 3)) FROM orders;
-- IS DISTINCT FROM | both
SELECT COUNT(*) FROM adult WHERE sex IS DISTINCT FROM 'Male';
-- BETWEEN, IN (…) | both
SELECT COUNT(*) FROM adult WHERE age BETWEEN 20 AND 29 AND race IN ('White', 'Black');
-- LIKE | both
SELECT COUNT(*) FROM adult WHERE status LIKE 'Married%';
-- ILIKE | PostgreSQL
SELECT COUNT(*) FROM adult WHERE status ILIKE 'married%';
-- ~ (regular expression) | PostgreSQL | `regexp_like(x, '…')`
SELECT COUNT(*) FROM adult WHERE status ~ '^M';
-- REGEXP_CONTAINS | GoogleSQL | `regexp_like(x, '…')`
SELECT COUNT(*) FROM adult WHERE REGEXP_CONTAINS(status, '^M');
-- regexp_like of a declared text | PostgreSQL
SELECT COUNT(*) FROM adult WHERE regexp_like(status, '^M');
-- lower, upper, length, substring | both
SELECT COUNT(*) FROM adult WHERE length(lower(substring(status, 1, 3))) = 3;
-- || and concat | both
SELECT sex || '/' || race AS who, COUNT(*) AS n FROM adult GROUP BY who;
-- abs, round, floor, ceil | both
SELECT SUM(round(price)) FROM orders;
-- sqrt, ln, exp, power | both | above a release they are free
SELECT AVG(sqrt(age)) FROM adult;
-- CAST | both
SELECT SUM(CAST(qty AS DOUBLE)) FROM orders;
-- :: | PostgreSQL
SELECT SUM(qty::DOUBLE) FROM orders;
-- SAFE_CAST, TRY_CAST | GoogleSQL
SELECT COUNT(*) FROM adult WHERE SAFE_CAST(age AS BIGINT) > 5;
-- SAFE_DIVIDE | GoogleSQL | `x / y`, which is NULL where y is 0
SELECT AVG(SAFE_DIVIDE(hours_per_week, age)) FROM adult;
-- CURRENT_DATE, now() | both
SELECT COUNT(*) FROM orders WHERE ts < current_date;
-- EXTRACT | both
SELECT EXTRACT(MONTH FROM ts) AS m, COUNT(*) AS n FROM orders GROUP BY m;
-- date_trunc('month', t) | PostgreSQL
SELECT date_trunc('month', ts) AS m, COUNT(*) AS n FROM orders GROUP BY m;
-- DATE_TRUNC(t, MONTH) | GoogleSQL | `date_trunc('month', t)`
SELECT DATE_TRUNC(ts, MONTH) AS m, COUNT(*) AS n FROM orders GROUP BY m;
-- t + INTERVAL | both
SELECT COUNT(*) FROM orders WHERE ts + INTERVAL '3 days' < TIMESTAMP '2025-07-01 00:00:00';
-- DATE_ADD | GoogleSQL
SELECT COUNT(*) FROM orders WHERE DATE_ADD(ts, INTERVAL 3 DAY) < TIMESTAMP '2025-07-01 00:00:00';
-- DATE_DIFF(to, from, DAY) | GoogleSQL
SELECT COUNT(*) FROM orders WHERE DATE_DIFF(DATE '2026-01-01', CAST(ts AS DATE), DAY) > 30;
-- age(t) | PostgreSQL
SELECT COUNT(*) FROM orders WHERE age(ts) > INTERVAL '1 year';
-- to_char | PostgreSQL
SELECT to_char(ts, 'YYYY-MM') AS m, COUNT(*) AS n FROM orders GROUP BY m;
-- FORMAT_DATE, FORMAT_TIMESTAMP | GoogleSQL | `to_char(t, 'YYYY-MM')`
SELECT FORMAT_TIMESTAMP('%Y-%m', ts) AS m, COUNT(*) AS n FROM orders GROUP BY m;
-- width_bucket | PostgreSQL
SELECT width_bucket(price, 0, 100, 4) AS c, COUNT(*) AS n FROM orders GROUP BY c;
-- generate_series | PostgreSQL | VALUES, or a public table
SELECT COUNT(*) FROM generate_series(1, 5);
-- random() | both | noise is drawn by the mechanism
SELECT COUNT(*) FROM adult WHERE random() < 0.5;
-- md5, sha256 | both | `left(x, 1)` and other functions of the grammar
SELECT COUNT(*) FROM adult WHERE md5(status) LIKE 'a%';
-- CLAMP(x, lo, hi) | HushQL
SELECT SUM(CLAMP(age, 18, 90)) FROM adult;

## Arrays, structs, JSON

-- ARRAY[…] | both | columns
SELECT ARRAY[1, 2, 3] AS a;
-- x[1], x[OFFSET(0)] | both
SELECT (ARRAY[1, 2, 3])[1] AS a;
-- UNNEST | both | `VALUES (1), (2), (3)`
SELECT x FROM UNNEST(ARRAY[1, 2, 3]) AS t(x);
-- STRUCT(…) | GoogleSQL | columns
SELECT STRUCT(1 AS a, 'x' AS b) AS s;
-- ROW(…) | PostgreSQL
SELECT ROW(1, 'x') AS s;
-- Arrays below a release | both | CASE
SELECT COUNT(*) FROM adult WHERE ARRAY[age, 40][1] > 30;
-- = ANY (ARRAY[…]) | PostgreSQL
SELECT COUNT(*) FROM adult WHERE race = ANY (ARRAY['White', 'Black']);
-- JSON operators | PostgreSQL | declare a column of the file for each value
SELECT COUNT(*) FROM adult WHERE status ->> 'a' = 'b';
-- JSON_VALUE | GoogleSQL | declare a column of the file for each value
SELECT COUNT(*) FROM adult WHERE JSON_VALUE(status, '$.a') = 'b';

## Differential privacy

-- SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon, delta) | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6) price, COUNT(*) AS n FROM orders GROUP BY price;
-- OPTIONS(epsilon), keys are declared | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) city, COUNT(*) AS n, AVG(price) AS mean FROM orders GROUP BY city;
-- privacy_unit_column | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, privacy_unit_column=user_id) city, COUNT(*) AS n FROM orders GROUP BY city;
-- privacy_unit_column that is not the declared unit | GoogleSQL | the owner declares the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, privacy_unit_column=order_id) city, COUNT(*) AS n FROM orders GROUP BY city;
-- max_groups_contributed | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, max_groups_contributed=2) city, COUNT(*) AS n FROM orders GROUP BY city;
-- max_rows_contributed | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, max_rows_contributed=3) city, COUNT(*) AS n FROM orders GROUP BY city;
-- group_selection_strategy=PUBLIC_GROUPS | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, group_selection_strategy=PUBLIC_GROUPS) city, COUNT(*) AS n FROM orders GROUP BY city;
-- group_selection_strategy=LAPLACE_THRESHOLD | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, group_selection_strategy=LAPLACE_THRESHOLD) price, COUNT(*) AS n FROM orders GROUP BY price;
-- min_privacy_units_per_group | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, min_privacy_units_per_group=50) price, COUNT(*) AS n FROM orders GROUP BY price;
-- contribution_bounds_per_group | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) city, SUM(price, contribution_bounds_per_group => (0, 50)) AS paid FROM orders GROUP BY city;
-- contribution_bounds_per_row | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) city, AVG(price, contribution_bounds_per_row => (0, 50)) AS mean FROM orders GROUP BY city;
-- report_format => 'JSON' | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) city, COUNT(*, report_format => 'JSON') AS n FROM orders GROUP BY city;
-- epsilon of an aggregate | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) city, SUM(price, epsilon => 0.4) AS s, COUNT(*) AS n FROM orders GROUP BY city;
-- group_selection_epsilon | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, group_selection_epsilon=0.2) price, COUNT(*) AS n FROM orders GROUP BY price;
-- report_format => PROTO | GoogleSQL | answers have columns for errors
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) city, COUNT(*, report_format => PROTO) AS n FROM orders GROUP BY city;
-- APPROX_QUANTILES under OPTIONS | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) city, APPROX_QUANTILES(price, 4, contribution_bounds_per_row => (0, 100)) AS q FROM orders GROUP BY city;
-- PERCENTILE_CONT under OPTIONS | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) city, PERCENTILE_CONT(price, 0.5, contribution_bounds_per_row => (0, 100)) AS median FROM orders GROUP BY city;
-- VAR_POP under OPTIONS | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) city, VAR_POP(price, contribution_bounds_per_row => (0, 100)) AS v FROM orders GROUP BY city;
-- COUNT(DISTINCT unit) under OPTIONS | GoogleSQL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) city, COUNT(DISTINCT user_id) AS people FROM orders GROUP BY city;
-- SELECT WITH ANONYMIZATION | GoogleSQL | SELECT WITH DIFFERENTIAL_PRIVACY
SELECT WITH ANONYMIZATION OPTIONS(epsilon=1) city, ANON_COUNT(*) AS n FROM orders GROUP BY city;
-- ANON_COUNT, ANON_SUM | GoogleSQL | COUNT and SUM
SELECT ANON_SUM(price CLAMPED BETWEEN 0 AND 50) FROM orders;
-- SELECT WITH AGGREGATION_THRESHOLD | GoogleSQL | a threshold without noise is no promise about one person; owners write ALTER TABLE orders SET PRIVACY FLOOR 10, for every query
SELECT WITH AGGREGATION_THRESHOLD OPTIONS(threshold=10, privacy_unit_column=user_id) city, COUNT(*) AS n FROM orders GROUP BY city;
-- A budget's default, without any option | HushQL
SELECT city, COUNT(*) AS n FROM orders GROUP BY city;
-- A mechanism in front | HushQL
SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM orders GROUP BY city;
-- The same number with a larger ε; on a file, only the difference is charged | HushQL
SELECT city, LAPLACE(eps=1.5) COUNT(*) AS n FROM orders GROUP BY city;
-- A choice in place of a number | HushQL
SELECT ARGMAX EXPONENTIAL(eps=1) status FROM adult GROUP BY status;

## Statements and declarations

-- EXPLAIN PRIVACY | HushQL
EXPLAIN PRIVACY SELECT COUNT(*) FROM adult;
-- EXPLAIN PRIVACY TUNE | HushQL
EXPLAIN PRIVACY TUNE SELECT LAPLACE(eps=1) COUNT(*) FROM adult ON census;
-- EXPLAIN | both | owners only; analysts write EXPLAIN PRIVACY
EXPLAIN SELECT COUNT(*) FROM adult;
-- EXPLAIN ANALYZE | PostgreSQL | row counts of operators would be exact
EXPLAIN ANALYZE SELECT COUNT(*) FROM adult;
-- DESCRIBE, SHOW TABLES | HushQL
SHOW TABLES;
-- information_schema | both | SHOW TABLES, DESCRIBE; the server answers psql's and drivers' questions
SELECT table_name FROM information_schema.tables;
-- PREPARE and EXECUTE in SQL | PostgreSQL | the server's extended protocol, or `prepare` of the library
PREPARE q AS SELECT COUNT(*) FROM adult;
-- Parameters $1 in a shell | PostgreSQL | literals, or parameters of the protocol and the library
SELECT COUNT(*) FROM adult WHERE age > $1;
-- Parameters @x | GoogleSQL | literals, or `$1`
SELECT COUNT(*) FROM adult WHERE age > @x;
-- BEGIN, COMMIT | both | each statement is charged by itself
BEGIN;
-- SET | PostgreSQL | options of the program; the server has some settings
SET TimeZone = 'UTC';
-- CREATE EXTERNAL TABLE | GoogleSQL, owner
CREATE EXTERNAL TABLE wards (code VARCHAR, title VARCHAR, beds INT) STORED AS CSV LOCATION 'tests/data/wards.csv';
-- DROP TABLE | both, owner
DROP TABLE wards;
-- CREATE TABLE | both, owner | HushQL stores no rows: CREATE EXTERNAL TABLE
CREATE TABLE t (a INT);
-- CREATE TABLE AS | both | CREATE RELEASE TABLE
CREATE TABLE t AS SELECT COUNT(*) AS n FROM adult;
-- CREATE RELEASE TABLE | HushQL
CREATE RELEASE TABLE counts AS SELECT status, LAPLACE(eps=1) COUNT(*) AS n FROM adult GROUP BY status;
-- GRANT SELECT … TO | both
GRANT SELECT ON counts TO lab;
-- INSERT | both, owner | write the file, or the table of the server
INSERT INTO census VALUES ('x', 1);
-- UPDATE | both, owner
UPDATE census SET share = 1;
-- DELETE | both, owner
DELETE FROM census;
-- MERGE | both, owner
MERGE INTO census USING adult ON census.status = adult.status WHEN MATCHED THEN DELETE;
-- TRUNCATE | both, owner
TRUNCATE TABLE census;
-- CREATE VIEW | both, owner
CREATE VIEW grown AS SELECT age, status FROM adult WHERE age >= 18;
-- CREATE MATERIALIZED VIEW | both, owner | CREATE RELEASE TABLE
CREATE MATERIALIZED VIEW m AS SELECT COUNT(*) AS n FROM adult;
-- CREATE INDEX | PostgreSQL, owner | indexes of links are made by themselves
CREATE INDEX i ON adult (age);
-- CREATE FUNCTION | both, owner | a view, or a function that a program registers
CREATE FUNCTION f(x INT) RETURNS INT RETURN x + 1;
-- CREATE SCHEMA | both, owner | a vault has no schemas
CREATE SCHEMA s;
-- ALTER TABLE ADD COLUMN | both, owner | CREATE OR REPLACE EXTERNAL TABLE
ALTER TABLE census ADD COLUMN x INT;
-- CREATE ROLE | PostgreSQL, owner
CREATE ROLE ward LOGIN PASSWORD 'a long one';
-- Least size of a group, for every query | HushQL, owner | BigQuery's aggregation threshold policy, Snowflake's MIN_GROUP_SIZE, the output constraints of AWS Clean Rooms
ALTER TABLE orders SET PRIVACY FLOOR 10;
-- Aggregation threshold policy of a view | GoogleSQL, owner | ALTER TABLE orders SET PRIVACY FLOOR 10
CREATE VIEW safe OPTIONS (privacy_policy = '{"aggregation_threshold_policy": {"threshold": 10, "privacy_unit_column": "user_id"}}') AS SELECT city FROM orders;
-- DROP PRIVACY FLOOR | HushQL, owner
ALTER TABLE orders DROP PRIVACY FLOOR;
-- What queries may do with columns | HushQL, owner | the columns for joins and dimensions, and the aggregate functions, of an analysis rule of AWS Clean Rooms; Snowflake's projection policies; BigQuery's join restrictions
ALTER TABLE orders SET RULES (no_key=(price), join_only=(user_id), aggregates=(count, sum));
-- A key that a rule forbids | HushQL | another key
SELECT price, LAPLACE(eps=1) COUNT(*) AS n FROM orders GROUP BY price;
-- DROP RULES | HushQL, owner
ALTER TABLE orders DROP RULES;
-- A question that the owner fixed | HushQL, owner | an analysis template of AWS Clean Rooms
CREATE TEMPLATE of_city(c VARCHAR IN ('Berlin', 'Lyon')) AS SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM orders WHERE city = $c;
-- A call of it | HushQL
SELECT n FROM of_city('Berlin');
-- Nothing but such questions | HushQL, owner | the analyses that a custom rule of AWS Clean Rooms allows
CREATE ROLE visitor TEMPLATES ONLY;
-- COPY (query) TO | PostgreSQL | owners, and analysts with an export folder
COPY (SELECT COUNT(*) FROM adult) TO 'out.csv';
-- EXPORT DATA | GoogleSQL | COPY (query) TO
EXPORT DATA OPTIONS(uri='gs://b/*.csv', format='CSV') AS SELECT COUNT(*) FROM adult;
-- CALL, DO | both, owner
CALL f();
