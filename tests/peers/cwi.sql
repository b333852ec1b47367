-- CWI privacy | shop | What the tests of CWI's extension of DuckDB ask, each shape once. Its own functions of noise and of samples are left out, as are its settings.

-- How many people
SELECT COUNT(*) FROM people;

-- How many, through a column
SELECT COUNT(id) FROM people;

-- A sum
SELECT SUM(income) FROM people;

-- A mean
SELECT AVG(income) FROM people;

-- A count, a sum and a mean
SELECT COUNT(*), SUM(income), AVG(income) FROM people;

-- A sum of a negative range
SELECT SUM(CASE WHEN id % 2 = 0 THEN 1000 ELSE -1000 END) FROM people;

-- A least and a greatest value
SELECT MIN(age), MAX(age) FROM people;

-- A count of a condition
SELECT COUNT(*) FROM people WHERE income > 50000;

-- A sum of a condition
SELECT SUM(income) FROM people WHERE age > 50;

-- A mean of a condition
SELECT AVG(income) FROM people WHERE age > 50;

-- A condition that nobody meets
SELECT COUNT(*) FROM people WHERE income = 99999;

-- refused: A condition that the declared range rules out
SELECT COUNT(*) FROM people WHERE age > 1000;

-- Equal incomes, grouped
SELECT region, SUM(CASE WHEN sex = 'f' THEN 100 ELSE 0 END) AS s FROM people GROUP BY region;

-- People joined with their orders: rows
SELECT COUNT(*) FROM people JOIN orders ON people.id = orders.person_id;

-- People joined with their orders: a sum
SELECT SUM(amount) FROM people JOIN orders ON people.id = orders.person_id;

-- People joined with their orders: a mean
SELECT AVG(amount) FROM people JOIN orders ON people.id = orders.person_id;

-- People joined with their orders: a condition
SELECT COUNT(*) FROM people JOIN orders ON people.id = orders.person_id WHERE amount > 30;

-- Orders alone: rows
SELECT COUNT(*) FROM orders;

-- Orders alone: a sum
SELECT SUM(amount) FROM orders;

-- Orders alone: a mean
SELECT AVG(amount) FROM orders;

-- Orders alone: a condition
SELECT COUNT(*) FROM orders WHERE amount > 150;

-- People, their orders and their visits
SELECT COUNT(*) FROM people JOIN orders ON people.id = orders.person_id JOIN visits ON people.id = visits.person_id;

-- A chain of three tables: rows
SELECT COUNT(*) FROM people JOIN orders ON people.id = orders.person_id JOIN items ON orders.id = items.order_id;

-- A chain of three tables: a sum
SELECT SUM(price) FROM people JOIN orders ON people.id = orders.person_id JOIN items ON orders.id = items.order_id;

-- A chain of three tables: a mean
SELECT AVG(price) FROM people JOIN orders ON people.id = orders.person_id JOIN items ON orders.id = items.order_id;

-- The end of a chain alone: rows
SELECT COUNT(*) FROM items;

-- The end of a chain alone: a sum
SELECT SUM(price) FROM items;

-- The end of a chain alone: a mean
SELECT AVG(price) FROM items;

-- A public table alone
SELECT COUNT(*) FROM goods;

-- By a cast amount
SELECT CAST(amount / 50 AS INTEGER) AS g, COUNT(*) FROM orders GROUP BY g ORDER BY g;

-- By a cast amount, above a limit
SELECT CAST(amount / 50 AS INTEGER) AS g, COUNT(*) FROM orders WHERE amount > 20 GROUP BY g ORDER BY g;

-- By a cast amount, HAVING a mean
SELECT CAST(amount / 50 AS INTEGER) AS g, AVG(amount) FROM orders GROUP BY g HAVING AVG(amount) > 100 ORDER BY g;

-- By a cast amount, HAVING a mean and a count
SELECT CAST(amount / 50 AS INTEGER) AS g, AVG(amount), COUNT(*) FROM orders GROUP BY g HAVING AVG(amount) > 80 AND COUNT(*) > 70 ORDER BY g;

-- By a cast amount, two numbers
SELECT CAST(amount / 50 AS INTEGER), SUM(amount), AVG(amount) FROM orders GROUP BY CAST(amount / 50 AS INTEGER);

