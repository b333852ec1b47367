-- An app: users, their devices, sessions and events; releases of the app are public.
--
-- users(id, email, plan, country, created)
-- devices(id, user_id, os, version)
-- sessions(id, user_id, started, seconds)
-- events(user_id, at, name, screen, ms, ok)
-- releases(version, released)                                                       public
-- score: useful 32, advice 1, refused 1, not yet 5

-- 1. How many users does each plan have?
-- wanted: useful
-- now: useful
SELECT plan, COUNT(*) FROM users GROUP BY plan;

-- 2. How many users are active on each day of November 2025?
-- wanted: useful
-- now: useful
-- advised: SELECT at::date AS day, COUNT(DISTINCT user_id) AS active FROM events WHERE at >= '2025-11-01' AND at < '2025-12-01' GROUP BY CAST(at AS DATE) KEYS ('2025-11-01', '2025-11-02', '2025-11-03', '2025-11-04', '2025-11-05', '2025-11-06', '2025-11-07', '2025-11-08', '2025-11-09', '2025-11-10', '2025-11-11', '2025-11-12', '2025-11-13', '2025-11-14', '2025-11-15', '2025-11-16', '2025-11-17', '2025-11-18', '2025-11-19', '2025-11-20', '2025-11-21', '2025-11-22', '2025-11-23', '2025-11-24', '2025-11-25', '2025-11-26', '2025-11-27', '2025-11-28', '2025-11-29', '2025-11-30') ORDER BY day;
SELECT at::date AS day, COUNT(DISTINCT user_id) AS active FROM events WHERE at >= '2025-11-01' AND at < '2025-12-01' GROUP BY day ORDER BY day;

-- 3. How many users are active each week?
-- wanted: useful
-- now: useful
-- advised: SELECT date_trunc('week', at) AS week, COUNT(DISTINCT user_id) AS active FROM events GROUP BY date_trunc('week', at) KEYS ('2025-05-26', '2025-06-02', '2025-06-09', '2025-06-16', '2025-06-23', '2025-06-30', '2025-07-07', '2025-07-14', '2025-07-21', '2025-07-28', '2025-08-04', '2025-08-11', '2025-08-18', '2025-08-25', '2025-09-01', '2025-09-08', '2025-09-15', '2025-09-22', '2025-09-29', '2025-10-06', '2025-10-13', '2025-10-20', '2025-10-27', '2025-11-03', '2025-11-10', '2025-11-17', '2025-11-24', '2025-12-01', '2025-12-08', '2025-12-15', '2025-12-22', '2025-12-29') ORDER BY week;
SELECT date_trunc('week', at) AS week, COUNT(DISTINCT user_id) AS active FROM events GROUP BY week ORDER BY week;

-- 4. How many events of each name are there?
-- wanted: useful
-- now: useful
SELECT name, COUNT(*) AS n FROM events GROUP BY name ORDER BY n DESC;

-- 5. The average of the daily active users.
-- wanted: advice
-- now: not yet, drowned
SELECT AVG(active) FROM (SELECT at::date AS day, COUNT(DISTINCT user_id) AS active FROM events GROUP BY day) AS t;

-- 6. What is the median latency?
-- wanted: useful
-- now: useful
SELECT MEDIAN(ms) FROM events;

-- 7. Median and 95th percentile of latency of each screen.
-- wanted: useful
-- now: useful
SELECT screen, approx_percentile_cont(ms, 0.5) AS p50, approx_percentile_cont(ms, 0.95) AS p95 FROM events GROUP BY screen;

-- 8. Latency in classes of half a second.
-- wanted: useful
-- now: not yet, drowned
SELECT ms / 500 * 500 AS class, COUNT(*) AS n FROM events GROUP BY 1 ORDER BY 1;

-- 9. What share of events fails, by screen?
-- wanted: useful
-- now: useful
SELECT screen, 1.0 - AVG(ok::int) AS failed FROM events GROUP BY screen ORDER BY failed DESC;

-- 10. What share of events fails, by day?
-- wanted: useful
-- now: not yet, drowned
SELECT date_trunc('day', at) AS day, COUNT(*) FILTER (WHERE NOT ok) * 100.0 / COUNT(*) AS percent FROM events GROUP BY 1 ORDER BY 1;

-- 11. How many events fail in each hour of the day?
-- wanted: useful
-- now: useful
-- plain: SELECT date_part('hour', at) AS hour, COUNT(*) FILTER (WHERE NOT ok) AS failed FROM events GROUP BY 1 ORDER BY 1;
SELECT date_part('hour', at) AS hour, count_if(NOT ok) AS failed FROM events GROUP BY 1 ORDER BY 1;

