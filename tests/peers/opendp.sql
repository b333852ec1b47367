-- OpenDP polars | survey | What OpenDP's documents and tests of data frames ask, as SQL: aggregates, keys, truncation, and the expressions that may stand below them.

-- Rows
SELECT COUNT(*) FROM labour;

-- A sum with bounds
-- = SELECT SUM(CASE WHEN hours IS NOT NULL THEN GREATEST(0, LEAST(40, hours)) END) FROM labour
SELECT SUM(CLAMP(hours, 0, 40)) FROM labour;

-- A mean with bounds
-- = SELECT AVG(CASE WHEN hours IS NOT NULL THEN GREATEST(0, LEAST(40, hours)) END) FROM labour
SELECT AVG(CLAMP(hours, 0, 40)) FROM labour;

-- A sum of decimals with bounds
-- = SELECT SUM(CASE WHEN usual IS NOT NULL THEN GREATEST(1, LEAST(2, usual)) END) FROM labour
SELECT SUM(CLAMP(usual, 1.0, 2.0)) FROM labour;

-- A mean of decimals by group
-- = SELECT letter, AVG(CASE WHEN usual IS NOT NULL THEN GREATEST(1, LEAST(2, usual)) END) FROM labour GROUP BY letter
SELECT letter, AVG(CLAMP(usual, 1.0, 2.0)) FROM labour GROUP BY letter;

-- A median
-- = SELECT quantile_disc(hours, 0.5) FROM labour
SELECT MEDIAN(hours) FROM labour;

-- A quantile
-- = SELECT quantile_disc(hours, 0.25) FROM labour
SELECT QUANTILE(hours, 0.25) FROM labour;

-- A median by group
-- = SELECT letter, quantile_disc(hours, 0.5) FROM labour GROUP BY letter
SELECT letter, MEDIAN(hours) FROM labour GROUP BY letter;

-- A median and rows by group
-- = SELECT letter, COUNT(*), quantile_disc(hours, 0.5) FROM labour GROUP BY letter
SELECT letter, COUNT(*) AS n, QUANTILE(hours, 0.5) AS q FROM labour GROUP BY letter;

-- Several quantiles at once
-- = SELECT quantile_disc(hours, 0.25), quantile_disc(hours, 0.5), quantile_disc(hours, 0.75) FROM labour
SELECT QUANTILE(hours, 0.25), QUANTILE(hours, 0.5), QUANTILE(hours, 0.75) FROM labour;

-- Rows that are not NULL
SELECT COUNT(hours) FROM labour;

-- Rows that are NULL
SELECT COUNT(*) FILTER (WHERE hours IS NULL) FROM labour;

-- Distinct values
SELECT COUNT(DISTINCT status) FROM labour;

-- Distinct persons
SELECT COUNT(DISTINCT person) FROM labour;

-- Rows, values, distinct values and NULLs at once
SELECT COUNT(*), COUNT(status), COUNT(DISTINCT status), COUNT(*) - COUNT(status) FROM labour;

-- Rows of a condition
SELECT COUNT(*) FROM labour WHERE hours < 20;

-- A condition of a computed column
SELECT SUM(hours) FROM labour WHERE (status IS NULL) = TRUE;

-- A condition on a quotient
SELECT COUNT(*) FROM labour WHERE hours / 2.0 > 15.5;

-- A condition with AND, OR and NOT
SELECT COUNT(*) FROM labour WHERE (hours > 10 AND NOT status = 1) OR letter = 'a';

-- A condition with exclusive OR
SELECT COUNT(*) FROM labour WHERE (hours > 30) <> (age > 40);

-- Comparisons of all kinds
SELECT COUNT(*) FILTER (WHERE hours < 20), COUNT(*) FILTER (WHERE hours <= 20), COUNT(*) FILTER (WHERE hours = 20), COUNT(*) FILTER (WHERE hours <> 20), COUNT(*) FILTER (WHERE hours >= 20), COUNT(*) FILTER (WHERE hours > 20) FROM labour;

-- A number between two
SELECT COUNT(*) FROM labour WHERE hours BETWEEN 10 AND 20;

-- A number of a list
SELECT COUNT(*) FROM labour WHERE age IN (20, 30, 40);

