-- TPC-DS | mart | The questions of TPC-DS that read what customers bought, with customers as the people, in a smaller schema. A question that lists customers or their orders is refused, and stands a second time as what can be asked of all.

-- refused: 1. Customers who return more than the mean of their shop
WITH r AS (SELECT customer, shop, SUM(amount) AS total FROM till_back GROUP BY customer, shop) SELECT r.customer FROM r WHERE r.total > (SELECT AVG(total) * 1.2 FROM r AS r2 WHERE r.shop = r2.shop) ORDER BY r.customer LIMIT 100;

-- 1. How many customers return more than the mean of all, released
-- = WITH r AS (SELECT customer, SUM(amount) AS total FROM till_back GROUP BY customer) SELECT COUNT(*) FROM r WHERE total > (SELECT AVG(total) * 1.2 FROM r)
WITH r AS (SELECT customer, SUM(amount) AS total FROM till_back GROUP BY customer) SELECT COUNT(*) FROM r WHERE total > (SELECT LAPLACE(eps=20000) AVG(total) * 1.2 FROM r);

-- 2. Sales of web and mail by day of the week, one year against the next
WITH s AS (SELECT day, net FROM web UNION ALL SELECT day, net FROM mail), w AS (SELECT d.year, d.name, SUM(s.net) AS total FROM s JOIN dates AS d ON d.day = s.day GROUP BY d.year, d.name) SELECT a.name, ROUND(b.total / a.total, 2) AS ratio FROM w AS a JOIN w AS b ON a.name = b.name WHERE a.year = 2000 AND b.year = 2001 ORDER BY a.name;

-- 3. Discounts of a maker by year and brand
SELECT d.year, g.brand, SUM(t.discount) AS s FROM dates AS d JOIN till AS t ON d.day = t.day JOIN goods AS g ON t.good = g.id WHERE g.maker = 3 AND d.month = 11 GROUP BY d.year, g.brand ORDER BY d.year, s DESC, g.brand LIMIT 100;

-- 4. How many customers spend more on the web than at tills, from year to year
WITH y AS (SELECT customer, EXTRACT(YEAR FROM day) AS y, SUM(net) AS s, 'till' AS k FROM till GROUP BY customer, EXTRACT(YEAR FROM day) UNION ALL SELECT customer, EXTRACT(YEAR FROM day), SUM(net), 'web' FROM web GROUP BY customer, EXTRACT(YEAR FROM day)) SELECT COUNT(*) FROM y AS a JOIN y AS b ON a.customer = b.customer JOIN y AS c ON a.customer = c.customer JOIN y AS e ON a.customer = e.customer WHERE a.k = 'till' AND b.k = 'web' AND c.k = 'till' AND e.k = 'web' AND a.y = 2000 AND b.y = 2000 AND c.y = 2001 AND e.y = 2001 AND e.s * a.s > b.s * c.s;

-- 5. Sales and returns by channel and place, with subtotals
WITH u AS (SELECT 'till' AS channel, shop AS place, price AS sales, 0 AS back FROM till UNION ALL SELECT 'till', shop, 0, amount FROM till_back UNION ALL SELECT 'mail', centre, price, 0 FROM mail UNION ALL SELECT 'mail', centre, 0, amount FROM mail_back) SELECT channel, place, SUM(sales) AS s, SUM(back) AS b FROM u GROUP BY ROLLUP (channel, place);

-- 6. States whose customers buy goods far above the mean price of their category
SELECT c.state, COUNT(*) AS n FROM customers AS c JOIN till AS t ON c.id = t.customer JOIN dates AS d ON t.day = d.day JOIN goods AS g ON t.good = g.id WHERE d.year = 2001 AND d.month = 1 AND g.price > 1.2 * (SELECT AVG(j.price) FROM goods AS j WHERE j.category = g.category) GROUP BY c.state HAVING COUNT(*) >= 10 ORDER BY n, c.state;

-- 7. Means of goods that single educated men buy without promotion
SELECT g.code, AVG(t.quantity) AS a, AVG(t.list) AS b, AVG(t.coupon) AS c, AVG(t.price) AS e FROM till AS t JOIN demos AS m ON t.demo = m.id JOIN dates AS d ON t.day = d.day JOIN goods AS g ON t.good = g.id JOIN promos AS p ON t.promo = p.id WHERE m.gender = 'M' AND m.education = 'College' AND (p.email = 'N' OR p.event = 'N') AND d.year = 2000 GROUP BY g.code ORDER BY g.code LIMIT 100;

-- 8. Profit of shops in the places of preferred customers
SELECT s.name, SUM(t.profit) AS p FROM till AS t JOIN dates AS d ON t.day = d.day JOIN shops AS s ON t.shop = s.id WHERE d.quarter = 2 AND d.year = 2000 AND SUBSTRING(s.zip FROM 1 FOR 4) IN ('8000') GROUP BY s.name ORDER BY s.name;

-- 9. Means by bands of quantity, of one or another column
SELECT CASE WHEN (SELECT COUNT(*) FROM till WHERE quantity BETWEEN 1 AND 20) > 1000 THEN (SELECT AVG(discount) FROM till WHERE quantity BETWEEN 1 AND 20) ELSE (SELECT AVG(net) FROM till WHERE quantity BETWEEN 1 AND 20) END AS a, CASE WHEN (SELECT COUNT(*) FROM till WHERE quantity BETWEEN 21 AND 40) > 2000 THEN (SELECT AVG(discount) FROM till WHERE quantity BETWEEN 21 AND 40) ELSE (SELECT AVG(net) FROM till WHERE quantity BETWEEN 21 AND 40) END AS b FROM reasons WHERE id = 1;

-- 10. Customers with sales at tills and elsewhere, by what they are
SELECT m.gender, m.marital, COUNT(*) AS n, MIN(m.dependents) AS lo, MAX(m.dependents) AS hi, AVG(m.dependents) AS mean FROM customers AS c JOIN demos AS m ON m.id = c.demo WHERE c.state IN ('CA', 'GA') AND EXISTS (SELECT * FROM till AS t WHERE t.customer = c.id AND t.day >= DATE '2001-01-01') AND (EXISTS (SELECT * FROM web AS w WHERE w.customer = c.id) OR EXISTS (SELECT * FROM mail AS o WHERE o.customer = c.id)) GROUP BY m.gender, m.marital ORDER BY m.gender, m.marital;

-- refused: 11. Customers who spend more on the web than at tills
WITH y AS (SELECT customer, SUM(net) AS s FROM web GROUP BY customer) SELECT customer FROM y WHERE s > 100 ORDER BY customer LIMIT 100;

