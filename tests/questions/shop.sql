-- A shop: customers, their orders, the items of orders, reviews; products are public.
--
-- customers(id, name, country, city, birthday, signed_up, channel, newsletter, referrer)
-- orders(id, customer_id, ordered_at, shipped_at, channel, status, total, coupon)
-- items(order_id, product_id, quantity, price)
-- reviews(customer_id, product_id, stars, written_on)
-- products(id, name, category, list_price)                                          public
-- score: useful 44, advice 1, refused 2, not yet 8

-- 1. How many customers do we have?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM customers;

-- 2. How many customers are there in each country?
-- wanted: useful
-- now: useful
SELECT country, COUNT(*) AS customers FROM customers GROUP BY country ORDER BY customers DESC;

-- 3. How many orders were placed each month?
-- wanted: useful
-- now: useful
-- advised: SELECT date_trunc('month', ordered_at) AS month, COUNT(*) AS orders FROM orders GROUP BY date_trunc('month', ordered_at) KEYS ('2024-01-01', '2024-02-01', '2024-03-01', '2024-04-01', '2024-05-01', '2024-06-01', '2024-07-01', '2024-08-01', '2024-09-01', '2024-10-01', '2024-11-01', '2024-12-01', '2025-01-01', '2025-02-01', '2025-03-01', '2025-04-01', '2025-05-01', '2025-06-01', '2025-07-01', '2025-08-01', '2025-09-01', '2025-10-01', '2025-11-01', '2025-12-01') ORDER BY month;
SELECT date_trunc('month', ordered_at) AS month, COUNT(*) AS orders FROM orders GROUP BY month ORDER BY month;

-- 4. What was the revenue of each month in 2025?
-- wanted: useful
-- now: useful
-- advised: SELECT date_trunc('month', ordered_at) AS month, SUM(total) AS revenue FROM orders WHERE ordered_at >= '2025-01-01' AND ordered_at < '2026-01-01' GROUP BY date_trunc('month', ordered_at) KEYS ('2025-01-01', '2025-02-01', '2025-03-01', '2025-04-01', '2025-05-01', '2025-06-01', '2025-07-01', '2025-08-01', '2025-09-01', '2025-10-01', '2025-11-01', '2025-12-01') ORDER BY 1;
SELECT date_trunc('month', ordered_at) AS month, SUM(total) AS revenue FROM orders WHERE ordered_at >= '2025-01-01' AND ordered_at < '2026-01-01' GROUP BY 1 ORDER BY 1;

-- 5. How many orders come in on each day of the week?
-- wanted: useful
-- now: useful
SELECT EXTRACT(DOW FROM ordered_at) AS weekday, COUNT(*) FROM orders GROUP BY weekday ORDER BY weekday;

-- 6. At what hour of the day do people order?
-- wanted: useful
-- now: useful
SELECT EXTRACT(HOUR FROM ordered_at) AS hour, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;

-- 7. What is the average order worth?
-- wanted: useful
-- now: useful
SELECT AVG(total) FROM orders;

-- 8. What is the average order worth in each channel?
-- wanted: useful
-- now: useful
SELECT channel, AVG(total) AS average, COUNT(*) AS orders FROM orders GROUP BY channel;

-- 9. What is the median order worth?
-- wanted: useful
-- now: useful
SELECT MEDIAN(total) FROM orders;

-- 10. What are the quartiles of the order totals?
-- wanted: useful
-- now: useful
SELECT approx_percentile_cont(total, 0.25), approx_percentile_cont(total, 0.5), approx_percentile_cont(total, 0.75) FROM orders;

-- 11. How is revenue distributed over product categories?
-- wanted: useful
-- now: not yet, drowned
SELECT p.category, SUM(i.quantity * i.price) AS revenue FROM items i JOIN products p ON p.id = i.product_id GROUP BY p.category ORDER BY revenue DESC;

-- 12. Which five categories sell most pieces?
-- wanted: useful
-- now: useful
SELECT p.category, SUM(i.quantity) AS pieces FROM items i JOIN products p ON i.product_id = p.id GROUP BY p.category ORDER BY pieces DESC LIMIT 5;

-- 13. What share of orders was returned, by channel?
-- wanted: useful
-- now: useful
SELECT channel, AVG(CASE WHEN status = 'returned' THEN 1 ELSE 0 END) AS return_rate FROM orders GROUP BY channel;