-- A mean with FILTER
SELECT AVG(amount) FILTER (WHERE amount > 20) FROM orders;

-- A mean beside a mean with FILTER
SELECT AVG(amount), AVG(amount) FILTER (WHERE amount > 20) FROM orders;

-- A count with FILTER
SELECT COUNT(*) FILTER (WHERE kind = 1) FROM visits;

-- A count and a sum with FILTER, of a join, by group
SELECT channel, COUNT(*) FILTER (WHERE quantity = 1) AS ones, SUM(price) AS s FROM orders JOIN items ON orders.id = items.order_id GROUP BY channel ORDER BY channel;

-- COUNT(DISTINCT) of the unit
SELECT COUNT(DISTINCT person_id) FROM visits;

-- COUNT(DISTINCT) of a value
SELECT COUNT(DISTINCT kind) FROM visits;

-- COUNT(DISTINCT) of a value by group
SELECT word, COUNT(DISTINCT kind) FROM visits GROUP BY word;

-- COUNT(DISTINCT) of a value of NULL
SELECT COUNT(DISTINCT CASE WHEN kind > 9 THEN kind END) FROM visits;

-- Sums of a column and of the column plus constants
SELECT SUM(points), SUM(points + 1), SUM(1 + points), SUM(points + 2) FROM visits;

-- Sums of a column, and of the column times a constant
SELECT SUM(minutes), SUM(minutes * 1000.0) FROM visits;

-- A sum of a cast, and of the cast plus a constant
SELECT SUM(CAST(paid AS INTEGER)), SUM(CAST(paid AS INTEGER) + 1) FROM visits;

-- Two sums of which one is shown, in a subquery
SELECT channel, c FROM (SELECT channel, COUNT(*) AS c FROM orders GROUP BY channel) AS q WHERE c > 0;

-- One group of a released list
SELECT c FROM (SELECT channel, COUNT(*) AS c FROM orders GROUP BY channel) AS q WHERE channel = 'web';

-- Distinct goods by three columns of the public table
SELECT g.category, g.list_price, COUNT(DISTINCT i.order_id) AS n FROM items AS i JOIN goods AS g ON i.good_id = g.id WHERE g.category <> 'toys' AND g.list_price IN (5, 8, 11) GROUP BY g.category, g.list_price;

-- Distinct values and rows by a column of the public table
SELECT g.category, COUNT(DISTINCT i.order_id) AS a, COUNT(*) AS b FROM items AS i JOIN goods AS g ON i.good_id = g.id GROUP BY g.category;

-- NOT IN of a public table
SELECT COUNT(*) FROM items, goods WHERE goods.id = items.good_id AND items.good_id NOT IN (SELECT id FROM goods WHERE title LIKE '%7%');

-- How many people have how many orders
SELECT n, COUNT(*) AS people FROM (SELECT p.id, COUNT(o.id) AS n FROM people AS p LEFT OUTER JOIN orders AS o ON p.id = o.person_id AND o.note NOT LIKE '%7%' GROUP BY p.id) AS t GROUP BY n ORDER BY people DESC, n DESC;

-- How many people have how many orders, in a CTE
WITH t AS (SELECT p.id, COUNT(o.id) AS n FROM people AS p LEFT OUTER JOIN orders AS o ON p.id = o.person_id AND o.note NOT LIKE '%3%' GROUP BY p.id) SELECT n, COUNT(*) AS people FROM t GROUP BY n;

-- How many people have how many orders, of those who have some
SELECT n, COUNT(*) AS people FROM (SELECT person_id, COUNT(id) AS n FROM orders WHERE note NOT LIKE '%3%' GROUP BY person_id) AS t GROUP BY n;

-- EXISTS and NOT EXISTS of items of the same order
SELECT i.good_id, COUNT(*) AS n FROM items AS i, orders AS o WHERE o.id = i.order_id AND o.channel = 'web' AND i.price > 40 AND EXISTS (SELECT * FROM items AS j WHERE j.order_id = i.order_id AND j.good_id <> i.good_id) AND NOT EXISTS (SELECT * FROM items AS k WHERE k.order_id = i.order_id AND k.good_id <> i.good_id AND k.price > 40) GROUP BY i.good_id;

