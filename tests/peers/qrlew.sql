-- Qrlew | shop | What the tests of Qrlew rewrite and run, each shape once.

-- A mean
SELECT AVG(minutes) AS a FROM visits;

-- Arithmetic on a count and on what is summed
SELECT 1 + COUNT(points) AS a, SUM(1 + kind) AS b FROM visits;

-- Arithmetic on a sum beside a count
SELECT 1 + SUM(kind), COUNT(points) FROM visits;

-- The same with a condition
SELECT 1 + SUM(kind), COUNT(points) FROM visits WHERE kind > 4;

-- A condition on what is counted
SELECT SUM(kind), COUNT(points) FROM visits WHERE points > 4;

-- Arithmetic by group, without its key
SELECT 1 + SUM(kind) AS a, COUNT(points) AS b FROM visits GROUP BY kind;

-- By a rounded number, without its key
SELECT COUNT(points) FROM visits GROUP BY CEIL(minutes / 20);

-- By a rounded number
SELECT CEIL(minutes / 20) AS c, COUNT(points) FROM visits GROUP BY CEIL(minutes / 20);

-- By a rounded number, under its name
SELECT CEIL(minutes / 20) AS c, COUNT(points) FROM visits GROUP BY c;

-- Two counts
SELECT COUNT(kind), COUNT(visits.points) FROM visits;

-- A condition and a group
SELECT 1 + SUM(kind) AS a, COUNT(points) AS b FROM visits WHERE kind > 3 GROUP BY kind;

-- Arithmetic by group
SELECT 1 + SUM(points) AS a, COUNT(points) AS b, kind FROM visits GROUP BY kind;

-- A join with a public table by a value
SELECT SUM(points) FROM visits JOIN kinds ON visits.kind = kinds.kind;

-- Two CTEs, joined
WITH a AS (SELECT kind, points FROM visits), b AS (SELECT * FROM kinds) SELECT SUM(points) FROM a JOIN b ON a.kind = b.kind;

-- Two CTEs with a condition, and a cross join
WITH a AS (SELECT kind, points FROM visits WHERE points > 4), b AS (SELECT * FROM kinds) SELECT MAX(points), SUM(points) FROM a INNER JOIN b ON a.kind = b.kind CROSS JOIN words;

-- By group, in order
SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind ORDER BY kind;

-- By group, in falling order
SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind ORDER BY kind DESC;

-- By group, in order of the counts
SELECT word, COUNT(*) AS n FROM visits GROUP BY word ORDER BY n;

-- Distinct counts
SELECT DISTINCT COUNT(*) FROM visits GROUP BY word;

-- A distinct count by group
SELECT word, COUNT(DISTINCT kind) AS n FROM visits GROUP BY word ORDER BY word;

-- A group that is summed too
SELECT kind, SUM(kind) FROM visits GROUP BY kind;

-- A group that is summed and taken twice
SELECT kind, MAX(kind), SUM(points) FROM visits GROUP BY kind;

-- A part of a text, whole texts as groups
SELECT SUBSTRING(word FROM 1 FOR 2) AS m, COUNT(*) AS n FROM visits GROUP BY word;

-- A mean beside a count
SELECT AVG(paid) AS n, COUNT(paid) AS d FROM visits;

-- A text that is not NULL
SELECT word AS w, SUM(kind) AS s FROM visits WHERE word IS NOT NULL GROUP BY word;

-- ILIKE
SELECT COUNT(*) AS n FROM visits WHERE word ILIKE '%A%';

-- LIKE
SELECT COUNT(*) AS n FROM visits WHERE word LIKE '%a%';

-- A case of NULL beside its group
SELECT word, CASE WHEN word IS NULL THEN 'none' ELSE 'some' END AS c, COUNT(*) AS n FROM visits GROUP BY word;

-- A case of NULL as a number
SELECT word, CASE WHEN word IS NULL THEN 0 ELSE 1 END AS c, COUNT(*) AS n FROM visits GROUP BY word;

-- A case of casts to text
SELECT word, CASE WHEN word IS NULL THEN CAST('A' AS VARCHAR(10)) ELSE CAST('B' AS VARCHAR(10)) END AS c, COUNT(*) AS n FROM visits GROUP BY word;

-- A group by MD5 of a text
SELECT MD5(word) AS m, COUNT(*) AS n FROM visits GROUP BY MD5(word);

-- A group by its length
SELECT CHAR_LENGTH(word) AS n, COUNT(*) AS m FROM visits GROUP BY CHAR_LENGTH(word);

-- A group by a position in a text
SELECT POSITION('a' IN word) AS p, COUNT(*) AS n FROM visits GROUP BY POSITION('a' IN word);