-- 12. Shares of each good in its class, on the web
SELECT code, class, s, s * 100 / SUM(s) OVER (PARTITION BY class) AS share FROM (SELECT g.code, g.class, SUM(w.price) AS s FROM web AS w JOIN goods AS g ON w.good = g.id WHERE g.category IN ('Books', 'Sports') AND w.day BETWEEN DATE '2000-02-22' AND DATE '2000-06-22' GROUP BY g.code, g.class) AS t ORDER BY class, code;

-- 13. Means under alternatives of what customers are
SELECT AVG(t.quantity) AS a, AVG(t.price) AS b, AVG(t.cost) AS c, SUM(t.cost) AS e FROM till AS t JOIN shops AS s ON s.id = t.shop JOIN demos AS m ON t.demo = m.id JOIN homes AS h ON t.home = h.id JOIN customers AS c ON t.customer = c.id JOIN dates AS d ON t.day = d.day WHERE d.year = 2001 AND ((m.marital = 'M' AND t.price BETWEEN 100 AND 150) OR (m.marital = 'S' AND t.price BETWEEN 50 AND 100 AND h.dependents = 1) OR (c.state IN ('OH', 'TX') AND t.profit BETWEEN 100 AND 200));

-- refused: 14. Goods that are sold in all three ways, by the people's rows
SELECT COUNT(*) FROM till AS t WHERE t.good IN (SELECT good FROM web INTERSECT SELECT good FROM mail);

-- 14. Sales of goods that sell in all three ways, by released sums
WITH w AS (SELECT good, SUM(quantity) AS q FROM web GROUP BY good), m AS (SELECT good, SUM(quantity) AS q FROM mail GROUP BY good) SELECT g.brand, COUNT(*) AS n FROM goods AS g JOIN w ON g.id = w.good JOIN m ON g.id = m.good WHERE w.q > 10 AND m.q > 10 GROUP BY g.brand;

-- 15. Sales by mail by place, for some places or large sums
SELECT c.zip, SUM(o.price) AS s FROM mail AS o JOIN customers AS c ON o.customer = c.id JOIN dates AS d ON o.day = d.day WHERE (c.zip IN ('80001', '80002', '80003') OR c.state IN ('CA', 'GA') OR o.price > 180) AND d.quarter = 2 AND d.year = 2001 GROUP BY c.zip HAVING COUNT(*) > 5 ORDER BY c.zip;

-- 16. Orders of several depots that were not returned
SELECT COUNT(DISTINCT o.number) AS n, SUM(o.net) AS s, SUM(o.profit) AS p FROM mail AS o JOIN centres AS z ON o.centre = z.id WHERE o.shipped BETWEEN DATE '2000-03-01' AND DATE '2000-09-01' AND z.county = 'Salem' AND EXISTS (SELECT * FROM mail AS o2 WHERE o2.customer = o.customer AND o2.number = o.number AND o2.depot <> o.depot) AND NOT EXISTS (SELECT * FROM mail_back AS b WHERE b.customer = o.customer AND b.number = o.number);

-- 17. Counts, means and deviations of sales and returns by good and state
SELECT g.category, s.state, COUNT(t.quantity) AS n, AVG(t.quantity) AS m, STDDEV_SAMP(t.quantity) AS d, COUNT(b.quantity) AS bn, AVG(b.quantity) AS bm FROM till AS t JOIN till_back AS b ON t.customer = b.customer AND t.good = b.good AND t.ticket = b.ticket JOIN shops AS s ON s.id = t.shop JOIN goods AS g ON g.id = t.good GROUP BY g.category, s.state ORDER BY g.category, s.state;

-- 18. Means of mail by place, with subtotals
SELECT c.country, c.state, AVG(o.quantity) AS a, AVG(o.list) AS b, AVG(o.coupon) AS e, AVG(c.born) AS y FROM mail AS o JOIN customers AS c ON o.customer = c.id JOIN demos AS m ON o.demo = m.id WHERE m.gender = 'F' AND c.month IN (1, 6, 8, 9, 12, 2) GROUP BY ROLLUP (c.country, c.state);

-- 19. Sales by brand and maker to customers from elsewhere
SELECT g.brand, g.maker, SUM(t.price) AS s FROM till AS t JOIN dates AS d ON d.day = t.day JOIN goods AS g ON t.good = g.id JOIN customers AS c ON t.customer = c.id JOIN shops AS h ON t.shop = h.id WHERE g.manager = 2 AND d.month = 11 AND c.zip <> h.zip GROUP BY g.brand, g.maker ORDER BY s DESC, g.brand, g.maker LIMIT 100;

-- 20. Shares of each good in its class, by mail
SELECT g.code, g.class, SUM(o.price) AS s, SUM(o.price) * 100 / SUM(SUM(o.price)) OVER (PARTITION BY g.class) AS share FROM mail AS o JOIN goods AS g ON o.good = g.id WHERE g.category IN ('Home', 'Music') AND o.day BETWEEN DATE '2000-02-22' AND DATE '2000-08-22' GROUP BY g.code, g.class ORDER BY g.class, g.code;

-- refused: 23. Sales to the best customers, who are known by the maximum of all
WITH s AS (SELECT customer, SUM(quantity * price) AS v FROM till GROUP BY customer), m AS (SELECT MAX(v) AS top FROM s) SELECT SUM(o.quantity) FROM mail AS o WHERE o.customer IN (SELECT s.customer FROM s, m WHERE s.v > 0.5 * m.top);

-- 23. Sales to customers above a released mean
-- = WITH s AS (SELECT customer, SUM(quantity * price) AS v FROM till GROUP BY customer) SELECT SUM(o.quantity) FROM mail AS o WHERE o.customer IN (SELECT s.customer FROM s WHERE s.v > (SELECT AVG(v) FROM s))
WITH s AS (SELECT customer, SUM(quantity * price) AS v FROM till GROUP BY customer) SELECT SUM(o.quantity) FROM mail AS o WHERE o.customer IN (SELECT s.customer FROM s WHERE s.v > (SELECT LAPLACE(eps=20000) AVG(v) FROM s));

-- refused: 24. Customers by name and shop
SELECT c.id, s.name, SUM(t.net) AS paid FROM till AS t JOIN customers AS c ON t.customer = c.id JOIN shops AS s ON t.shop = s.id GROUP BY c.id, s.name HAVING SUM(t.net) > 100;

-- 24. How many pairs of customer and shop pay much
SELECT name, COUNT(*) AS n FROM (SELECT t.customer, s.name, SUM(t.net) AS paid FROM till AS t JOIN shops AS s ON t.shop = s.id WHERE s.employees > 210 GROUP BY t.customer, s.name) AS p WHERE paid > 5000 GROUP BY name;