-- 12. How long is a session on average?
-- wanted: useful
-- now: useful
SELECT AVG(seconds) / 60.0 AS minutes FROM sessions;

-- 13. How many sessions does a user have in a week?
-- wanted: useful
-- now: useful
SELECT AVG(n) FROM (SELECT user_id, date_trunc('week', started) AS week, COUNT(*) AS n FROM sessions GROUP BY 1, 2) AS t;

-- 14. Sessions by length: under a minute, up to ten, more.
-- wanted: useful
-- now: useful
SELECT CASE WHEN seconds < 60 THEN '1: under a minute' WHEN seconds < 600 THEN '2: up to ten' ELSE '3: more' END AS length, COUNT(*) FROM sessions GROUP BY 1 ORDER BY 1;

-- 15. Which operating systems do users have?
-- wanted: useful
-- now: useful
SELECT os, COUNT(DISTINCT user_id) AS users FROM devices GROUP BY os ORDER BY users DESC;

-- 16. Which versions are installed?
-- wanted: useful
-- now: useful
SELECT split_part(version, '.', 1) AS major, COUNT(*) FROM devices GROUP BY 1;

-- 17. How many users have more than one device?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM (SELECT user_id, COUNT(*) AS n FROM devices GROUP BY user_id) AS t WHERE n > 1;

-- 18. Funnel: how many users opened, searched and bought?
-- wanted: useful
-- now: useful
SELECT COUNT(DISTINCT CASE WHEN name = 'open' THEN user_id END) AS opened, COUNT(DISTINCT CASE WHEN name = 'search' THEN user_id END) AS searched, COUNT(DISTINCT CASE WHEN name = 'buy' THEN user_id END) AS bought FROM events;

-- 19. What share of users who searched also bought?
-- wanted: useful
-- now: useful
SELECT AVG(bought) FROM (SELECT user_id, MAX(CASE WHEN name = 'buy' THEN 1 ELSE 0 END) AS bought FROM events WHERE user_id IN (SELECT user_id FROM events WHERE name = 'search') GROUP BY user_id) AS t;

-- 20. How many users of September came back in October?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM users u WHERE EXISTS (SELECT 1 FROM events e WHERE e.user_id = u.id AND e.at >= '2025-09-01' AND e.at < '2025-10-01') AND EXISTS (SELECT 1 FROM events e WHERE e.user_id = u.id AND e.at >= '2025-10-01' AND e.at < '2025-11-01');

-- 21. Cohorts: users by the month of their creation and the month of their activity.
-- wanted: useful
-- now: useful
-- advised: SELECT date_trunc('month', u.created) AS cohort, date_trunc('month', e.at) AS month, COUNT(DISTINCT u.id) AS users FROM users u JOIN events e ON e.user_id = u.id GROUP BY date_trunc('month', u.created) KEYS ('2025-01-01', '2025-02-01', '2025-03-01', '2025-04-01', '2025-05-01', '2025-06-01', '2025-07-01', '2025-08-01', '2025-09-01', '2025-10-01', '2025-11-01', '2025-12-01'), date_trunc('month', e.at) KEYS ('2025-06-01', '2025-07-01', '2025-08-01', '2025-09-01', '2025-10-01', '2025-11-01', '2025-12-01') ORDER BY 1, 2;
SELECT date_trunc('month', u.created) AS cohort, date_trunc('month', e.at) AS month, COUNT(DISTINCT u.id) AS users FROM users u JOIN events e ON e.user_id = u.id GROUP BY 1, 2 ORDER BY 1, 2;

-- 22. How many users signed up in each month, and how many in all so far?
-- wanted: useful
-- now: useful
-- advised: SELECT month, n, SUM(n) OVER (ORDER BY month) AS so_far FROM (SELECT date_trunc('month', created) AS month, COUNT(*) AS n FROM users GROUP BY date_trunc('month', created) KEYS ('2025-01-01', '2025-02-01', '2025-03-01', '2025-04-01', '2025-05-01', '2025-06-01', '2025-07-01', '2025-08-01', '2025-09-01', '2025-10-01', '2025-11-01', '2025-12-01')) AS t ORDER BY month;
SELECT month, n, SUM(n) OVER (ORDER BY month) AS so_far FROM (SELECT date_trunc('month', created) AS month, COUNT(*) AS n FROM users GROUP BY 1) AS t ORDER BY month;

-- 23. The share of each plan in all users.
-- wanted: useful
-- now: useful
SELECT plan, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS percent FROM users GROUP BY plan;

-- 24. Moving average of daily events over seven days.
-- wanted: useful
-- now: not yet, drowned
SELECT day, AVG(n) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS smooth FROM (SELECT at::date AS day, COUNT(*) AS n FROM events GROUP BY 1) AS t ORDER BY day;

