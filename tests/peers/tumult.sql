-- Tumult Analytics | library | What the tutorials and tests of Tumult Analytics build, as SQL: counts, key sets, joins with public tables, rows with identifiers and their bounds.

-- How many members
SELECT COUNT(*) FROM members;

-- How many members of a kind of schooling
SELECT COUNT(*) FROM members WHERE schooling IN ('college', 'university');

-- How many young members
SELECT COUNT(*) FROM members WHERE age BETWEEN 10 AND 18;

-- Two conditions
SELECT COUNT(*) FROM members WHERE age > 17 AND schooling = 'primary';

-- A total with bounds
-- = SELECT SUM(LEAST(50, borrowed)) FROM members
SELECT SUM(CLAMP(borrowed, 0, 50)) FROM members;

-- A mean with bounds
-- = SELECT AVG(GREATEST(0, LEAST(75, age))) FROM members
SELECT AVG(CLAMP(age, 0, 75)) FROM members;

-- A mean by schooling, with listed keys
SELECT schooling, AVG(age) AS a FROM members WHERE schooling IN ('college', 'primary', 'secondary', 'university') GROUP BY schooling;

-- Young members by age
SELECT age, COUNT(*) AS n FROM members WHERE age BETWEEN 5 AND 18 GROUP BY age;

-- Young members by age and schooling
SELECT age, schooling, COUNT(*) AS n FROM members WHERE age BETWEEN 14 AND 18 AND schooling IN ('primary', 'secondary') GROUP BY age, schooling;

-- Some pairs of keys
SELECT age, schooling, COUNT(*) AS n FROM members WHERE (age = 15 AND schooling = 'primary') OR (age = 16 AND schooling = 'secondary') GROUP BY age, schooling;

-- Groups that are found
SELECT schooling FROM members GROUP BY schooling;

-- Groups that are found, counted
SELECT schooling, COUNT(*) AS n FROM members GROUP BY schooling;

-- Names of members, that nobody shares
-- = SELECT 0
SELECT COUNT(*) FROM (SELECT name, COUNT(*) AS n FROM members GROUP BY name) AS t;

-- Age when they joined
-- = SELECT age - (2026 - EXTRACT(YEAR FROM joined)) AS a, COUNT(*) AS n FROM members GROUP BY a HAVING COUNT(*) > 1
SELECT age - (2026 - EXTRACT(YEAR FROM joined)) AS a, COUNT(*) AS n FROM members GROUP BY a;

-- Both favourite genres of each member
SELECT g, COUNT(*) AS n FROM (SELECT favourite AS g FROM members UNION ALL SELECT second FROM members) AS t GROUP BY g;

-- Members by bands of ten years and gender
SELECT FLOOR(age / 10.0) AS band, gender, COUNT(*) AS n FROM members GROUP BY band, gender;

-- Members by town of their postcode
SELECT p.city, COUNT(*) AS n FROM members AS m JOIN postcodes AS p ON m.postcode = p.postcode GROUP BY p.city;

-- Members by county, of a list
SELECT p.county, COUNT(*) AS n FROM members AS m JOIN postcodes AS p ON m.postcode = p.postcode WHERE p.county IN ('Durham', 'Wake') GROUP BY p.county;

-- Books borrowed by town
SELECT p.city, SUM(m.borrowed) AS n FROM members AS m JOIN postcodes AS p ON m.postcode = p.postcode GROUP BY p.city;

-- Members by postcode, with all postcodes
SELECT p.postcode, COUNT(m.id) AS n FROM postcodes AS p LEFT JOIN members AS m ON m.postcode = p.postcode GROUP BY p.postcode;

-- Members by postcode, a left join that keeps members
SELECT p.county, COUNT(*) AS n FROM members AS m LEFT JOIN postcodes AS p ON m.postcode = p.postcode GROUP BY p.county;

-- Loans
SELECT COUNT(*) FROM loans;

-- Loans, of twenty a member
SELECT COUNT(*) FROM (SELECT member_id, ROW_NUMBER() OVER (PARTITION BY member_id ORDER BY taken, book) AS r FROM loans) AS t WHERE r <= 20;

-- Loans, of two a member
SELECT COUNT(*) FROM (SELECT member_id, ROW_NUMBER() OVER (PARTITION BY member_id ORDER BY taken, book) AS r FROM loans) AS t WHERE r <= 2;

-- Members who borrowed
SELECT COUNT(DISTINCT member_id) FROM loans;

-- Loans by genre
SELECT genre, COUNT(*) AS n FROM loans GROUP BY genre;

-- Members by book, of five books
SELECT book, COUNT(DISTINCT member_id) AS n FROM loans WHERE book IN (1000, 1001, 1004, 1009, 1016) GROUP BY book;

-- Loans by book, of five books
SELECT book, COUNT(*) AS n FROM loans WHERE book IN (1000, 1001, 1004, 1009, 1016) GROUP BY book;

-- Loans by title of the public table
SELECT b.title, COUNT(*) AS n FROM loans AS l JOIN books AS b ON l.book = b.book GROUP BY b.title;

-- Each loan's genres, one in each row
SELECT g, COUNT(*) AS n FROM (SELECT member_id, genre AS g FROM loans UNION ALL SELECT member_id, other FROM loans WHERE other IS NOT NULL) AS t GROUP BY g;

-- Loans joined with their members
SELECT COUNT(*) FROM loans AS l JOIN members AS m ON l.member_id = m.id;

-- Loans by band of age and genre
SELECT FLOOR(m.age / 10.0) AS band, l.genre, COUNT(*) AS n FROM loans AS l JOIN members AS m ON l.member_id = m.id GROUP BY band, l.genre;