-- 25. Profit of goods that were bought, returned and bought again by mail
SELECT g.category, s.name, SUM(t.profit) AS p, SUM(b.loss) AS l, SUM(o.profit) AS q FROM till AS t JOIN till_back AS b ON t.customer = b.customer AND t.good = b.good AND t.ticket = b.ticket JOIN mail AS o ON b.customer = o.customer AND b.good = o.good JOIN shops AS s ON s.id = t.shop JOIN goods AS g ON g.id = t.good GROUP BY g.category, s.name HAVING COUNT(*) > 1;

-- 26. Means of goods by mail that were not promoted
SELECT g.code, AVG(o.quantity) AS a, AVG(o.list) AS b, AVG(o.coupon) AS c, AVG(o.price) AS e FROM mail AS o JOIN demos AS m ON o.demo = m.id JOIN dates AS d ON o.day = d.day JOIN goods AS g ON o.good = g.id JOIN promos AS p ON o.promo = p.id WHERE m.gender = 'F' AND m.marital = 'M' AND (p.email = 'N' OR p.event = 'N') AND d.year = 2000 GROUP BY g.code ORDER BY g.code;

-- 27. Means by good and state, with subtotals
SELECT g.category, s.state, GROUPING(s.state) AS total, AVG(t.quantity) AS a, AVG(t.list) AS b, AVG(t.price) AS e FROM till AS t JOIN demos AS m ON t.demo = m.id JOIN shops AS s ON t.shop = s.id JOIN goods AS g ON t.good = g.id WHERE m.education = 'College' AND s.state IN ('OH', 'TN') GROUP BY ROLLUP (g.category, s.state);

-- 28. Three bands of quantity side by side
SELECT * FROM (SELECT AVG(list) AS a1, COUNT(list) AS n1, COUNT(DISTINCT list) AS d1 FROM till WHERE quantity BETWEEN 0 AND 5 AND (list BETWEEN 8 AND 108 OR coupon BETWEEN 45 AND 145)) AS b1, (SELECT AVG(list) AS a2, COUNT(list) AS n2, COUNT(DISTINCT list) AS d2 FROM till WHERE quantity BETWEEN 6 AND 10 AND (list BETWEEN 90 AND 190 OR cost BETWEEN 30 AND 50)) AS b2;

-- 29. Quantities bought, returned and bought again
SELECT g.category, SUM(t.quantity) AS q, SUM(b.quantity) AS r, SUM(o.quantity) AS m FROM till AS t JOIN till_back AS b ON t.customer = b.customer AND t.good = b.good AND t.ticket = b.ticket JOIN mail AS o ON b.customer = o.customer AND b.good = o.good JOIN goods AS g ON g.id = t.good GROUP BY g.category;

-- refused: 30. Customers who return more than the mean of their state
WITH r AS (SELECT w.customer, c.state, SUM(w.amount) AS total FROM web_back AS w JOIN customers AS c ON w.customer = c.id GROUP BY w.customer, c.state) SELECT customer, total FROM r WHERE total > (SELECT AVG(total) * 1.2 FROM r AS r2 WHERE r.state = r2.state);

-- 31. Growth of tills against the web by state and quarter
WITH a AS (SELECT c.state, d.quarter AS q, SUM(t.price) AS s FROM till AS t JOIN customers AS c ON t.customer = c.id JOIN dates AS d ON t.day = d.day WHERE d.year = 2000 GROUP BY c.state, d.quarter), b AS (SELECT c.state, d.quarter AS q, SUM(w.price) AS s FROM web AS w JOIN customers AS c ON w.customer = c.id JOIN dates AS d ON w.day = d.day WHERE d.year = 2000 GROUP BY c.state, d.quarter) SELECT a1.state, b2.s / b1.s AS web, a2.s / a1.s AS till FROM a AS a1, a AS a2, b AS b1, b AS b2 WHERE a1.state = a2.state AND a1.state = b1.state AND a1.state = b2.state AND a1.q = 1 AND a2.q = 2 AND b1.q = 1 AND b2.q = 2;

-- refused: 32. Discounts far above the mean of their good
SELECT SUM(o.discount) AS s FROM mail AS o JOIN goods AS g ON g.id = o.good WHERE g.maker = 3 AND o.discount > (SELECT 1.3 * AVG(o2.discount) FROM mail AS o2 WHERE o2.good = g.id);

-- 33. Sales of makers of a category, of all three ways
SELECT maker, SUM(s) AS total FROM (SELECT g.maker, SUM(t.price) AS s FROM till AS t JOIN goods AS g ON t.good = g.id WHERE g.category = 'Books' GROUP BY g.maker UNION ALL SELECT g.maker, SUM(w.price) FROM web AS w JOIN goods AS g ON w.good = g.id WHERE g.category = 'Books' GROUP BY g.maker UNION ALL SELECT g.maker, SUM(o.price) FROM mail AS o JOIN goods AS g ON o.good = g.id WHERE g.category = 'Books' GROUP BY g.maker) AS u GROUP BY maker ORDER BY total;

-- refused: 34. Customers with tickets of many lines
SELECT customer, ticket, COUNT(*) AS n FROM till GROUP BY customer, ticket HAVING COUNT(*) BETWEEN 2 AND 20;

-- 34. How many tickets have how many lines
SELECT n, COUNT(*) AS tickets FROM (SELECT t.customer, t.ticket, COUNT(*) AS n FROM till AS t JOIN homes AS h ON t.home = h.id WHERE h.potential IN ('>10000', 'Unknown') AND h.vehicles > 0 GROUP BY t.customer, t.ticket) AS x GROUP BY n;

-- 35. Customers with sales at tills and elsewhere, by place and kind
SELECT c.state, m.gender, m.marital, COUNT(*) AS n, AVG(m.dependents) AS a, MAX(m.dependents) AS b, SUM(m.dependents) AS s FROM customers AS c JOIN demos AS m ON m.id = c.demo WHERE EXISTS (SELECT * FROM till AS t JOIN dates AS d ON t.day = d.day WHERE t.customer = c.id AND d.year = 2000) AND (EXISTS (SELECT * FROM web AS w WHERE w.customer = c.id) OR EXISTS (SELECT * FROM mail AS o WHERE o.customer = c.id)) GROUP BY c.state, m.gender, m.marital;

-- 36. Margins by category and class, with ranks
SELECT category, class, margin, RANK() OVER (PARTITION BY category ORDER BY margin) AS place FROM (SELECT g.category, g.class, SUM(t.profit) / SUM(t.net) AS margin FROM till AS t JOIN goods AS g ON g.id = t.good JOIN shops AS s ON s.id = t.shop WHERE s.state IN ('OH', 'TN') GROUP BY g.category, g.class) AS x ORDER BY category, place;

