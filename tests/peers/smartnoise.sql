-- SmartNoise SQL | survey | What the tests of SmartNoise SQL validate, rewrite and run, each shape once.

-- A sum
SELECT SUM(age) FROM survey;

-- A count and a variance
SELECT COUNT(*), VARIANCE(age) AS v FROM survey;

-- By three columns, of which one is open
SELECT married, educ, FLOOR(income / 40000.0) AS band, AVG(age) FROM survey GROUP BY married, educ, band;

-- By one column, behind an alias
SELECT s.married, AVG(age) AS a FROM survey AS s GROUP BY married;

-- Five levels by their mean incomes
SELECT educ, AVG(income) AS m FROM survey GROUP BY educ ORDER BY m DESC LIMIT 5;

-- A count of a condition's column and a mean
SELECT COUNT(married), AVG(age) FROM survey;

-- A constant beside keys and a mean
SELECT 3 AS three, s.married, educ, AVG(income) FROM survey AS s GROUP BY educ, married;

-- Keys alone
SELECT educ FROM survey GROUP BY educ;

-- A sum under the column's name
SELECT SUM(age) AS age FROM survey;

-- A sum in brackets
SELECT (SUM(age)) AS age FROM survey;

-- A sum times one
SELECT SUM(age) * 1 AS age FROM survey;

-- A sum and a count
SELECT SUM(age), COUNT(*) FROM survey;

-- Constants and functions around a mean
-- = SELECT PI(), POWER(AVG(age), 2) FROM survey
SELECT PI(), POWER(AVG(age), 2) FROM survey;

-- A random number beside a mean
-- = SELECT TRUE, AVG(age) FROM survey
SELECT RAND() < 2, AVG(age) FROM survey;

-- By a case
SELECT SUM(age) AS s FROM survey GROUP BY married, CASE WHEN age > 90 THEN 1 ELSE 0 END;

-- A sum of two columns
SELECT SUM(age + income) FROM survey;

-- A sum of a case
SELECT SUM(CASE WHEN age > 90 THEN 1 ELSE 0 END) AS s FROM survey;

-- A sum of a shifted column, times one
SELECT SUM(age + 1) * 1 AS s FROM survey;

-- A count of a subquery
SELECT COUNT(*) FROM (SELECT * FROM survey) AS t;

-- A count of persons
SELECT COUNT(pid) AS n FROM survey;

-- Crashes in a region
SELECT SUM(crashes) AS n FROM reports WHERE region = 'warm';

-- Mean heat by whether it was refurbished
SELECT AVG(heat) AS h FROM reports GROUP BY refurbished;

-- Three numbers by building
SELECT building, SUM(crashes) AS n, AVG(crashes) AS m, AVG(heat) AS h FROM reports WHERE refurbished = TRUE GROUP BY building;

-- A count of rows of devices
SELECT COUNT(device) AS n FROM reports;

-- A sum twice
SELECT SUM(heat), SUM(heat), SUM(crashes), COUNT(building) FROM reports GROUP BY region;

-- A mean by three keys, with a condition
SELECT AVG(heat) AS h, region, building, refurbished FROM reports WHERE heat > 53.1 GROUP BY refurbished, region, building;

-- A count by three keys, with a condition
SELECT COUNT(device) AS n, region, building, refurbished FROM reports WHERE heat > 53.1 GROUP BY region, building, refurbished;

-- In the order of keys
SELECT COUNT(device) AS n, region, refurbished, building, AVG(heat) AS h FROM reports WHERE heat > 53.1 GROUP BY region, refurbished, building ORDER BY region, refurbished DESC;

-- A sum and a count
SELECT SUM(crashes) AS c, COUNT(device) AS n FROM reports;

-- A count of crashes
SELECT COUNT(crashes) AS c FROM reports;

-- Regions of a list, in falling order
SELECT region, SUM(crashes) AS c FROM reports WHERE region IN ('warm', 'cold') GROUP BY region ORDER BY region DESC;

-- Devices by three keys
SELECT COUNT(DISTINCT device) AS n, region, building, refurbished FROM reports WHERE heat > 53.1 GROUP BY region, building, refurbished;

-- Devices by one key
SELECT COUNT(DISTINCT device) AS n FROM reports GROUP BY refurbished;

-- Devices
SELECT COUNT(DISTINCT device) AS n FROM reports;

-- Means by two keys, in order
SELECT region, refurbished, AVG(heat) FROM reports GROUP BY region, refurbished ORDER BY refurbished, region;

-- A power of a count
SELECT POWER(COUNT(device) / 100.0, 2) AS n, region FROM reports GROUP BY region;

-- A deviation by hand
SELECT SQRT(AVG(crashes * crashes) - AVG(crashes) * AVG(crashes)) AS s FROM reports;

-- A mean of incomes
SELECT AVG(income) AS income FROM survey;

-- Five times a count, in order
SELECT COUNT(*) * 5 AS c, married AS m FROM survey GROUP BY married ORDER BY c DESC;

-- Two conditions
SELECT COUNT(*) AS c FROM survey WHERE age > 70 AND educ < 2;