-- A group by an upper-case text
SELECT UPPER(word) AS u, COUNT(*) AS n FROM visits GROUP BY UPPER(word);

-- A group by a concatenation
SELECT CONCAT(kind, word) AS c, COUNT(*) AS n FROM visits GROUP BY CONCAT(kind, word);

-- A sum of a cast to whole numbers
SELECT SUM(CAST(minutes AS INTEGER)) AS s FROM visits;

-- A mean of seconds of times
SELECT AVG(EXTRACT(EPOCH FROM seen)) AS s FROM visits;

-- A cast to text as a group
SELECT CAST(kind AS TEXT) AS k, COUNT(*) AS n FROM visits GROUP BY CAST(kind AS TEXT);

-- A left join with a condition on its right
SELECT COUNT(*) FROM orders AS o LEFT JOIN items AS i ON o.id = i.order_id WHERE i.price > 10;

-- USING two CTEs of the person
WITH a AS (SELECT person_id, kind FROM visits WHERE kind > 2), b AS (SELECT person_id, points FROM visits WHERE kind < 4) SELECT COUNT(*) FROM a INNER JOIN b USING (person_id);

-- The same from the left
WITH a AS (SELECT person_id, kind FROM visits WHERE kind > 2), b AS (SELECT person_id, points FROM visits WHERE kind < 4) SELECT COUNT(*) FROM a LEFT JOIN b USING (person_id);

-- The same from the right
WITH a AS (SELECT person_id, kind FROM visits WHERE kind > 2), b AS (SELECT person_id, points FROM visits WHERE kind < 4) SELECT COUNT(*) FROM a RIGHT JOIN b USING (person_id);

-- The same, full
WITH a AS (SELECT person_id, kind FROM visits WHERE kind > 2), b AS (SELECT person_id, points FROM visits WHERE kind < 4) SELECT COUNT(*) FROM a FULL JOIN b USING (person_id);

-- The same, NATURAL
WITH a AS (SELECT person_id, kind FROM visits WHERE kind > 2), b AS (SELECT person_id, points FROM visits WHERE kind < 4) SELECT COUNT(*) FROM a NATURAL JOIN b;

-- Group keys of a CTE of counts
WITH r AS (SELECT good_id, COUNT(*) AS n FROM items GROUP BY good_id) SELECT good_id FROM r ORDER BY n;

-- Bounds of a group, from its WHERE
SELECT good_id, SUM(price) AS s FROM items WHERE good_id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10) GROUP BY good_id;

-- Keys of an open column, from its WHERE
SELECT word, COUNT(*) AS n FROM visits WHERE word IN ('apple', 'bread') GROUP BY word;

-- Keys of an open number, from its WHERE
SELECT order_id % 7 AS d, COUNT(ABS(10 * quantity + good_id)) AS x FROM items WHERE price > 0.1 AND order_id % 7 IN (1, 2, 3) GROUP BY order_id % 7;

-- Keys of a date, from its WHERE
SELECT placed, COUNT(*) AS n FROM orders WHERE placed IN (DATE '2024-02-01', DATE '2024-02-02', DATE '2024-02-03') GROUP BY placed;

-- Keys of one value, from its WHERE
SELECT word, SUM(points) AS s FROM visits WHERE word = 'apple' GROUP BY word;

-- By region, of orders joined with their people
SELECT region, COUNT(*) AS n FROM orders AS o JOIN people AS p ON (o.person_id = p.id) GROUP BY region ORDER BY region;

-- A distinct count of people
SELECT COUNT(DISTINCT person_id) AS people FROM orders;

-- A count of a join with a public table
SELECT COUNT(*) FROM items AS i INNER JOIN goods AS g ON i.good_id = g.id;

-- A mean by a column of the public table
SELECT category, AVG(price) AS mean FROM items INNER JOIN goods ON items.good_id = goods.id GROUP BY category;

-- The public table's key and column, with a condition
SELECT i.good_id, g.category, COUNT(*) AS n FROM items AS i INNER JOIN goods AS g ON i.good_id = g.id WHERE i.price BETWEEN 10 AND 90 GROUP BY i.good_id, g.category;

-- The public table's key under its other name
SELECT g.id, g.title, COUNT(*) FROM goods AS g INNER JOIN items AS i ON g.id = i.good_id GROUP BY g.id, g.title;

-- Pairs of values of people, as groups
SELECT sex, score FROM people GROUP BY sex, score;

-- Pairs of values of people, DISTINCT
SELECT DISTINCT sex, score FROM people;