-- 38. How many customers bought in all three ways
SELECT COUNT(*) FROM customers AS c WHERE c.id IN (SELECT customer FROM till) AND c.id IN (SELECT customer FROM web) AND c.id IN (SELECT customer FROM mail);

-- 38. The same by INTERSECT of people's rows
SELECT COUNT(*) FROM (SELECT customer FROM till INTERSECT SELECT customer FROM web INTERSECT SELECT customer FROM mail) AS x;

-- 40. Sales before and after a day, less returns, by state of the depot
SELECT p.state, g.code, SUM(CASE WHEN o.day < DATE '2000-09-11' THEN o.price - COALESCE(b.amount, 0) ELSE 0 END) AS before, SUM(CASE WHEN o.day >= DATE '2000-09-11' THEN o.price - COALESCE(b.amount, 0) ELSE 0 END) AS after FROM mail AS o LEFT OUTER JOIN mail_back AS b ON o.customer = b.customer AND o.number = b.number AND o.good = b.good JOIN depots AS p ON o.depot = p.id JOIN goods AS g ON g.id = o.good WHERE g.price BETWEEN 10 AND 30 GROUP BY p.state, g.code ORDER BY p.state, g.code;

-- 42. Discounts by year and category in a month
SELECT d.year, g.category, SUM(t.discount) AS s FROM dates AS d JOIN till AS t ON d.day = t.day JOIN goods AS g ON t.good = g.id WHERE g.manager = 1 AND d.month = 11 AND d.year = 2000 GROUP BY d.year, g.category ORDER BY s DESC, d.year, g.category;

-- 43. Sales of each day of the week side by side, by shop
SELECT s.name, SUM(CASE WHEN d.name = 'Sunday' THEN t.price END) AS sun, SUM(CASE WHEN d.name = 'Monday' THEN t.price END) AS mon, SUM(CASE WHEN d.name = 'Friday' THEN t.price END) AS fri FROM dates AS d JOIN till AS t ON d.day = t.day JOIN shops AS s ON s.id = t.shop WHERE d.year = 2000 GROUP BY s.name ORDER BY s.name;

-- 44. The best and the worst goods of a shop, side by side
WITH m AS (SELECT good, AVG(profit) AS a FROM till WHERE shop = 4 GROUP BY good HAVING COUNT(*) > 0), r AS (SELECT good, RANK() OVER (ORDER BY a) AS up, RANK() OVER (ORDER BY a DESC) AS down FROM m) SELECT x.up, g1.code AS worst, g2.code AS best FROM r AS x JOIN r AS y ON x.up = y.down JOIN goods AS g1 ON g1.id = x.good JOIN goods AS g2 ON g2.id = y.good WHERE x.up < 4;

-- 45. Sales on the web by place, for some places or some goods
SELECT c.zip, SUM(w.price) AS s FROM web AS w JOIN customers AS c ON w.customer = c.id JOIN goods AS g ON w.good = g.id JOIN dates AS d ON w.day = d.day WHERE (c.zip IN ('80001', '80002', '80005') OR g.id IN (SELECT id FROM goods WHERE id IN (2, 3, 5, 7, 11))) AND d.year = 2001 GROUP BY c.zip HAVING COUNT(*) > 5;

-- refused: 46. Tickets bought away from home
SELECT c.id, t.ticket, SUM(t.coupon) AS s FROM till AS t JOIN customers AS c ON t.customer = c.id JOIN shops AS h ON t.shop = h.id WHERE c.city <> h.city GROUP BY c.id, t.ticket;

-- 46. Coupons and profits of tickets bought away from home
SELECT AVG(s) AS coupons, AVG(p) AS profits FROM (SELECT t.customer, t.ticket, SUM(t.coupon) AS s, SUM(t.profit) AS p FROM till AS t JOIN customers AS c ON t.customer = c.id JOIN shops AS h ON t.shop = h.id WHERE c.city <> h.city GROUP BY t.customer, t.ticket) AS x;

-- 47. Months that differ from the mean of their year, with the months beside them
WITH v AS (SELECT g.category, d.year, d.month, SUM(t.price) AS s FROM till AS t JOIN goods AS g ON t.good = g.id JOIN dates AS d ON t.day = d.day GROUP BY g.category, d.year, d.month), w AS (SELECT category, year, month, s, AVG(s) OVER (PARTITION BY category, year) AS mean, LAG(s) OVER (PARTITION BY category ORDER BY year, month) AS prev, LEAD(s) OVER (PARTITION BY category ORDER BY year, month) AS next FROM v) SELECT * FROM w WHERE year = 2000 AND mean > 0 AND ABS(s - mean) / mean > 0.01 ORDER BY s - mean, category LIMIT 100;

-- 48. A sum of quantities under alternatives
SELECT SUM(t.quantity) AS q FROM till AS t JOIN shops AS s ON s.id = t.shop JOIN dates AS d ON t.day = d.day JOIN demos AS m ON m.id = t.demo JOIN customers AS c ON t.customer = c.id WHERE d.year = 2000 AND ((m.marital = 'M' AND m.education = '4 yr Degree' AND t.price BETWEEN 100 AND 150) OR (m.marital = 'D' AND t.price BETWEEN 50 AND 100)) AND ((c.state IN ('CA', 'OH') AND t.profit BETWEEN 0 AND 2000) OR (c.state = 'TX' AND t.profit BETWEEN 150 AND 3000));

-- 49. The worst ratios of returns, ranked, of two ways
SELECT 'web' AS channel, good, ratio, place FROM (SELECT good, ratio, RANK() OVER (ORDER BY ratio) AS place FROM (SELECT w.good, SUM(COALESCE(b.quantity, 0)) * 1.0 / SUM(w.quantity) AS ratio FROM web AS w LEFT OUTER JOIN web_back AS b ON w.customer = b.customer AND w.number = b.number AND w.good = b.good WHERE w.net > 0 GROUP BY w.good HAVING COUNT(*) > 0 AND SUM(COALESCE(b.quantity, 0)) > 20) AS x) AS y WHERE place <= 3;

-- 50. Returns of shops by how long they took
SELECT s.name, SUM(CASE WHEN b.day - t.day <= 30 THEN 1 ELSE 0 END) AS d30, SUM(CASE WHEN b.day - t.day > 30 AND b.day - t.day <= 60 THEN 1 ELSE 0 END) AS d60, SUM(CASE WHEN b.day - t.day > 60 THEN 1 ELSE 0 END) AS more FROM till AS t JOIN till_back AS b ON t.ticket = b.ticket AND t.good = b.good AND t.customer = b.customer JOIN shops AS s ON t.shop = s.id GROUP BY s.name ORDER BY s.name;

