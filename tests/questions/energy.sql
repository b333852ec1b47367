-- A power company: households, the readings of their meters, faults; tariffs are public.
--
-- households(id, postcode, tariff, persons, heating, area, solar)
-- readings(household_id, at, kwh)
-- faults(household_id, reported, fixed, kind)
-- tariffs(name, price)                                                              public
-- score: useful 19, advice 0, refused 0, not yet 1

-- 1. How much power is used in each month?
-- wanted: useful
-- now: useful
SELECT date_trunc('month', at) AS month, SUM(kwh) AS kwh FROM readings GROUP BY 1 ORDER BY 1;

-- 2. What does a household use in a month, by its size?
-- wanted: useful
-- now: useful
SELECT h.persons, AVG(r.kwh) AS kwh FROM households h JOIN readings r ON r.household_id = h.id GROUP BY h.persons ORDER BY 1;

-- 3. What does a household use in the year?
-- wanted: useful
-- now: useful
SELECT AVG(total) FROM (SELECT household_id, SUM(kwh) AS total FROM readings GROUP BY household_id) t;

-- 4. The 90th percentile of what households use in the year.
-- wanted: useful
-- now: useful
-- plain: SELECT approx_percentile_cont(total, 0.9) FROM (SELECT household_id, SUM(kwh) AS total FROM readings GROUP BY household_id) t;
SELECT quantile_cont(total, 0.9) FROM (SELECT household_id, SUM(kwh) AS total FROM readings GROUP BY household_id) t;

-- 5. What do the households of each tariff pay?
-- wanted: useful
-- now: useful
SELECT t.name, SUM(r.kwh * t.price) AS paid FROM readings r JOIN households h ON h.id = r.household_id JOIN tariffs t ON t.name = h.tariff GROUP BY t.name;

-- 6. How many homes with solar cells does each region have?
-- wanted: useful
-- now: useful
SELECT LEFT(postcode, 2) AS region, COUNT(*) AS homes FROM households WHERE solar GROUP BY region ORDER BY region;

-- 7. The ten postcodes with most households.
-- wanted: useful
-- now: useful
SELECT postcode, COUNT(*) AS n FROM households GROUP BY postcode ORDER BY n DESC LIMIT 10;

-- 8. What share of homes has which heating?
-- wanted: useful
-- now: useful
SELECT heating, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS percent FROM households GROUP BY heating;

-- 9. How much was used in the last 90 days of the year?
-- wanted: useful
-- now: useful
SELECT SUM(kwh) FROM readings WHERE at >= TIMESTAMP '2025-12-31' - INTERVAL '90 days';

-- 10. What is read at which hour of the day?
-- wanted: useful
-- now: useful
-- plain: SELECT date_part('hour', at) AS hour, AVG(kwh) AS kwh FROM readings GROUP BY 1 ORDER BY 1;
SELECT HOUR(at) AS hour, AVG(kwh) AS kwh FROM readings GROUP BY HOUR(at) ORDER BY hour;

-- 11. How much does a square metre use, by heating?
-- wanted: useful
-- now: useful
SELECT h.heating, AVG(r.kwh / h.area) AS per_metre FROM readings r JOIN households h ON h.id = r.household_id GROUP BY h.heating;

-- 12. How large is a home?
-- wanted: useful
-- now: useful
SELECT AVG(area) FROM households;

-- 13. How many hours does it take to fix a fault?
-- wanted: useful
-- now: useful
-- plain: SELECT AVG(CAST(CAST(fixed AS BIGINT) - CAST(reported AS BIGINT) AS DOUBLE)) / 3600000000 AS hours FROM faults WHERE fixed IS NOT NULL;
SELECT AVG(EXTRACT(EPOCH FROM fixed - reported)) / 3600 AS hours FROM faults WHERE fixed IS NOT NULL;

-- 14. The median of these hours for each kind of fault.
-- wanted: useful
-- now: not yet, other answer
-- plain: SELECT kind, approx_percentile_cont(CAST(date_trunc('hour', fixed) AS BIGINT) / 3600000000 - CAST(date_trunc('hour', reported) AS BIGINT) / 3600000000, 0.5) AS hours FROM faults GROUP BY kind;
SELECT kind, MEDIAN(DATE_DIFF('hour', reported, fixed)) AS hours FROM faults GROUP BY kind;

-- 15. How many faults does each week have?
-- wanted: useful
-- now: useful
-- plain: SELECT date_part('week', reported) AS week, COUNT(*) AS n FROM faults GROUP BY 1 ORDER BY 1;
SELECT WEEK(reported) AS week, COUNT(*) AS n FROM faults GROUP BY WEEK(reported) ORDER BY 1;

-- 16. How many faults were open for more than 30 days at the end of the year?
-- wanted: useful
-- now: useful
-- plain: SELECT COUNT(*) FROM faults WHERE fixed IS NULL AND reported < TIMESTAMP '2025-12-01';
SELECT COUNT(*) FROM faults WHERE fixed IS NULL AND reported < DATE '2025-12-31' - 30;

-- 17. How does consumption change from month to month?
-- wanted: useful
-- now: useful
SELECT month, kwh - LAG(kwh) OVER (ORDER BY month) AS change FROM (SELECT date_trunc('month', at) AS month, SUM(kwh) AS kwh FROM readings GROUP BY 1) t ORDER BY month;

-- 18. How many households use more than one and a half times the average?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM (SELECT household_id, SUM(kwh) AS total FROM readings GROUP BY household_id) t WHERE total > (SELECT 1.5 * AVG(total) FROM (SELECT household_id, SUM(kwh) AS total FROM readings GROUP BY household_id) u);

-- 19. Winter and summer.
-- wanted: useful
-- now: useful
-- plain: SELECT CASE WHEN date_part('month', at) IN (12, 1, 2) THEN 'winter' WHEN date_part('month', at) IN (6, 7, 8) THEN 'summer' ELSE 'between' END AS season, SUM(kwh) AS kwh FROM readings GROUP BY 1;
SELECT CASE WHEN MONTH(at) IN (12, 1, 2) THEN 'winter' WHEN MONTH(at) IN (6, 7, 8) THEN 'summer' ELSE 'between' END AS season, SUM(kwh) AS kwh FROM readings GROUP BY season;

-- 20. On which days of the week, from Monday, are faults reported?
-- wanted: useful
-- now: useful
-- plain: SELECT CASE date_part('dow', reported) WHEN 0 THEN 7 ELSE date_part('dow', reported) END AS day, COUNT(*) AS n FROM faults GROUP BY 1 ORDER BY 1;
SELECT EXTRACT(ISODOW FROM reported) AS day, COUNT(*) AS n FROM faults GROUP BY day ORDER BY day;