-- A condition, by level
SELECT COUNT(*) AS c FROM survey WHERE age > 70 GROUP BY educ;

-- A count that is small
SELECT COUNT(*) AS c FROM survey WHERE age > 90 AND educ = 5;

-- A count of nobody
SELECT COUNT(*) AS c FROM survey WHERE age > 97;

-- A sum of nobody
-- = SELECT 0
SELECT SUM(age) AS c FROM survey WHERE age > 97;

-- A power of a sum
SELECT POWER(SUM(age), 2) AS s FROM survey;

-- HAVING a computed key
SELECT age * 1000 AS a, COUNT(*) FROM survey GROUP BY age HAVING age < 30 OR age > 60;

-- HAVING a product of a key
SELECT age, COUNT(*) FROM survey GROUP BY age HAVING age * 1000 < 30000 OR age * 2 > 120;

-- HAVING a key and a number under its name
SELECT age, COUNT(*) * 1000 AS n FROM survey GROUP BY age HAVING (age < 30 OR age > 60) AND n > 10000;

-- HAVING arithmetic on a number
SELECT age, COUNT(*) AS n FROM survey GROUP BY age HAVING (age < 30 OR age > 60) AND n * 100 / 2 > 500;

-- HAVING a truth value
SELECT educ, married, COUNT(*) AS n, SUM(income) AS s FROM survey GROUP BY educ, married HAVING married;

-- HAVING NOT of a truth value
SELECT educ, married, COUNT(*) AS n, SUM(income) AS s FROM survey GROUP BY educ, married HAVING NOT married;

-- HAVING a number or a truth value
SELECT educ, married, COUNT(*) AS n, SUM(income) AS s FROM survey GROUP BY educ, married HAVING n > 10 OR married;

-- HAVING a sum or a key
SELECT educ, sex, COUNT(*) AS n, SUM(income) AS s FROM survey GROUP BY educ, sex HAVING s > 100000 OR sex = 1;

-- HAVING a sum under the name of its column
SELECT educ, sex, COUNT(*) AS n, SUM(income) AS income FROM survey GROUP BY educ, sex HAVING income > 100000;

-- HAVING a key
SELECT educ, sex, COUNT(*) AS n, SUM(income) AS s FROM survey GROUP BY educ, sex HAVING sex = 1;

-- By an open column of many values
-- = SELECT COUNT(*) > 0 FROM survey
SELECT COUNT(*) > 0 FROM (SELECT FLOOR(income / 1000.0) AS k, COUNT(pid) AS n FROM survey GROUP BY k) AS t;

-- By a date and a text, in order
SELECT started, SUM(income), area FROM survey GROUP BY started, area ORDER BY started DESC, area;

-- The first levels
-- = SELECT COUNT(*) FROM (SELECT educ FROM survey GROUP BY educ LIMIT 4) AS t
SELECT COUNT(*) FROM (SELECT educ, COUNT(*) AS n FROM survey GROUP BY educ LIMIT 4) AS t;

-- Fifty groups by their sums
SELECT educ, married, COUNT(*) AS n, SUM(income) AS s FROM survey GROUP BY educ, married ORDER BY s DESC LIMIT 20;

-- Ten groups by their keys
SELECT educ, married, COUNT(*) AS n, SUM(income) AS s FROM survey GROUP BY educ, married ORDER BY married, educ DESC LIMIT 10;

-- The five largest levels
SELECT educ, COUNT(*) AS n FROM survey GROUP BY educ ORDER BY n DESC, educ LIMIT 5;

-- A self-join by the person
SELECT SUM(b.income) FROM survey AS a JOIN survey AS b ON b.pid = a.pid;

-- Mean of a mean, a subquery
SELECT AVG(m) FROM (SELECT educ, AVG(income) AS m FROM survey GROUP BY educ) AS t;

-- refused: By a level and a person
SELECT pid, COUNT(pid) AS c FROM survey GROUP BY educ;

-- refused: Rows that are constants
SELECT 1 FROM survey;

-- refused: By the person, without the key
SELECT COUNT(pid) AS n FROM survey GROUP BY pid;

-- refused: By the person
SELECT pid, COUNT(pid) AS n FROM survey GROUP BY pid;

-- refused: A column beside the groups in a subquery
SELECT SUM(income) FROM (SELECT income, pid FROM survey GROUP BY pid) AS t;

-- refused: A sum of a sum
SELECT SUM(SUM(age)) FROM survey;

-- refused: A column beside an aggregate
SELECT married, educ, income, AVG(age) FROM survey;

-- refused: A key that is not grouped
SELECT 3 AS three, s.married, educ, AVG(income) FROM survey AS s GROUP BY educ;

-- refused: A case of each row
SELECT CASE WHEN age > 90 THEN 1 ELSE 0 END AS a FROM survey;

-- refused: Ages of people
SELECT age AS a FROM survey WHERE age > 90;

-- refused: Persons of a join
SELECT a.pid, b.income FROM survey AS a JOIN survey AS b ON b.pid = a.pid;

-- refused: The first rows
SELECT area FROM survey LIMIT 10;