-- A self-join of items by their order
SELECT COUNT(*) FROM items AS a JOIN items AS b ON a.order_id = b.order_id;

-- EXISTS of items of the order, by group
SELECT channel, COUNT(*) AS n FROM orders WHERE placed >= DATE '2024-04-01' AND placed < DATE '2024-07-01' AND EXISTS (SELECT * FROM items WHERE items.order_id = orders.id AND quantity > 5) GROUP BY channel ORDER BY channel;

-- A CTE of people
WITH c AS (SELECT id, name, region FROM people) SELECT COUNT(*) FROM c;

-- A CTE of a join
WITH c AS (SELECT p.id, o.placed FROM people AS p JOIN orders AS o ON p.id = o.person_id) SELECT COUNT(*) FROM c;

-- A CTE of amounts
WITH c AS (SELECT o.person_id, i.price, i.quantity FROM items AS i JOIN orders AS o ON i.order_id = o.id) SELECT SUM(price * (1 - quantity / 10.0)) FROM c;

-- A public count beside a private one
WITH g AS (SELECT id FROM goods), c AS (SELECT person_id FROM orders) SELECT (SELECT COUNT(*) FROM g) AS goods, (SELECT COUNT(*) FROM c) AS orders;

-- People above a released mean
-- = WITH c AS (SELECT p.id, COUNT(o.id) AS n FROM people AS p LEFT JOIN orders AS o ON p.id = o.person_id GROUP BY p.id) SELECT COUNT(*) FROM c WHERE n > (SELECT AVG(n) FROM c)
WITH c AS (SELECT p.id, COUNT(o.id) AS n FROM people AS p LEFT JOIN orders AS o ON p.id = o.person_id GROUP BY p.id) SELECT COUNT(*) FROM c WHERE n > (SELECT LAPLACE(eps=20000) AVG(n) FROM c);

-- A CTE of a CTE with a public table
WITH b AS (SELECT id, region FROM people), n AS (SELECT b.id, r.code FROM b JOIN regions AS r ON b.region = r.region) SELECT COUNT(*) FROM n;

-- Revenue of each good, and the best good
WITH r AS (SELECT good_id, SUM(price * quantity) AS total FROM items GROUP BY good_id) SELECT good_id, total FROM r WHERE total = (SELECT MAX(total) FROM r);

-- Goods of which more was sold than of the mean good
WITH r AS (SELECT good_id, SUM(price * quantity) AS total FROM items JOIN orders ON items.order_id = orders.id GROUP BY good_id) SELECT g.id, g.title FROM goods AS g WHERE g.id IN (SELECT good_id FROM r WHERE total > (SELECT AVG(total) FROM r));

-- Revenue of two places by year, in a subquery
SELECT a, b, y, SUM(v) AS revenue FROM (SELECT p.region AS a, g.category AS b, EXTRACT(YEAR FROM o.placed) AS y, i.price * i.quantity AS v FROM people AS p, orders AS o, items AS i, goods AS g WHERE p.id = o.person_id AND o.id = i.order_id AND i.good_id = g.id AND ((p.region = 'east' AND g.category = 'food') OR (p.region = 'west' AND g.category = 'toys'))) AS t GROUP BY a, b, y ORDER BY a, b, y;

-- A share of revenue by month
SELECT m, SUM(CASE WHEN region = 'east' THEN v ELSE 0 END) / SUM(v) AS share FROM (SELECT EXTRACT(MONTH FROM o.placed) AS m, i.price * i.quantity AS v, p.region FROM people AS p, orders AS o, items AS i WHERE p.id = o.person_id AND o.id = i.order_id) AS t GROUP BY m ORDER BY m;

-- A profit by place and month
SELECT region, m, SUM(x) AS profit FROM (SELECT p.region, EXTRACT(MONTH FROM o.placed) AS m, i.price * i.quantity - g.list_price * i.quantity AS x FROM people AS p, orders AS o, items AS i, goods AS g WHERE p.id = o.person_id AND o.id = i.order_id AND i.good_id = g.id) AS t GROUP BY region, m ORDER BY region, m DESC;