-- 25. How many events do users of each plan make?
-- wanted: useful
-- now: useful
SELECT u.plan, COUNT(*) AS events, COUNT(DISTINCT u.id) AS users, COUNT(*) * 1.0 / COUNT(DISTINCT u.id) AS per_user FROM users u JOIN events e ON e.user_id = u.id GROUP BY u.plan;

-- 26. Which screen is slowest on average, with at least 1,000 events?
-- wanted: useful
-- now: useful
SELECT screen, AVG(ms) AS ms, COUNT(*) AS n FROM events GROUP BY screen HAVING COUNT(*) >= 1000 ORDER BY ms DESC LIMIT 1;

-- 27. How many users are on an old version?
-- wanted: useful
-- now: useful
SELECT COUNT(DISTINCT d.user_id) FROM devices d JOIN releases r ON r.version = d.version WHERE r.released < '2025-06-01';

-- 28. How many users have not been seen since 1 November 2025?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM (SELECT user_id, MAX(at) AS last_seen FROM events GROUP BY user_id) AS t WHERE last_seen < '2025-11-01';

-- 29. Events by country and plan.
-- wanted: useful
-- now: useful
SELECT u.country, u.plan, COUNT(*) AS n FROM events e JOIN users u ON u.id = e.user_id GROUP BY u.country, u.plan ORDER BY n DESC;

-- 30. How many users come from a country with an upper-case code that starts with 'A'?
-- wanted: useful
-- now: useful
-- advised: SELECT upper(country) AS country, COUNT(*) FROM users WHERE upper(country) LIKE 'A%' GROUP BY upper(country) KEYS ('AR', 'AT', 'AU');
SELECT upper(country) AS country, COUNT(*) FROM users WHERE upper(country) LIKE 'A%' GROUP BY 1;

-- 31. Which user made most events?
-- wanted: refused
-- now: refused
SELECT user_id, COUNT(*) AS n FROM events GROUP BY user_id ORDER BY n DESC LIMIT 1;

-- 32. Retention: how many users are active in each month after they signed up?
-- wanted: useful
-- now: useful
SELECT (EXTRACT(MONTH FROM e.at) - EXTRACT(MONTH FROM u.created)) AS months, COUNT(DISTINCT u.id) AS users FROM users u JOIN events e ON e.user_id = u.id WHERE e.at >= u.created GROUP BY 1 ORDER BY 1;

-- 33. How many active users did each week gain or lose?
-- wanted: advice
-- now: not yet, drowned
-- advised: WITH w AS (SELECT date_trunc('week', at) AS week, GAUSSIAN(eps=1, delta=1e-6) COUNT(DISTINCT user_id) AS active FROM events GROUP BY 1) SELECT week, active - LAG(active) OVER (ORDER BY week) AS gained FROM w ORDER BY week;
WITH w AS (SELECT date_trunc('week', at) AS week, COUNT(DISTINCT user_id) AS active FROM events GROUP BY 1) SELECT week, active - LAG(active) OVER (ORDER BY week) AS gained FROM w ORDER BY week;

-- 34. What share of users of each plan buys?
-- wanted: useful
-- now: useful
SELECT u.plan, COUNT(DISTINCT CASE WHEN e.name = 'buy' THEN u.id END) * 1.0 / COUNT(DISTINCT u.id) AS conversion FROM users u JOIN events e ON e.user_id = u.id GROUP BY u.plan;

-- 35. How many users have one device, two, three?
-- wanted: useful
-- now: useful
SELECT n, COUNT(*) AS users FROM (SELECT user_id, COUNT(*) AS n FROM devices GROUP BY user_id) AS t GROUP BY n ORDER BY n;

-- 36. On which weekdays are sessions long?
-- wanted: useful
-- now: useful
SELECT EXTRACT(DOW FROM started) AS weekday, AVG(CASE WHEN seconds > 600 THEN 1.0 ELSE 0.0 END) AS long FROM sessions GROUP BY 1 ORDER BY 1;

-- 37. At which providers do users have their mail?
-- wanted: advice
-- now: advice
SELECT split_part(email, '@', 2) AS provider, COUNT(*) AS n FROM users GROUP BY 1 ORDER BY n DESC;

-- 38. On which day does a user come first, by month?
-- wanted: useful
-- now: useful
SELECT date_trunc('month', first) AS month, COUNT(*) AS users FROM (SELECT user_id, MIN(at) AS first FROM events GROUP BY user_id) AS t GROUP BY 1 ORDER BY 1;

-- 39. Versions by the month of their release.
-- wanted: useful
-- now: useful
SELECT date_trunc('month', r.released) AS month, COUNT(*) AS devices FROM devices d JOIN releases r ON r.version = d.version GROUP BY 1 ORDER BY 1;