-- Loans by band of age
SELECT FLOOR(m.age / 10.0) AS band, COUNT(*) AS n FROM loans AS l JOIN members AS m ON l.member_id = m.id GROUP BY band;

-- Shares of genres in each band of age
-- = WITH t AS (SELECT FLOOR(m.age / 10.0) AS band, l.genre, COUNT(*) AS n FROM loans AS l JOIN members AS m ON l.member_id = m.id GROUP BY band, l.genre) SELECT a.band, a.genre, a.n * 1.0 / b.n AS share FROM t AS a JOIN (SELECT band, SUM(n) AS n FROM t GROUP BY band) AS b ON a.band = b.band
WITH t AS (SELECT FLOOR(m.age / 10.0) AS band, l.genre, COUNT(*) AS n FROM loans AS l JOIN members AS m ON l.member_id = m.id GROUP BY band, l.genre) SELECT a.band, a.genre, a.n * 1.0 / b.n AS share FROM t AS a JOIN (SELECT band, SUM(n) AS n FROM t GROUP BY band) AS b ON a.band = b.band;

-- A mean age of those who borrow a genre
SELECT l.genre, AVG(m.age) AS a FROM loans AS l JOIN members AS m ON l.member_id = m.id GROUP BY l.genre;

-- Means of each member's loans
SELECT AVG(n) AS mean FROM (SELECT member_id, COUNT(*) AS n FROM loans GROUP BY member_id) AS t;

-- Each member once, flattened by genre
SELECT genre, COUNT(*) AS n FROM (SELECT DISTINCT member_id, genre FROM loans) AS t GROUP BY genre;

-- A sum by id: members by how many books they have
SELECT n, COUNT(*) AS members FROM (SELECT member_id, COUNT(*) AS n FROM loans GROUP BY member_id) AS t GROUP BY n;

-- A sum with listed keys and zero for those without rows
SELECT genre, COUNT(*) AS n FROM loans WHERE genre IN ('crime', 'drama') GROUP BY genre;

-- A least and a greatest age
SELECT MIN(age), MAX(age) FROM members;

-- A least and a greatest age by gender
SELECT gender, MIN(age), MAX(age) FROM members GROUP BY gender;

-- A median age
-- = SELECT quantile_disc(age, 0.5) FROM members
SELECT MEDIAN(age) FROM members;

-- A median age by schooling
-- = SELECT schooling, quantile_disc(age, 0.5) BETWEEN 45 AND 55 FROM members WHERE schooling IN ('college', 'primary', 'secondary', 'university') GROUP BY schooling
SELECT schooling, MEDIAN(age) BETWEEN 45 AND 55 AS a FROM members WHERE schooling IN ('college', 'primary', 'secondary', 'university') GROUP BY schooling;

-- A quantile
-- = SELECT quantile_disc(age, 0.9) FROM members
SELECT QUANTILE(age, 0.9) FROM members;

-- A variance and a deviation
SELECT VAR_SAMP(age), STDDEV_SAMP(age) FROM members;

-- Distinct ages
SELECT COUNT(DISTINCT age) FROM members;

-- Distinct postcodes by gender
SELECT gender, COUNT(DISTINCT postcode) AS n FROM members WHERE gender <> 'x' GROUP BY gender;

-- Distinct pairs
SELECT COUNT(DISTINCT schooling || '/' || gender) FROM members;

-- A histogram of ages
SELECT FLOOR(age / 20.0) * 20 AS low, COUNT(*) AS n FROM members GROUP BY low;

-- NULL replaced
SELECT COALESCE(other, 'none') AS g, COUNT(*) AS n FROM loans GROUP BY COALESCE(other, 'none');

-- NULL left out
SELECT COUNT(*) FROM loans WHERE other IS NOT NULL;

-- Columns under other names
SELECT s, AVG(a) AS m FROM (SELECT schooling AS s, age AS a FROM members) AS t GROUP BY s;

-- Selected columns
SELECT COUNT(*) FROM (SELECT id, age FROM members) AS t;

-- Members without a loan
SELECT COUNT(*) FROM members AS m WHERE NOT EXISTS (SELECT 1 FROM loans AS l WHERE l.member_id = m.id AND l.genre = 'maths');

-- Members with a loan of another genre than their favourite
SELECT COUNT(*) FROM members AS m WHERE EXISTS (SELECT 1 FROM loans AS l WHERE l.member_id = m.id AND l.genre <> m.favourite);

-- Two parts of the members, counted
SELECT COUNT(*) FILTER (WHERE age < 50), COUNT(*) FILTER (WHERE age >= 50) FROM members;

-- Price of books taken home by genre
SELECT l.genre, SUM(b.price) AS s FROM loans AS l JOIN books AS b ON l.book = b.book GROUP BY l.genre;

-- Loans of each day of a list
SELECT taken, COUNT(*) AS n FROM loans WHERE taken IN (DATE '2024-01-01', DATE '2024-01-04', DATE '2024-01-07') GROUP BY taken;

-- Loans by month
SELECT DATE_TRUNC('month', taken) AS m, COUNT(*) AS n FROM loans GROUP BY m;

-- refused: Names of members
SELECT name FROM members;

-- refused: By the number of the member
SELECT member_id, COUNT(*) FROM loans GROUP BY member_id;

-- refused: A join of members by their postcode
SELECT COUNT(*) FROM members AS a JOIN members AS b ON a.postcode = b.postcode;

-- refused: Books that any member borrowed, as a condition
SELECT COUNT(*) FROM loans WHERE book IN (SELECT book FROM loans WHERE genre = 'maths');

-- refused: The first loans of all
SELECT COUNT(*) FROM (SELECT * FROM loans ORDER BY taken LIMIT 100) AS t;