-- Means of correlated counts and sums of each person
SELECT COUNT(*) AS n, AVG((SELECT COUNT(*) FROM orders AS o WHERE o.person_id = p.id AND o.amount > 100)) AS many, AVG((SELECT SUM(amount) FROM orders AS o WHERE o.person_id = p.id)) AS much FROM people AS p;

-- A sum of items of large orders
SELECT SUM(price) AS total FROM items WHERE order_id IN (SELECT order_id FROM items GROUP BY order_id HAVING SUM(quantity) > 15);

-- A sum of each order's items, counted for one person's worth
SELECT COUNT(*) FROM (SELECT o.id, o.amount, (SELECT SUM(price) FROM items AS i WHERE i.order_id = o.id) AS total FROM orders AS o WHERE o.amount > 100) AS t;

-- refused: Items below the mean quantity of their good
SELECT SUM(price) / 7.0 AS yearly FROM items AS i, goods AS g WHERE g.id = i.good_id AND g.category = 'food' AND i.quantity < (SELECT 0.9 * AVG(quantity) FROM items AS j WHERE j.good_id = g.id);

-- refused: Items below the mean of all items of their good
SELECT SUM(price) AS total FROM items AS i WHERE quantity < (SELECT 0.9 * AVG(quantity) FROM items AS j WHERE j.good_id = i.good_id);

-- Goods, by their released sales
SELECT COUNT(*) FROM goods AS g WHERE (SELECT LAPLACE(eps=20000) SUM(price) FROM items AS i WHERE i.good_id = g.id) > 10000;

-- Goods whose released sales equal a column
SELECT COUNT(*) FROM goods AS g WHERE g.list_price <> (SELECT LAPLACE(eps=20000) SUM(quantity) FROM items AS i WHERE i.good_id = g.id);

-- Goods, by a share of their released quantities
SELECT g.id, g.title FROM goods AS g WHERE g.list_price > (SELECT 0.02 * LAPLACE(eps=20000) SUM(quantity) FROM items AS i WHERE i.good_id = g.id);

-- Goods that sell more than a share of the mean, by released counts
SELECT COUNT(*) FROM goods AS g WHERE (SELECT LAPLACE(eps=20000) COUNT(*) FROM items AS i WHERE i.good_id = g.id) > (SELECT 0.5 * LAPLACE(eps=20000) COUNT(*) / 25 FROM items);

-- Goods, by the mean price of their items, released
SELECT COUNT(*) FROM goods AS g WHERE (SELECT LAPLACE(eps=20000) AVG(price) FROM items AS i WHERE i.good_id = g.id) > 49;

-- Goods of which a category sells, by a released list
SELECT title FROM goods WHERE category IN (SELECT g.category FROM items AS i JOIN goods AS g ON i.good_id = g.id GROUP BY g.category HAVING SUM(i.quantity) > 100);

-- Goods sold IN a public list
SELECT SUM(i.quantity) FROM items AS i WHERE i.good_id IN (SELECT id FROM goods WHERE category = 'food');

-- The ten best days, as a list
SELECT word FROM visits GROUP BY word ORDER BY COUNT(*) DESC LIMIT 2;

-- The best region by sums
SELECT region, SUM(income) AS s FROM people GROUP BY region ORDER BY s DESC LIMIT 1;

-- The best regions of a subquery
SELECT COUNT(*) FROM (SELECT p.region, SUM(o.amount) AS s FROM people AS p, orders AS o WHERE p.id = o.person_id GROUP BY p.region ORDER BY s DESC LIMIT 3) AS t;

-- A top of a join with names of the public table
SELECT r.code, t.n FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY n DESC, region LIMIT 3) AS t JOIN regions AS r ON t.region = r.region;

-- A released table joined with the public one
SELECT g.title, t.s FROM (SELECT good_id, SUM(quantity) AS s FROM items GROUP BY good_id) AS t JOIN goods AS g ON t.good_id = g.id WHERE t.s > 800;

-- A sum by group from a CTE
WITH d AS (SELECT region, income FROM people) SELECT region, SUM(income) AS total FROM d GROUP BY region ORDER BY region;

-- A group of a released table as a case
SELECT region, CASE WHEN s > 6000000 THEN 'high' ELSE 'low' END AS tier FROM (SELECT region, SUM(income) AS s FROM people GROUP BY region) AS t ORDER BY region;