-- 51. Running sums of web and tills, compared by day
WITH w AS (SELECT d.year, d.month, SUM(x.price) AS s FROM web AS x JOIN dates AS d ON x.day = d.day GROUP BY d.year, d.month), t AS (SELECT d.year, d.month, SUM(x.price) AS s FROM till AS x JOIN dates AS d ON x.day = d.day GROUP BY d.year, d.month), r AS (SELECT w.year, w.month, SUM(w.s) OVER (ORDER BY w.year, w.month) AS web, SUM(t.s) OVER (ORDER BY t.year, t.month) AS till FROM w FULL OUTER JOIN t ON w.year = t.year AND w.month = t.month) SELECT * FROM r WHERE till > web ORDER BY year, month;

-- 52. Sales by brand in a month
SELECT d.year, g.brand, SUM(t.price) AS s FROM dates AS d JOIN till AS t ON d.day = t.day JOIN goods AS g ON t.good = g.id WHERE g.manager = 1 AND d.month = 12 AND d.year = 2000 GROUP BY d.year, g.brand ORDER BY d.year, s DESC, g.brand;

-- 53. Makers whose quarter differs from their mean quarter
SELECT * FROM (SELECT maker, quarter, s, AVG(s) OVER (PARTITION BY maker) AS mean FROM (SELECT g.maker, d.quarter, SUM(t.price) AS s FROM goods AS g JOIN till AS t ON t.good = g.id JOIN dates AS d ON t.day = d.day WHERE d.year = 2000 AND ((g.category IN ('Books', 'Home') AND g.colour = 'blue') OR (g.category = 'Music' AND g.colour = 'red')) GROUP BY g.maker, d.quarter HAVING COUNT(*) > 0) AS x) AS y WHERE CASE WHEN mean > 0 THEN ABS(s - mean) / mean ELSE 0 END > 0.1;

-- 54. How many customers fall into which band of revenue
SELECT CAST(r / 2000 AS INTEGER) AS band, COUNT(*) AS n FROM (SELECT c.id, SUM(t.price) AS r FROM customers AS c JOIN till AS t ON t.customer = c.id WHERE c.id IN (SELECT customer FROM web AS w JOIN goods AS g ON w.good = g.id WHERE g.category = 'Home') GROUP BY c.id) AS x GROUP BY band HAVING COUNT(*) > 1 ORDER BY band;

-- 55. Sales by brand of a manager
SELECT g.brand, SUM(t.price) AS s FROM till AS t JOIN goods AS g ON t.good = g.id JOIN dates AS d ON d.day = t.day WHERE g.manager = 2 AND d.month = 11 AND d.year = 2000 GROUP BY g.brand ORDER BY s DESC, g.brand;

-- 56. Sales of goods of some colours, of all three ways
SELECT code, SUM(s) AS total FROM (SELECT g.code, SUM(t.price) AS s FROM till AS t JOIN goods AS g ON t.good = g.id JOIN customers AS c ON t.customer = c.id WHERE g.colour IN ('blue', 'pale') AND c.time_zone = -5 GROUP BY g.code UNION ALL SELECT g.code, SUM(w.price) FROM web AS w JOIN goods AS g ON w.good = g.id JOIN customers AS c ON w.customer = c.id WHERE g.colour IN ('blue', 'pale') AND c.time_zone = -5 GROUP BY g.code) AS u GROUP BY code ORDER BY total, code;

-- 57. Months of centres that differ from their year
WITH v AS (SELECT z.name, d.year, d.month, SUM(o.price) AS s FROM mail AS o JOIN dates AS d ON o.day = d.day JOIN centres AS z ON z.id = o.centre GROUP BY z.name, d.year, d.month HAVING COUNT(*) > 0) SELECT a.name, a.month, a.s, b.s AS prev FROM v AS a JOIN v AS b ON a.name = b.name AND a.year = b.year AND a.month = b.month + 1 WHERE a.year = 2000;

-- 58. Goods that sell alike in three ways in a week
WITH a AS (SELECT good, SUM(price) AS s FROM till WHERE day BETWEEN DATE '2000-02-01' AND DATE '2000-06-01' GROUP BY good HAVING COUNT(*) > 0), b AS (SELECT good, SUM(price) AS s FROM mail WHERE day BETWEEN DATE '2000-02-01' AND DATE '2000-06-01' GROUP BY good HAVING COUNT(*) > 0), c AS (SELECT good, SUM(price) AS s FROM web WHERE day BETWEEN DATE '2000-02-01' AND DATE '2000-06-01' GROUP BY good HAVING COUNT(*) > 0) SELECT a.good, (a.s + b.s + c.s) / 3.03 AS mean FROM a, b, c WHERE a.good = b.good AND b.good = c.good AND a.s BETWEEN 0.5 * b.s AND 2 * b.s ORDER BY a.good;

-- 59. Sales of each day of the week, one half year against the next
WITH w AS (SELECT d.week, t.shop, SUM(CASE WHEN d.name = 'Sunday' THEN t.price END) AS sun, SUM(CASE WHEN d.name = 'Monday' THEN t.price END) AS mon FROM till AS t JOIN dates AS d ON d.day = t.day GROUP BY d.week, t.shop) SELECT s.name, a.week, a.sun / b.sun AS sun FROM w AS a JOIN w AS b ON a.shop = b.shop AND a.week = b.week - 52 JOIN shops AS s ON s.id = a.shop WHERE a.week BETWEEN 10 AND 12 AND a.sun > 5 AND b.sun > 5;

-- 60. Sales of goods of a category, of all three ways
SELECT code, SUM(s) AS total FROM (SELECT g.code, SUM(t.price) AS s FROM till AS t JOIN goods AS g ON t.good = g.id WHERE g.category = 'Music' GROUP BY g.code UNION ALL SELECT g.code, SUM(w.price) FROM web AS w JOIN goods AS g ON w.good = g.id WHERE g.category = 'Music' GROUP BY g.code UNION ALL SELECT g.code, SUM(o.price) FROM mail AS o JOIN goods AS g ON o.good = g.id WHERE g.category = 'Music' GROUP BY g.code) AS u GROUP BY code ORDER BY code, total;

-- 61. The share of promoted sales
SELECT promotions, total, promotions / total * 100 AS share FROM (SELECT SUM(t.price) AS promotions FROM till AS t JOIN promos AS p ON t.promo = p.id JOIN goods AS g ON t.good = g.id WHERE (p.email = 'Y' OR p.event = 'Y') AND g.category = 'Books') AS a, (SELECT SUM(t.price) AS total FROM till AS t JOIN goods AS g ON t.good = g.id WHERE g.category = 'Books') AS b;