-- A sum by group
SELECT letter, COUNT(*), SUM(hours) FROM labour GROUP BY letter;

-- By a declared key
SELECT quarter, COUNT(*) FROM labour GROUP BY quarter;

-- By two declared keys
SELECT year, quarter, COUNT(*), AVG(hours) FROM labour GROUP BY year, quarter;

-- By a key with NULL
SELECT status, COUNT(*) FROM labour GROUP BY status;

-- By an open text, with a threshold
SELECT letter, COUNT(*) FROM labour GROUP BY letter;

-- By two columns, one of them open
SELECT letter, status, COUNT(*) FROM labour GROUP BY letter, status;

-- With keys of a public table
SELECT l.letter, COALESCE(SUM(hours), 0) AS s FROM letters AS l LEFT JOIN labour AS p ON l.letter = p.letter GROUP BY l.letter;

-- With keys of a public table, from the right
SELECT l.letter, COUNT(p.person) AS n FROM labour AS p RIGHT JOIN letters AS l ON l.letter = p.letter GROUP BY l.letter;

-- With keys of a public table of two columns
SELECT q.year, q.quarter, COUNT(p.person) AS n FROM quarters AS q LEFT JOIN labour AS p ON q.year = p.year AND q.quarter = p.quarter GROUP BY q.year, q.quarter;

-- With keys listed in the question
SELECT letter, COUNT(*) FROM labour WHERE letter IN ('a', 'b', 'c', 'd') GROUP BY letter;

-- With keys joined to a released list
SELECT l.letter, n FROM letters AS l LEFT JOIN (SELECT letter, COUNT(*) AS n FROM labour GROUP BY letter) AS t ON l.letter = t.letter;

-- With few rows a person
-- = SELECT SUM(LEAST(2, n)) FROM (SELECT COUNT(*) AS n FROM labour GROUP BY person) AS t
SELECT SUM(CLAMP(n, 0, 2)) FROM (SELECT person, COUNT(*) AS n FROM labour GROUP BY person) AS t;

-- The first rows of each person, in order
SELECT COUNT(*), SUM(hours) FROM (SELECT person, hours, ROW_NUMBER() OVER (PARTITION BY person ORDER BY at_time) AS r FROM labour) AS t WHERE r <= 2;

-- The first row of each person and letter
SELECT letter, COUNT(*) FROM (SELECT person, letter, ROW_NUMBER() OVER (PARTITION BY person, letter ORDER BY at_time) AS r FROM labour) AS t WHERE r = 1 GROUP BY letter;

-- Few letters a person
SELECT letter, COUNT(*) FROM (SELECT person, letter, DENSE_RANK() OVER (PARTITION BY person ORDER BY letter) AS r FROM labour) AS t WHERE r <= 2 GROUP BY letter;

-- A mean of each person, and the mean of these
SELECT AVG(m) FROM (SELECT person, AVG(hours) AS m FROM labour GROUP BY person) AS t;

-- A sum of each person with bounds
-- = SELECT SUM(LEAST(100, s)) FROM (SELECT SUM(hours) AS s FROM labour GROUP BY person) AS t
SELECT SUM(CLAMP(s, 0, 100)) FROM (SELECT person, SUM(hours) AS s FROM labour GROUP BY person) AS t;

-- A cut into bands
-- = SELECT CASE WHEN hours <= 10 THEN 0 WHEN hours <= 20 THEN 1 WHEN hours <= 40 THEN 2 ELSE 3 END AS b, COUNT(*) FROM labour WHERE hours IS NOT NULL GROUP BY b
SELECT CASE WHEN hours <= 10 THEN 0 WHEN hours <= 20 THEN 1 WHEN hours <= 40 THEN 2 ELSE 3 END AS b, COUNT(*) FROM labour WHERE hours IS NOT NULL GROUP BY b;

-- A cut into bands with names
SELECT CASE WHEN age < 30 THEN 'young' WHEN age < 60 THEN 'middle' ELSE 'old' END AS band, COUNT(*) FROM labour GROUP BY band;

-- A cut into bands by WIDTH_BUCKET
-- = SELECT CAST(FLOOR(age / 10) AS INTEGER) + 1 AS b, COUNT(*) FROM labour GROUP BY b
SELECT WIDTH_BUCKET(age, 0, 100, 10) AS b, COUNT(*) FROM labour GROUP BY b;