-- Sums of released sums
SELECT SUM(s) AS grand FROM (SELECT region, SUM(income) AS s FROM people GROUP BY region) AS t;

-- A mean of released sums
SELECT AVG(s) AS mean FROM (SELECT region, SUM(income) AS s FROM people GROUP BY region) AS t;

-- Released sums between two limits
SELECT COUNT(*) FROM (SELECT region, SUM(income) AS s FROM people GROUP BY region) AS t WHERE s BETWEEN 1 AND 100000000;

-- Two released tables, joined
SELECT a.region, n, s FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY region) AS a JOIN (SELECT region, SUM(income) AS s FROM people GROUP BY region) AS b ON a.region = b.region;

-- Two released tables, one behind the other
SELECT n FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY region) AS a UNION ALL SELECT n FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) AS b;

-- DISTINCT of groups and their sums
SELECT DISTINCT region, SUM(income) FROM people GROUP BY region ORDER BY region;

-- DISTINCT of one sum
SELECT DISTINCT SUM(income) FROM people;

-- A sum of distinct groups' sums
SELECT SUM(total) FROM (SELECT DISTINCT region, SUM(income) AS total FROM people GROUP BY region) AS t;

-- A sum of a case
SELECT SUM(CASE WHEN age > 40 THEN income ELSE 0 END) FROM people;

-- A sum of twice a column
SELECT SUM(income * 2) FROM people;

-- Sums of two columns of a self-join by the unit
SELECT SUM(a.points + b.points) FROM visits AS a JOIN visits AS b ON a.person_id = b.person_id;

-- A sum above the released mean
-- = SELECT SUM(income) FROM people WHERE income > (SELECT AVG(income) FROM people)
SELECT SUM(income) FROM people WHERE income > (SELECT LAPLACE(eps=20000) AVG(income) FROM people);

-- A sum above the mean, written plainly
SELECT SUM(income) FROM people WHERE income > (SELECT AVG(income) FROM people);

-- A sum of windows of each person
SELECT SUM(s) FROM (SELECT person_id, SUM(points) OVER (PARTITION BY person_id) AS s FROM visits) AS t;

-- By a column of the joined public table
SELECT g.category, SUM(i.price) FROM items AS i JOIN goods AS g ON i.good_id = g.id GROUP BY g.category ORDER BY g.category;

-- By the joined public table's key under its own name
SELECT g.id, SUM(i.price) FROM items AS i INNER JOIN goods AS g ON i.good_id = g.id GROUP BY g.id ORDER BY g.id;

-- By way: count
SELECT way, COUNT(*) FROM shipments GROUP BY way ORDER BY way;

-- By way: least and greatest
SELECT way, MIN(weight), MAX(weight) FROM shipments GROUP BY way ORDER BY way LIMIT 1;

-- By way: a sum
SELECT way, SUM(weight) FROM shipments GROUP BY way ORDER BY way LIMIT 1;

-- By channel: five numbers
SELECT channel, COUNT(*), SUM(amount), MIN(amount), MAX(amount) FROM orders GROUP BY channel ORDER BY channel LIMIT 1;

-- By channel, of a join along the links
SELECT o.channel, SUM(i.quantity) FROM orders AS o INNER JOIN items AS i ON i.order_id = o.id GROUP BY o.channel ORDER BY o.channel;

-- IN of a subquery along a link
SELECT way, SUM(weight) FROM shipments WHERE item_id IN (SELECT id FROM items WHERE price > 10) GROUP BY way ORDER BY way LIMIT 1;

-- IN of a subquery along two links
SELECT way, COUNT(*) FROM shipments WHERE item_id IN (SELECT id FROM items WHERE order_id IN (SELECT id FROM orders WHERE amount < 150)) GROUP BY way ORDER BY way LIMIT 1;

-- Four numbers of a left join along the links
SELECT o.channel, COUNT(DISTINCT o.id) AS orders, SUM(i.quantity) AS q, AVG(s.weight) AS w FROM items AS i INNER JOIN orders AS o ON i.order_id = o.id LEFT JOIN shipments AS s ON s.item_id = i.id WHERE o.amount > 5 GROUP BY o.channel ORDER BY o.channel;