-- 62. Shipments on the web by how long they took
SELECT p.name, y.kind, s.name AS site, SUM(CASE WHEN w.shipped - w.day <= 30 THEN 1 ELSE 0 END) AS d30, SUM(CASE WHEN w.shipped - w.day > 30 AND w.shipped - w.day <= 60 THEN 1 ELSE 0 END) AS d60, SUM(CASE WHEN w.shipped - w.day > 60 THEN 1 ELSE 0 END) AS more FROM web AS w JOIN depots AS p ON w.depot = p.id JOIN ways AS y ON w.way = y.id JOIN sites AS s ON w.site = s.id GROUP BY p.name, y.kind, s.name;

-- 63. Managers whose month differs from their mean month
SELECT * FROM (SELECT g.manager, SUM(t.price) AS s, AVG(SUM(t.price)) OVER (PARTITION BY g.manager) AS mean FROM goods AS g JOIN till AS t ON t.good = g.id JOIN dates AS d ON t.day = d.day WHERE d.year = 2000 GROUP BY g.manager, d.month) AS x WHERE CASE WHEN mean > 0 THEN ABS(s - mean) / mean ELSE 0 END > 0.1 ORDER BY manager, mean, s;

-- 65. Goods that sell far below the mean of their shop
SELECT s.name, g.code, t.r FROM shops AS s, goods AS g, (SELECT shop, AVG(r) AS a FROM (SELECT shop, good, SUM(price) AS r FROM till GROUP BY shop, good HAVING COUNT(*) > 0) AS x GROUP BY shop) AS m, (SELECT shop, good, SUM(price) AS r FROM till GROUP BY shop, good HAVING COUNT(*) > 0) AS t WHERE m.shop = t.shop AND t.r <= 0.99 * m.a AND s.id = t.shop AND g.id = t.good;

-- 66. Sales by depot and month, side by side
SELECT p.name, SUM(CASE WHEN d.month = 1 THEN x.price * x.quantity ELSE 0 END) AS jan, SUM(CASE WHEN d.month = 2 THEN x.price * x.quantity ELSE 0 END) AS feb, SUM(CASE WHEN d.month = 3 THEN x.price * x.quantity ELSE 0 END) AS mar FROM web AS x JOIN depots AS p ON x.depot = p.id JOIN dates AS d ON x.day = d.day JOIN times AS h ON x.time = h.id JOIN ways AS y ON x.way = y.id WHERE d.year = 2001 AND h.hour BETWEEN 8 AND 20 AND y.carrier IN ('DHL', 'BARIAN') GROUP BY p.name;

-- 67. The best shops of each category, with subtotals
SELECT * FROM (SELECT category, shop, s, RANK() OVER (PARTITION BY category ORDER BY s DESC) AS place FROM (SELECT g.category, t.shop, SUM(t.price * t.quantity) AS s FROM till AS t JOIN goods AS g ON t.good = g.id GROUP BY ROLLUP (g.category, t.shop)) AS x) AS y WHERE place <= 3;

-- 68. Means of tickets bought away from home on the first days of months
SELECT AVG(e) AS price, AVG(l) AS list FROM (SELECT t.customer, t.ticket, SUM(t.price) AS e, SUM(t.list) AS l FROM till AS t JOIN customers AS c ON t.customer = c.id JOIN shops AS h ON t.shop = h.id JOIN homes AS m ON t.home = m.id WHERE EXTRACT(DAY FROM t.day) BETWEEN 1 AND 2 AND (m.dependents = 4 OR m.vehicles = 3) AND c.city <> h.city GROUP BY t.customer, t.ticket) AS x;

-- 69. Customers with sales at tills and nowhere else, by what they are
SELECT m.gender, m.marital, m.education, COUNT(*) AS n FROM customers AS c JOIN demos AS m ON m.id = c.demo WHERE c.state IN ('GA', 'TX') AND EXISTS (SELECT * FROM till AS t WHERE t.customer = c.id) AND NOT EXISTS (SELECT * FROM web AS w WHERE w.customer = c.id AND w.day < DATE '2000-06-01') AND NOT EXISTS (SELECT * FROM mail AS o WHERE o.customer = c.id AND o.day < DATE '2000-06-01') GROUP BY m.gender, m.marital, m.education;

-- 70. Profit by state and county, with ranks of subtotals
SELECT s, state, county, RANK() OVER (PARTITION BY level ORDER BY s DESC) AS place FROM (SELECT SUM(t.profit) AS s, h.state, h.county, GROUPING(h.state) + GROUPING(h.county) AS level FROM till AS t JOIN shops AS h ON h.id = t.shop GROUP BY ROLLUP (h.state, h.county)) AS x;

-- 71. Sales of a manager by brand, hour and minute, at meals
SELECT g.brand, h.hour, h.minute, SUM(x.price) AS s FROM goods AS g JOIN (SELECT price, good, time FROM web UNION ALL SELECT price, good, time FROM mail UNION ALL SELECT price, good, time FROM till) AS x ON x.good = g.id JOIN times AS h ON x.time = h.id WHERE g.manager = 1 AND h.meal IN ('breakfast', 'dinner') GROUP BY g.brand, h.hour, h.minute;

-- 73. How many tickets of some homes have several lines
SELECT COUNT(*) AS n FROM (SELECT t.customer, t.ticket, COUNT(*) AS k FROM till AS t JOIN homes AS h ON t.home = h.id WHERE h.potential = '>10000' AND h.vehicles > 0 GROUP BY t.customer, t.ticket) AS x WHERE k BETWEEN 1 AND 5;

-- 74. How many customers spend relatively more on the web in the second year
WITH y AS (SELECT customer, SUM(CASE WHEN day < DATE '2001-01-01' THEN net ELSE 0 END) AS a, SUM(CASE WHEN day >= DATE '2001-01-01' THEN net ELSE 0 END) AS b FROM till GROUP BY customer), w AS (SELECT customer, SUM(CASE WHEN day < DATE '2001-01-01' THEN net ELSE 0 END) AS a, SUM(CASE WHEN day >= DATE '2001-01-01' THEN net ELSE 0 END) AS b FROM web GROUP BY customer) SELECT COUNT(*) FROM y JOIN w ON y.customer = w.customer WHERE y.a > 0 AND w.a > 0 AND w.b / w.a > y.b / y.a;

-- 75. Sales less returns by brand, one year against the next
WITH s AS (SELECT d.year, g.brand, SUM(t.quantity - COALESCE(b.quantity, 0)) AS q, SUM(t.price - COALESCE(b.amount, 0)) AS a FROM till AS t JOIN goods AS g ON g.id = t.good JOIN dates AS d ON d.day = t.day LEFT JOIN till_back AS b ON t.customer = b.customer AND t.ticket = b.ticket AND t.good = b.good WHERE g.category = 'Books' GROUP BY d.year, g.brand) SELECT x.brand, ROUND(x.q / 3000.0) AS now, ROUND(y.q / 3000.0) AS before, x.a - y.a AS change FROM s AS x JOIN s AS y ON x.brand = y.brand WHERE x.year = 2001 AND y.year = 2000 ORDER BY x.brand;

