-- H2O db-benchmark | frame | Ten groupings and five joins of a data frame, with id6 as the person.

-- 1. A sum by a text of few values
SELECT id1, SUM(v1) AS v1 FROM frame GROUP BY id1;

-- 2. A sum by two texts
SELECT id1, id2, SUM(v1) AS v1 FROM frame GROUP BY id1, id2;

-- 3. A sum and a mean by a text of many values
SELECT id3, SUM(v1) AS v1, AVG(v3) AS v3 FROM frame GROUP BY id3;

-- 4. Three means by a number
SELECT id4, AVG(v1) AS v1, AVG(v2) AS v2, AVG(v3) AS v3 FROM frame GROUP BY id4;

-- refused: 5. Three sums by the number of the person
SELECT id6, SUM(v1) AS v1, SUM(v2) AS v2, SUM(v3) AS v3 FROM frame GROUP BY id6;

-- 6. A median and a deviation by two numbers
-- = SELECT id4, quantile_disc(v3, 0.5) BETWEEN 40 AND 60 AS m, STDDEV(v3) AS s FROM frame GROUP BY id4
SELECT id4, MEDIAN(v3) BETWEEN 40 AND 60 AS m, STDDEV(v3) AS s FROM frame GROUP BY id4;

-- 7. The greatest less the least by a text of many values
SELECT id3, MAX(v1) - MIN(v2) AS r FROM frame GROUP BY id3;

-- refused: 8. The two largest values of each person
SELECT id6, v3 FROM (SELECT id6, v3, ROW_NUMBER() OVER (PARTITION BY id6 ORDER BY v3 DESC) AS r FROM frame) AS t WHERE r <= 2;

-- 8. The mean of the two largest values of each person
SELECT AVG(v3) AS m FROM (SELECT id6, v3, ROW_NUMBER() OVER (PARTITION BY id6 ORDER BY v3 DESC) AS r FROM frame) AS t WHERE r <= 2;

-- 9. The square of a correlation by two keys
SELECT id2, id4, POW(CORR(v1, v2), 2) AS r2 FROM frame GROUP BY id2, id4;

-- 10. A sum and a count by three keys
SELECT id1, id2, id4, SUM(v3) AS v3, COUNT(*) AS n FROM frame GROUP BY id1, id2, id4;

-- refused: 10. A sum and a count by all keys
SELECT id1, id2, id3, id4, id5, id6, SUM(v3) AS v3, COUNT(*) AS n FROM frame GROUP BY id1, id2, id3, id4, id5, id6;

-- Join 1. With a small table
SELECT COUNT(*), SUM(v1), SUM(v4) FROM frame JOIN small USING (id4);

-- Join 2. With a table of middle size
SELECT COUNT(*), SUM(v1), SUM(v4) FROM frame JOIN medium USING (id5);

-- Join 3. From the left, with a table of middle size
SELECT COUNT(*), SUM(v1), SUM(v4) FROM frame LEFT JOIN medium USING (id5);

-- Join 4. With a table of middle size, by a text
SELECT COUNT(*), SUM(v1), SUM(v4) FROM frame JOIN medium ON frame.id2 = medium.label;

-- Join 5. With a large table
SELECT COUNT(*), SUM(v1), SUM(v4) FROM frame JOIN big USING (id3);