-- A cut of a sum
SELECT FLOOR(hours / 10.0) AS b, SUM(usual) FROM labour GROUP BY b;

-- NULL filled with a constant
SELECT SUM(COALESCE(hours, 0)) FROM labour;

-- NULL filled, and a mean
SELECT AVG(COALESCE(hours, 20)) FROM labour;

-- A group of NULL filled
SELECT COALESCE(status, 0) AS s, COUNT(*) FROM labour GROUP BY COALESCE(status, 0);

-- NaN that is not a number
SELECT COUNT(*) FILTER (WHERE NOT isnan(usual)) FROM labour;

-- A group of truth values: is NULL
SELECT status IS NULL AS b, COUNT(*) FROM labour GROUP BY status IS NULL;

-- A group of truth values: is not NULL
SELECT status IS NOT NULL AS b, COUNT(*) FROM labour GROUP BY status IS NOT NULL;

-- A group of truth values: a comparison
SELECT age > 40 AS b, COUNT(*) FROM labour GROUP BY age > 40;

-- A replaced value
SELECT REPLACE(letter, 'a', 'b') AS r, COUNT(*) FROM labour GROUP BY r;

-- Two replaced values by a case
SELECT CASE letter WHEN 'a' THEN 'x' WHEN 'b' THEN 'y' ELSE letter END AS r, COUNT(*) FROM labour GROUP BY r;

-- A replacement of all values
SELECT SUM(CASE status WHEN 1 THEN 0 WHEN 2 THEN 1 WHEN 3 THEN 2 END) FROM labour;

-- A cast to a float
SELECT SUM(CAST(hours AS DOUBLE)) FROM labour;

-- A cast to a whole number
SELECT SUM(CAST(usual AS INTEGER)) FROM labour;

-- A cast to text
SELECT CAST(status AS VARCHAR) AS s, COUNT(*) FROM labour GROUP BY s;

-- A sum of products
SELECT SUM(hours * status) FROM labour;

-- A sum of differences
SELECT SUM(hours - usual) FROM labour;

-- A sum of quotients
SELECT SUM(hours / 4.0) FROM labour;

-- A sum of whole quotients
SELECT SUM(FLOOR(hours / 7.0)) FROM labour;

-- A sum of remainders
SELECT SUM(hours % 7) FROM labour;

-- A sum of negatives
SELECT SUM(-hours) FROM labour;

-- A sum of squares
SELECT SUM(hours * hours) FROM labour;

-- A clipped product
-- = SELECT SUM(CASE WHEN hours * status IS NOT NULL THEN GREATEST(0, LEAST(50, hours * status)) END) FROM labour
SELECT SUM(CLAMP(hours * status, 0, 50)) FROM labour;

-- The length of a text
SELECT LENGTH(letter) AS n, COUNT(*) FROM labour GROUP BY LENGTH(letter);

-- Upper case
SELECT UPPER(letter) AS u, COUNT(*) FROM labour GROUP BY UPPER(letter);

-- Two columns at once
SELECT SUM(hours), SUM(age) FROM labour;

-- An expression twice
SELECT SUM(hours) AS a, SUM(hours) AS b FROM labour;

-- A sum under the name of a key
SELECT letter, COUNT(*) AS n, SUM(hours) AS hours FROM labour GROUP BY letter;

-- In order
SELECT letter, COUNT(*) AS n FROM labour GROUP BY letter ORDER BY n DESC;

-- The year of a time
SELECT EXTRACT(YEAR FROM at_time) AS y, COUNT(*) FROM labour GROUP BY y;

-- The year of the week
SELECT EXTRACT(ISOYEAR FROM at_time) AS y, COUNT(*) FROM labour GROUP BY y;

-- The quarter of a time
SELECT EXTRACT(QUARTER FROM at_time) AS q, COUNT(*) FROM labour GROUP BY q;

-- The month of a time
SELECT EXTRACT(MONTH FROM at_time) AS m, COUNT(*) FROM labour GROUP BY m;

-- The week of a time
SELECT EXTRACT(WEEK FROM at_time) AS w, COUNT(*) FROM labour GROUP BY w;