-- 14. What share of orders was returned, by month?
-- wanted: useful
-- now: not yet, drowned
-- advised: SELECT date_trunc('month', ordered_at) AS month, SUM(CASE WHEN status = 'returned' THEN 1 ELSE 0 END) * 1.0 / COUNT(*) AS return_rate FROM orders GROUP BY date_trunc('month', ordered_at) KEYS ('2024-01-01', '2024-02-01', '2024-03-01', '2024-04-01', '2024-05-01', '2024-06-01', '2024-07-01', '2024-08-01', '2024-09-01', '2024-10-01', '2024-11-01', '2024-12-01', '2025-01-01', '2025-02-01', '2025-03-01', '2025-04-01', '2025-05-01', '2025-06-01', '2025-07-01', '2025-08-01', '2025-09-01', '2025-10-01', '2025-11-01', '2025-12-01') ORDER BY 1;
SELECT date_trunc('month', ordered_at) AS month, SUM(CASE WHEN status = 'returned' THEN 1 ELSE 0 END) * 1.0 / COUNT(*) AS return_rate FROM orders GROUP BY 1 ORDER BY 1;

-- 15. How many customers ordered at least once in 2025?
-- wanted: useful
-- now: useful
SELECT COUNT(DISTINCT customer_id) FROM orders WHERE EXTRACT(YEAR FROM ordered_at) = 2025;

-- 16. How many customers are active each month?
-- wanted: useful
-- now: useful
-- advised: SELECT date_trunc('month', ordered_at) AS month, COUNT(DISTINCT customer_id) AS active FROM orders GROUP BY date_trunc('month', ordered_at) KEYS ('2024-01-01', '2024-02-01', '2024-03-01', '2024-04-01', '2024-05-01', '2024-06-01', '2024-07-01', '2024-08-01', '2024-09-01', '2024-10-01', '2024-11-01', '2024-12-01', '2025-01-01', '2025-02-01', '2025-03-01', '2025-04-01', '2025-05-01', '2025-06-01', '2025-07-01', '2025-08-01', '2025-09-01', '2025-10-01', '2025-11-01', '2025-12-01') ORDER BY 1;
SELECT date_trunc('month', ordered_at) AS month, COUNT(DISTINCT customer_id) AS active FROM orders GROUP BY 1 ORDER BY 1;

-- 17. How many customers have never ordered?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id);

-- 18. How many customers have never ordered, written as a join?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM customers c LEFT JOIN orders o ON o.customer_id = c.id WHERE o.id IS NULL;

-- 19. How many customers ordered more than three times?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM (SELECT customer_id FROM orders GROUP BY customer_id HAVING COUNT(*) > 3) AS loyal;

-- 20. How many orders do customers place: a histogram.
-- wanted: useful
-- now: useful
SELECT orders, COUNT(*) AS customers FROM (SELECT customer_id, COUNT(*) AS orders FROM orders GROUP BY customer_id) AS t GROUP BY orders ORDER BY orders;

-- 21. How many orders does a customer place on average, those without an order included?
-- wanted: useful
-- now: useful
SELECT AVG(n) FROM (SELECT c.id, COUNT(o.id) AS n FROM customers c LEFT JOIN orders o ON o.customer_id = c.id GROUP BY c.id) AS t;

-- 22. What is the average revenue per customer in each country?
-- wanted: useful
-- now: useful
SELECT country, AVG(spent) FROM (SELECT c.id, c.country, SUM(o.total) AS spent FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.id, c.country) AS t GROUP BY country;

-- 23. How many orders come from each country?
-- wanted: useful
-- now: useful
SELECT c.country, COUNT(*) AS orders FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY c.country ORDER BY orders DESC;

-- 24. Revenue by country and channel.
-- wanted: useful
-- now: not yet, drowned
SELECT c.country, o.channel, SUM(o.total) AS revenue FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY c.country, o.channel;

-- 25. Revenue by country with subtotals.
-- wanted: useful
-- now: not yet, drowned
SELECT c.country, o.channel, SUM(o.total) AS revenue FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY ROLLUP (c.country, o.channel);

-- 26. How large is a basket, in pieces?
-- wanted: useful
-- now: useful
SELECT AVG(pieces) FROM (SELECT order_id, SUM(quantity) AS pieces FROM items GROUP BY order_id) AS baskets;

-- 27. How many orders contain a product of the category 'books'?
-- wanted: useful
-- now: useful
SELECT COUNT(DISTINCT i.order_id) FROM items i JOIN products p ON p.id = i.product_id WHERE p.category = 'books';

-- 28. How many orders contain both books and games?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM items i JOIN products p ON p.id = i.product_id WHERE i.order_id = o.id AND p.category = 'books') AND EXISTS (SELECT 1 FROM items i JOIN products p ON p.id = i.product_id WHERE i.order_id = o.id AND p.category = 'games');