-- A sum of correlated counts
SELECT o.channel, COUNT(*) AS n, SUM((SELECT COUNT(*) FROM items AS i WHERE i.order_id = o.id)) AS m FROM orders AS o WHERE o.person_id IN (SELECT id FROM people WHERE id > 1) GROUP BY o.channel ORDER BY o.channel;

-- A grouping by the order, and a sum of its counts
SELECT channel, SUM(n) AS total FROM (SELECT o.channel, COUNT(*) AS n FROM orders AS o INNER JOIN items AS i ON i.order_id = o.id WHERE i.quantity > 2 GROUP BY o.channel, o.id) AS t GROUP BY channel ORDER BY channel;

-- HAVING a sum
SELECT channel, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY channel HAVING SUM(amount) > 1 ORDER BY channel LIMIT 1;

-- Two tables of the person, joined
SELECT o.channel, COUNT(*), MIN(v.kind) FROM orders AS o INNER JOIN visits AS v ON o.person_id = v.person_id INNER JOIN people AS p ON o.person_id = p.id GROUP BY o.channel ORDER BY o.channel LIMIT 1;

-- Two tables of the person, joined from the left
SELECT o.channel, COUNT(*), MAX(v.kind) FROM orders AS o LEFT JOIN visits AS v ON o.person_id = v.person_id GROUP BY o.channel ORDER BY o.channel LIMIT 1;

-- Two sums behind each other
SELECT SUM(i.quantity) AS s FROM items AS i INNER JOIN orders AS o ON i.order_id = o.id UNION ALL SELECT SUM(o.amount) FROM orders AS o INNER JOIN people AS p ON o.person_id = p.id;

-- Two counts, UNION
SELECT COUNT(*) AS n FROM items AS i INNER JOIN orders AS o ON i.order_id = o.id UNION SELECT COUNT(*) FROM orders AS o INNER JOIN people AS p ON o.person_id = p.id;

-- Distinct values and people by group
SELECT channel, COUNT(DISTINCT placed), COUNT(DISTINCT person_id) FROM orders GROUP BY channel ORDER BY channel;

-- A least quantity of a left join and an inner join
SELECT o.channel, MIN(i.quantity) FROM items AS i LEFT JOIN orders AS o ON i.order_id = o.id INNER JOIN people AS p ON o.person_id = p.id GROUP BY o.channel ORDER BY o.channel LIMIT 1;

-- A median
-- = SELECT quantile_disc(income, 0.5) BETWEEN 44000 AND 44700 FROM people
SELECT MEDIAN(income) BETWEEN 44000 AND 44700 FROM people;

-- refused: A group of an identifier of each person
SELECT p.id, COUNT(*), SUM(s.weight) FROM people AS p INNER JOIN orders AS o ON o.person_id = p.id INNER JOIN items AS i ON i.order_id = o.id INNER JOIN shipments AS s ON s.item_id = i.id GROUP BY p.id ORDER BY p.id LIMIT 1;

-- refused: A value of each order
SELECT o.channel, o.id, SUM(o.amount) AS total, (SELECT SUM(i.quantity) FROM items AS i WHERE i.order_id = o.id) AS n FROM orders AS o GROUP BY o.channel, o.id HAVING SUM(o.amount) > 5;

-- refused: Incomes of people
SELECT income FROM people;

-- refused: Incomes above a limit
SELECT income FROM people WHERE income > 5;

-- refused: All of a table
SELECT * FROM people;

-- refused: A window over people's rows, shown
SELECT region, SUM(income) OVER (PARTITION BY region) FROM people;

-- refused: A self-join of people by a value
SELECT SUM(a.income + b.income) FROM people AS a JOIN people AS b ON a.region = b.region;

-- refused: A sum of a window over other people
SELECT SUM(s) FROM (SELECT region, SUM(income) OVER (PARTITION BY region) AS s FROM people) AS t;

-- refused: A least text
SELECT MIN(name) FROM people;

-- refused: A recursive CTE along people's numbers
WITH RECURSIVE c AS (SELECT id, income FROM people WHERE id = 1 UNION ALL SELECT p.id, p.income FROM people AS p JOIN c ON p.id = c.id + 1) SELECT SUM(income) FROM c;

-- refused: A copy of people's rows
CREATE TABLE copy AS SELECT * FROM people;