-- 76. Sales of all three ways by year, quarter and category
SELECT channel, year, quarter, category, COUNT(*) AS n, SUM(price) AS s FROM (SELECT 'till' AS channel, d.year, d.quarter, g.category, t.price FROM till AS t JOIN goods AS g ON t.good = g.id JOIN dates AS d ON t.day = d.day UNION ALL SELECT 'web', d.year, d.quarter, g.category, w.price FROM web AS w JOIN goods AS g ON w.good = g.id JOIN dates AS d ON w.day = d.day UNION ALL SELECT 'mail', d.year, d.quarter, g.category, o.price FROM mail AS o JOIN goods AS g ON o.good = g.id JOIN dates AS d ON o.day = d.day) AS x GROUP BY channel, year, quarter, category;

-- 77. Sales and returns by channel and place, from released lists
WITH a AS (SELECT shop, SUM(price) AS sales, SUM(profit) AS profit FROM till GROUP BY shop), b AS (SELECT shop, SUM(amount) AS back, SUM(loss) AS loss FROM till_back GROUP BY shop) SELECT a.shop, sales, COALESCE(back, 0) AS back, profit - COALESCE(loss, 0) AS net FROM a LEFT JOIN b ON a.shop = b.shop;

-- 78. Sales that were not returned, by year
SELECT d.year, SUM(t.quantity) AS q, SUM(t.cost) AS c, SUM(t.price) AS p FROM till AS t LEFT JOIN till_back AS b ON b.customer = t.customer AND b.ticket = t.ticket AND b.good = t.good JOIN dates AS d ON t.day = d.day WHERE b.ticket IS NULL GROUP BY d.year;

-- 79. Coupons and profits of tickets of Mondays
SELECT AVG(a) AS coupons, AVG(p) AS profits FROM (SELECT t.customer, t.ticket, SUM(t.coupon) AS a, SUM(t.profit) AS p FROM till AS t JOIN dates AS d ON t.day = d.day JOIN shops AS s ON t.shop = s.id JOIN homes AS h ON t.home = h.id WHERE (h.dependents = 5 OR h.vehicles > 2) AND d.name = 'Monday' AND s.employees BETWEEN 200 AND 295 GROUP BY t.customer, t.ticket) AS x;

-- 80. Sales, returns and profit by channel and place, with subtotals
SELECT channel, place, SUM(sales) AS s, SUM(back) AS b, SUM(profit) AS p FROM (SELECT 'till' AS channel, s.name AS place, SUM(t.price) AS sales, SUM(COALESCE(b.amount, 0)) AS back, SUM(t.profit - COALESCE(b.loss, 0)) AS profit FROM till AS t LEFT OUTER JOIN till_back AS b ON t.customer = b.customer AND t.good = b.good AND t.ticket = b.ticket JOIN shops AS s ON t.shop = s.id JOIN promos AS p ON t.promo = p.id WHERE p.event = 'N' GROUP BY s.name UNION ALL SELECT 'web', s.name, SUM(w.price), SUM(COALESCE(b.amount, 0)), SUM(w.profit - COALESCE(b.loss, 0)) FROM web AS w LEFT OUTER JOIN web_back AS b ON w.customer = b.customer AND w.good = b.good AND w.number = b.number JOIN sites AS s ON w.site = s.id GROUP BY s.name) AS x GROUP BY ROLLUP (channel, place);

-- refused: 81. Customers who return more than the mean of their state, by mail
WITH r AS (SELECT b.customer, c.state, SUM(b.amount) AS total FROM mail_back AS b JOIN customers AS c ON b.customer = c.id GROUP BY b.customer, c.state) SELECT customer FROM r WHERE total > (SELECT AVG(total) * 1.2 FROM r AS r2 WHERE r.state = r2.state);

-- 83. Returned quantities of goods, of all three ways
WITH a AS (SELECT good, SUM(quantity) AS q FROM till_back GROUP BY good HAVING COUNT(*) > 0), b AS (SELECT good, SUM(quantity) AS q FROM mail_back GROUP BY good HAVING COUNT(*) > 0), c AS (SELECT good, SUM(quantity) AS q FROM web_back GROUP BY good HAVING COUNT(*) > 0) SELECT a.good, a.q, a.q * 1.0 / (a.q + b.q + c.q) / 3.0 * 100 AS share FROM a, b, c WHERE a.good = b.good AND a.good = c.good AND a.q + b.q + c.q > 0;

-- refused: 84. Customers of a city by income
SELECT c.id, c.zip FROM customers AS c JOIN homes AS h ON h.id = c.home JOIN bands AS b ON b.id = h.band WHERE c.city = 'city 3' AND b.low >= 20000 AND b.high <= 70000 ORDER BY c.id;

-- 85. Means of returns by reason, under alternatives
SELECT r.text, AVG(w.quantity) AS q, AVG(b.amount) AS a, AVG(b.loss) AS l FROM web AS w JOIN web_back AS b ON w.customer = b.customer AND w.good = b.good AND w.number = b.number JOIN customers AS c ON c.id = b.customer JOIN demos AS m ON m.id = c.demo JOIN reasons AS r ON r.id = b.reason WHERE (m.marital = 'M' AND w.price BETWEEN 50 AND 150) OR (c.state = 'OH' AND w.profit BETWEEN 0 AND 2000) GROUP BY r.text ORDER BY r.text;

-- 86. Sales on the web by category and class, with ranks of subtotals
SELECT s, category, class, level, RANK() OVER (PARTITION BY level ORDER BY s DESC) AS place FROM (SELECT SUM(w.net) AS s, g.category, g.class, GROUPING(g.category) + GROUPING(g.class) AS level FROM web AS w JOIN goods AS g ON g.id = w.good GROUP BY ROLLUP (g.category, g.class)) AS x;

-- 87. How many customers bought at tills and not elsewhere
SELECT COUNT(*) FROM customers AS c WHERE c.id IN (SELECT customer FROM till) AND c.id NOT IN (SELECT customer FROM mail WHERE day < DATE '2000-06-01') AND c.id NOT IN (SELECT customer FROM web WHERE day < DATE '2000-06-01');