-- 29. Order totals in classes of 50.
-- wanted: useful
-- now: useful
-- advised: SELECT CAST(FLOOR(total / 50) * 50 AS BIGINT) AS class, COUNT(*) AS orders FROM orders GROUP BY CAST(FLOOR(total / 50) * 50 AS BIGINT) KEYS (0, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 550, 600, 650, 700, 750, 800, 850, 900, 950, 1000) ORDER BY class;
SELECT FLOOR(total / 50) * 50 AS class, COUNT(*) AS orders FROM orders GROUP BY class ORDER BY class;

-- 30. Small, medium and large orders.
-- wanted: useful
-- now: useful
SELECT CASE WHEN total < 50 THEN 'small' WHEN total < 200 THEN 'medium' ELSE 'large' END AS size, COUNT(*) FROM orders GROUP BY 1;

-- 31. How many orders used a coupon, and which?
-- wanted: useful
-- now: useful
SELECT COALESCE(coupon, 'none') AS coupon, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY n DESC;

-- 32. How long does shipping take, in days?
-- wanted: useful
-- now: useful
SELECT AVG(CAST(shipped_at AS DATE) - CAST(ordered_at AS DATE)) AS days FROM orders WHERE shipped_at IS NOT NULL;

-- 33. How many orders were shipped within two days?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM orders WHERE shipped_at <= ordered_at + INTERVAL '2 days';

-- 34. How are stars distributed?
-- wanted: useful
-- now: useful
SELECT stars, COUNT(*) AS n FROM reviews GROUP BY stars ORDER BY stars;

-- 35. Which categories are rated best?
-- wanted: useful
-- now: useful
SELECT p.category, AVG(r.stars) AS stars FROM reviews r JOIN products p ON p.id = r.product_id GROUP BY p.category ORDER BY stars DESC;

-- 36. Running total of revenue over the months of 2025.
-- wanted: useful
-- now: not yet, drowned
-- advised: SELECT month, SUM(revenue) OVER (ORDER BY month) AS so_far FROM (SELECT date_trunc('month', ordered_at) AS month, SUM(total) AS revenue FROM orders WHERE ordered_at >= '2025-01-01' GROUP BY date_trunc('month', ordered_at) KEYS ('2025-01-01', '2025-02-01', '2025-03-01', '2025-04-01', '2025-05-01', '2025-06-01', '2025-07-01', '2025-08-01', '2025-09-01', '2025-10-01', '2025-11-01', '2025-12-01')) AS t ORDER BY month;
SELECT month, SUM(revenue) OVER (ORDER BY month) AS so_far FROM (SELECT date_trunc('month', ordered_at) AS month, SUM(total) AS revenue FROM orders WHERE ordered_at >= '2025-01-01' GROUP BY 1) AS t ORDER BY month;

-- 37. What share of customers who signed up in January 2025 ordered within 30 days?
-- wanted: useful
-- now: useful
-- plain: SELECT AVG(CASE WHEN n > 0 THEN 1.0 ELSE 0.0 END) FROM (SELECT c.id, COUNT(o.id) AS n FROM customers c LEFT JOIN orders o ON o.customer_id = c.id AND o.ordered_at < c.signed_up + INTERVAL '30 days' WHERE c.signed_up >= DATE '2025-01-01' AND c.signed_up < DATE '2025-02-01' GROUP BY c.id) AS t;
SELECT AVG(CASE WHEN EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id AND o.ordered_at < c.signed_up + INTERVAL '30 days') THEN 1.0 ELSE 0.0 END) FROM customers c WHERE c.signed_up >= DATE '2025-01-01' AND c.signed_up < DATE '2025-02-01';

-- 38. How many days pass between two orders of a customer?
-- wanted: useful
-- now: useful
SELECT AVG(gap) FROM (SELECT CAST(ordered_at AS DATE) - CAST(LAG(ordered_at) OVER (PARTITION BY customer_id ORDER BY ordered_at) AS DATE) AS gap FROM orders) AS t WHERE gap IS NOT NULL;

-- 39. Do subscribers of the newsletter spend more?
-- wanted: useful
-- now: useful
SELECT c.newsletter, AVG(o.total) AS average FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.newsletter;

-- 40. How old are customers, by decade?
-- wanted: useful
-- now: useful
SELECT (2025 - EXTRACT(YEAR FROM birthday)) / 10 * 10 AS decade, COUNT(*) AS n FROM customers GROUP BY 1 ORDER BY 1;

-- 41. Show me ten customers.
-- wanted: refused
-- now: refused
SELECT * FROM customers LIMIT 10;

-- 42. Who spent most?
-- wanted: refused
-- now: refused
SELECT c.name, SUM(o.total) AS spent FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.name ORDER BY spent DESC LIMIT 10;