-- An open quantity and a mean, with conditions
SELECT quantity, AVG(price) AS m FROM people AS p JOIN orders AS o ON p.id = o.person_id JOIN items AS i ON o.id = i.order_id WHERE quantity > 0 AND price > 0 AND price < 90 GROUP BY quantity;

-- A CTE of sums and means by group, with conditions
WITH s AS (SELECT channel, SUM(amount) AS total, AVG(amount) AS mean FROM orders WHERE amount > 0 AND amount < 100 GROUP BY channel) SELECT * FROM s WHERE total > 1;

-- Differences to the means of the group, in a CTE
WITH m AS (SELECT kind, AVG(minutes) AS a FROM visits GROUP BY kind) SELECT v.kind, AVG(v.minutes - m.a) AS d FROM visits AS v JOIN m ON v.kind = m.kind GROUP BY v.kind;

-- Standard scores by a mean and a deviation in a CTE
WITH m AS (SELECT AVG(minutes) AS a, STDDEV(minutes) AS s FROM visits WHERE minutes > 1) SELECT AVG((minutes - a) / s) AS z FROM visits CROSS JOIN m WHERE minutes > 1;

-- Differences to a least value in a CTE
WITH m AS (SELECT MIN(minutes) AS a FROM visits WHERE minutes > 1) SELECT AVG(minutes - a) AS d FROM visits CROSS JOIN m;

-- A sum of a cast, divided, between limits
SELECT SUM(CAST(income AS FLOAT) / 100000.0) AS s FROM people WHERE income > 2231 AND income < 43560;

-- A sum between limits
SELECT SUM(income) AS s FROM people WHERE income > 2231 AND income < 43560;

-- A sum of a quotient between limits
SELECT SUM(income / 100.0) AS s FROM people WHERE income > 2231 AND income < 43560;

-- A sum of a case between limits
SELECT SUM(CASE WHEN age > 70 THEN 1 ELSE 0 END) AS s FROM people WHERE age > 20 AND age < 90;

-- An EXISTS of a public table's column
SELECT category, COUNT(*) AS n FROM goods GROUP BY category;

-- A sum of a group, HAVING its rows
SELECT channel, SUM(amount) AS s FROM orders GROUP BY channel HAVING COUNT(*) > 2;

-- A square root, a power and a logarithm of columns
SELECT SUM(SQRT(minutes)), SUM(POWER(kind, 2)), SUM(LN(1 + minutes)) FROM visits;

-- Absolute values and signs
SELECT SUM(ABS(kind - 3)), SUM(SIGN(kind - 3)) FROM visits;

-- Sums of single orders: nobody shares them
-- = SELECT NULL WHERE FALSE
SELECT order_id, SUM(price) FROM items GROUP BY order_id;

-- Sums of single orders, normalized in two CTEs
-- = SELECT NULL WHERE FALSE
WITH a AS (SELECT order_id, AVG(price) AS m FROM items GROUP BY order_id) SELECT a.order_id, SUM(i.price - a.m) FROM items AS i JOIN a ON i.order_id = a.order_id GROUP BY a.order_id;

-- refused: A sum of distinct values
SELECT SUM(DISTINCT points) AS s FROM visits;

-- refused: A self-join by a value
SELECT * FROM visits AS a INNER JOIN visits AS b ON a.kind = b.kind;

-- refused: Rows of a join
SELECT * FROM items AS i INNER JOIN goods AS g ON i.good_id = g.id;

-- refused: Rows of a join of one person's tables
SELECT * FROM orders AS o INNER JOIN people AS p ON o.person_id = p.id;

-- refused: Numbers of people
SELECT id, COUNT(*) FROM people GROUP BY id;

-- refused: Numbers of people of a join
SELECT p.id FROM people AS p JOIN orders AS o ON p.id = o.person_id;

-- refused: Counts by person, in a CTE
WITH t AS (SELECT COUNT(*) AS n FROM orders AS o INNER JOIN people AS p ON o.person_id = p.id GROUP BY p.id) SELECT * FROM t;

-- refused: Rows of people, in a CTE
WITH t AS (SELECT * FROM people) SELECT * FROM t;

-- refused: A case of each row
SELECT CASE kind WHEN 5 THEN 0 ELSE kind END FROM visits;

-- refused: Two columns, UNION
SELECT 1 * kind FROM visits UNION SELECT 1 * quantity FROM items;

-- refused: Texts of rows
SELECT UPPER(word) FROM visits LIMIT 5;

-- A random number and a sum, by order: nobody shares them
-- = SELECT NULL WHERE FALSE
SELECT RANDOM(), SUM(price) FROM items GROUP BY order_id;

-- refused: A window of rows
SELECT * FROM visits ORDER BY seen OFFSET 5;