-- The day of the week of a time
SELECT EXTRACT(ISODOW FROM at_time) AS d, COUNT(*) FROM labour GROUP BY d;

-- The day of a time
SELECT EXTRACT(DAY FROM at_time) AS d, COUNT(*) FROM labour GROUP BY d;

-- The day of the year of a time
-- = SELECT COUNT(*) FROM labour WHERE EXTRACT(DOY FROM at_time) < 50
SELECT COUNT(*) FROM labour WHERE EXTRACT(DOY FROM at_time) < 50;

-- The hour of a time
SELECT EXTRACT(HOUR FROM at_time) AS h, COUNT(*) FROM labour GROUP BY h;

-- The minute of a time
SELECT EXTRACT(MINUTE FROM at_time) AS m, COUNT(*) FROM labour GROUP BY m;

-- The second of a time
SELECT EXTRACT(SECOND FROM at_time) < 30 AS s, COUNT(*) FROM labour GROUP BY s;

-- A time cut to its month
SELECT DATE_TRUNC('month', at_time) AS m, COUNT(*) FROM labour GROUP BY m;

-- The date of a time
SELECT COUNT(*) FROM labour WHERE CAST(at_time AS DATE) = DATE '2022-03-01';

-- A time as text of its month
SELECT STRFTIME(at_time, '%Y-%m') AS m, COUNT(*) FROM labour GROUP BY m;

-- A text read as a time
SELECT EXTRACT(YEAR FROM CAST(year || '-05-01' AS DATE)) AS y, COUNT(*) FROM labour GROUP BY y;

-- A sum with Gaussian noise
SELECT GAUSSIAN(eps=20000, delta=1e-6) SUM(hours) FROM labour;

-- Rows with Gaussian noise
SELECT GAUSSIAN(eps=20000, delta=1e-6) COUNT(*) FROM labour;

-- A sum by group with Gaussian noise
SELECT year, GAUSSIAN(eps=20000, delta=1e-6) SUM(hours) AS s FROM labour GROUP BY year;

-- A count with Laplace noise
SELECT LAPLACE(eps=20000) COUNT(*) FROM labour;

-- Keys found by a threshold, with Laplace noise
SELECT letter, LAPLACE(eps=20000, delta=1e-6) COUNT(*) AS n FROM labour GROUP BY letter;

-- A contingency table
SELECT year, quarter, status, COUNT(*) FROM labour GROUP BY year, quarter, status;

-- Marginals of a contingency table
SELECT year, quarter, COUNT(*) FROM labour GROUP BY CUBE (year, quarter);

-- A mean of a public column
SELECT AVG(step) FROM survey JOIN levels ON survey.educ = levels.educ;

-- A join with public rows, by their column
SELECT step, COUNT(*) FROM survey JOIN levels ON survey.educ = levels.educ GROUP BY step;

-- Incomes by level, of whole incomes
SELECT educ, SUM(income), COUNT(*) FROM survey GROUP BY educ;

-- Incomes in bands
SELECT FLOOR(income / 20000.0) AS band, COUNT(*) FROM survey GROUP BY band;

-- A variance
SELECT VAR_SAMP(hours) FROM labour;

-- A deviation
SELECT STDDEV_SAMP(hours) FROM labour;

-- A correlation
SELECT CORR(hours, age) FROM labour WHERE hours IS NOT NULL;

-- A mode
-- = SELECT 'a'
SELECT ARGMAX EXPONENTIAL(eps=20000) letter FROM labour GROUP BY letter;

-- A least and a greatest value
SELECT MIN(age), MAX(age) FROM labour;

-- refused: Rows of a person
SELECT * FROM labour;

-- refused: By person
SELECT person, COUNT(*) FROM labour GROUP BY person;

-- refused: A sum of texts
SELECT SUM(letter) FROM labour;

-- refused: First values
SELECT FIRST_VALUE(hours) FROM labour;

-- refused: Sorted rows
SELECT hours FROM labour ORDER BY hours;

-- refused: All values in a list
SELECT ARRAY_AGG(hours) FROM labour;

-- refused: A sum of shifted rows of all
SELECT SUM(h) FROM (SELECT LAG(hours) OVER (ORDER BY at_time) AS h FROM labour) AS t;

-- refused: A product of all values
SELECT PRODUCT(hours) FROM labour;