-- 43. Cohorts: how many customers of each quarter ordered within 90 days of signing up?
-- wanted: useful
-- now: useful
SELECT date_trunc('quarter', c.signed_up) AS cohort, COUNT(DISTINCT c.id) AS customers FROM customers c JOIN orders o ON o.customer_id = c.id WHERE o.ordered_at < c.signed_up + INTERVAL '90 days' GROUP BY 1 ORDER BY 1;

-- 44. How many customers order for the first time in each month?
-- wanted: useful
-- now: useful
SELECT date_trunc('month', first_order) AS month, COUNT(*) AS new_customers FROM (SELECT customer_id, MIN(ordered_at) AS first_order FROM orders GROUP BY customer_id) AS t GROUP BY 1 ORDER BY 1;

-- 45. Orders of new and of returning customers, by quarter.
-- wanted: useful
-- now: useful
SELECT date_trunc('quarter', ordered_at) AS quarter, CASE WHEN n = 1 THEN 'new' ELSE 'returning' END AS customer, COUNT(*) AS orders FROM (SELECT ordered_at, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY ordered_at) AS n FROM orders) AS t GROUP BY 1, 2 ORDER BY 1, 2;

-- 46. Revenue of each quarter, as a multiple of the quarter before.
-- wanted: useful
-- now: useful or not yet, drowned
WITH q AS (SELECT date_trunc('quarter', ordered_at) AS quarter, SUM(total) AS revenue FROM orders GROUP BY 1) SELECT quarter, revenue, revenue / LAG(revenue) OVER (ORDER BY quarter) AS growth FROM q ORDER BY quarter;

-- 47. Which ten products bring most revenue?
-- wanted: advice
-- now: not yet, drowned
SELECT p.name, SUM(i.quantity * i.price) AS revenue FROM items i JOIN products p ON p.id = i.product_id GROUP BY p.name ORDER BY revenue DESC LIMIT 10;

-- 48. Average basket by channel and quarter.
-- wanted: useful
-- now: not yet, drowned
SELECT channel, date_trunc('quarter', ordered_at) AS quarter, AVG(total) AS basket FROM orders GROUP BY 1, 2 ORDER BY 1, 2;

-- 49. What share of all items sold is in each category?
-- wanted: useful
-- now: useful
SELECT p.category, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS percent FROM items i JOIN products p ON p.id = i.product_id GROUP BY p.category ORDER BY percent DESC;

-- 50. What share of items is returned, by category?
-- wanted: useful
-- now: useful
SELECT p.category, AVG(CASE WHEN o.status = 'returned' THEN 1.0 ELSE 0.0 END) AS returned FROM items i JOIN orders o ON o.id = i.order_id JOIN products p ON p.id = i.product_id GROUP BY p.category;

-- 51. What is the median order worth in each country?
-- wanted: useful
-- now: useful
SELECT c.country, MEDIAN(o.total) AS median FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.country;

-- 52. How many lines do orders have?
-- wanted: useful
-- now: advice
-- advised: SELECT n, LAPLACE(eps=1, delta=1e-6) COUNT(*) AS orders FROM (SELECT order_id, COUNT(*) AS n FROM items GROUP BY order_id) AS t GROUP BY n ORDER BY n;
SELECT n, COUNT(*) AS orders FROM (SELECT order_id, COUNT(*) AS n FROM items GROUP BY order_id) AS t GROUP BY n ORDER BY n;

-- 53. Orders by quarter, with a column for each channel.
-- wanted: useful
-- now: not yet, drowned
SELECT date_trunc('quarter', ordered_at) AS quarter, COUNT(*) FILTER (WHERE channel = 'web') AS web, COUNT(*) FILTER (WHERE channel = 'shop') AS shop, COUNT(*) FILTER (WHERE channel = 'phone') AS phone FROM orders GROUP BY 1 ORDER BY 1;

-- 54. What do customers of each year spend on average?
-- wanted: useful
-- now: useful
SELECT EXTRACT(YEAR FROM c.signed_up) AS year, AVG(t.spent) AS spent FROM customers c JOIN (SELECT customer_id, SUM(total) AS spent FROM orders GROUP BY customer_id) AS t ON t.customer_id = c.id GROUP BY 1 ORDER BY 1;

-- 55. In which years were customers born, and how many did not say?
-- wanted: useful
-- now: useful
SELECT CASE WHEN birthday < DATE '1960-01-01' THEN 'before 1960' WHEN birthday < DATE '1990-01-01' THEN '1960 to 1989' WHEN birthday >= DATE '1990-01-01' THEN '1990 and later' END AS born, COUNT(*) AS n FROM customers GROUP BY 1;