-- 88. Counts of half hours side by side
SELECT * FROM (SELECT COUNT(*) AS a FROM till AS t JOIN homes AS h ON t.home = h.id JOIN times AS m ON t.time = m.id JOIN shops AS s ON t.shop = s.id WHERE m.hour = 8 AND m.minute >= 30 AND h.dependents = 2 AND s.name = 'ese') AS x, (SELECT COUNT(*) AS b FROM till AS t JOIN homes AS h ON t.home = h.id JOIN times AS m ON t.time = m.id WHERE m.hour = 9 AND m.minute < 30 AND h.dependents <= 4) AS y, (SELECT COUNT(*) AS c FROM till AS t JOIN times AS m ON t.time = m.id WHERE m.hour = 9 AND m.minute >= 30) AS z;

-- 89. Months of a class and shop that differ from their mean month
SELECT * FROM (SELECT g.category, s.name, d.month, SUM(t.price) AS v, AVG(SUM(t.price)) OVER (PARTITION BY g.category, s.name) AS mean FROM goods AS g JOIN till AS t ON t.good = g.id JOIN dates AS d ON t.day = d.day JOIN shops AS s ON t.shop = s.id WHERE d.year = 2000 AND g.category IN ('Books', 'Home') GROUP BY g.category, s.name, d.month HAVING COUNT(*) > 0) AS x WHERE mean <> 0 AND ABS(v - mean) / mean > 0.1;

-- 90. The ratio of mornings to evenings on the web
SELECT CAST(a AS DECIMAL(15, 4)) / CAST(b AS DECIMAL(15, 4)) AS ratio FROM (SELECT COUNT(*) AS a FROM web AS w JOIN homes AS h ON w.home = h.id JOIN times AS m ON w.time = m.id WHERE m.hour BETWEEN 8 AND 9 AND h.dependents < 6) AS x, (SELECT COUNT(*) AS b FROM web AS w JOIN homes AS h ON w.home = h.id JOIN times AS m ON w.time = m.id WHERE m.hour BETWEEN 19 AND 20 AND h.dependents < 6) AS y;

-- 91. Losses of centres by what customers are
SELECT z.name, z.manager, SUM(b.loss) AS l FROM centres AS z JOIN mail_back AS b ON b.centre = z.id JOIN customers AS c ON b.customer = c.id JOIN demos AS m ON m.id = c.demo JOIN homes AS h ON h.id = c.home WHERE ((m.marital = 'M' AND m.education = 'Unknown') OR (m.marital = 'W' AND m.education = 'College')) AND h.potential LIKE 'Unknown%' AND c.time_zone = -6 GROUP BY z.name, z.manager ORDER BY l DESC, z.name;

-- refused: 92. Discounts on the web far above the mean of their good
SELECT SUM(w.discount) AS s FROM web AS w JOIN goods AS g ON g.id = w.good WHERE g.maker = 4 AND w.discount > (SELECT 1.3 * AVG(w2.discount) FROM web AS w2 WHERE w2.good = g.id);

-- refused: 93. Sales to each customer, less what came back for a reason
SELECT customer, SUM(net) AS s FROM till GROUP BY customer ORDER BY s, customer LIMIT 100;

-- 93. Sales less what came back for a reason
SELECT SUM(CASE WHEN b.quantity IS NOT NULL THEN (t.quantity - b.quantity) * t.price ELSE t.quantity * t.price END) AS s FROM till AS t LEFT OUTER JOIN till_back AS b ON b.customer = t.customer AND b.good = t.good AND b.ticket = t.ticket AND b.reason = 1;

-- 94. Orders on the web of several depots that were not returned
SELECT COUNT(DISTINCT w.number) AS n, SUM(w.freight) AS f, SUM(w.profit) AS p FROM web AS w JOIN sites AS s ON w.site = s.id WHERE s.company = 'pri' AND w.shipped BETWEEN DATE '2000-02-01' AND DATE '2000-09-01' AND EXISTS (SELECT * FROM web AS w2 WHERE w2.customer = w.customer AND w2.number = w.number AND w2.depot <> w.depot) AND NOT EXISTS (SELECT * FROM web_back AS b WHERE b.customer = w.customer AND b.number = w.number);

-- 95. Orders on the web of several depots that were returned
WITH m AS (SELECT a.customer, a.number FROM web AS a, web AS b WHERE a.customer = b.customer AND a.number = b.number AND a.depot <> b.depot) SELECT COUNT(DISTINCT w.number) AS n, SUM(w.freight) AS f FROM web AS w WHERE w.number IN (SELECT m.number FROM m WHERE m.customer = w.customer) AND w.number IN (SELECT b.number FROM web_back AS b WHERE b.customer = w.customer);

-- 96. A count of half an hour
SELECT COUNT(*) AS n FROM till AS t JOIN homes AS h ON t.home = h.id JOIN times AS m ON t.time = m.id JOIN shops AS s ON t.shop = s.id WHERE m.hour = 20 AND m.minute >= 30 AND h.dependents >= 2 AND s.employees > 200;

-- 97. Pairs of customer and good at tills, by mail, and both
WITH t AS (SELECT customer, good FROM till GROUP BY customer, good), o AS (SELECT customer, good FROM mail GROUP BY customer, good) SELECT SUM(CASE WHEN t.customer IS NOT NULL AND o.customer IS NULL THEN 1 ELSE 0 END) AS till, SUM(CASE WHEN t.customer IS NULL AND o.customer IS NOT NULL THEN 1 ELSE 0 END) AS mail, SUM(CASE WHEN t.customer IS NOT NULL AND o.customer IS NOT NULL THEN 1 ELSE 0 END) AS both_ways FROM t FULL OUTER JOIN o ON t.customer = o.customer AND t.good = o.good;

-- 98. Shares of each good in its class, at tills
SELECT g.code, g.class, SUM(t.price) AS s, SUM(t.price) * 100 / SUM(SUM(t.price)) OVER (PARTITION BY g.class) AS share FROM till AS t JOIN goods AS g ON t.good = g.id WHERE g.category IN ('Home', 'Music') AND t.day BETWEEN DATE '2000-02-22' AND DATE '2000-12-22' GROUP BY g.code, g.class ORDER BY g.class, g.code;

-- 99. Shipments by mail by how long they took
SELECT p.name, y.kind, z.name AS centre, SUM(CASE WHEN o.shipped - o.day <= 30 THEN 1 ELSE 0 END) AS d30, SUM(CASE WHEN o.shipped - o.day > 30 AND o.shipped - o.day <= 90 THEN 1 ELSE 0 END) AS d90, SUM(CASE WHEN o.shipped - o.day > 90 THEN 1 ELSE 0 END) AS more FROM mail AS o JOIN depots AS p ON o.depot = p.id JOIN ways AS y ON o.way = y.id JOIN centres AS z ON o.centre = z.id GROUP BY p.name, y.kind, z.name;
