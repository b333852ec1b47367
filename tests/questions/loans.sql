-- A bank: clients, their loans, the payments that were due.
--
-- clients(id, born, income, region, job, email)
-- loans(id, client_id, start_date, term, amount, rate, purpose, status)
-- payments(loan_id, due_on, paid_on, amount)
-- score: useful 18, advice 0, refused 1, not yet 1

-- 1. How much was lent for what?
-- wanted: useful
-- now: useful
SELECT purpose, SUM(amount) AS lent FROM loans GROUP BY purpose ORDER BY lent DESC;

-- 2. What share of loans defaults, by region?
-- wanted: useful
-- now: useful
SELECT c.region, AVG(CASE WHEN l.status = 'default' THEN 1 ELSE 0 END) AS share FROM loans l JOIN clients c ON c.id = l.client_id GROUP BY c.region;

-- 3. The average rate, weighted by the amount.
-- wanted: useful
-- now: useful
SELECT SUM(rate * amount) / SUM(amount) AS rate FROM loans;

-- 4. The average rate of each year.
-- wanted: useful
-- now: useful
SELECT EXTRACT(YEAR FROM start_date) AS year, AVG(rate) AS rate FROM loans GROUP BY 1 ORDER BY 1;

-- 5. Loans by the age of the client, in decades.
-- wanted: useful
-- now: useful
-- plain: SELECT (date_part('year', l.start_date) - date_part('year', c.born)) / 10 * 10 AS decade, COUNT(*) AS n FROM loans l JOIN clients c ON l.client_id = c.id GROUP BY 1 ORDER BY 1;
SELECT FLOOR((YEAR(l.start_date) - YEAR(c.born)) / 10) * 10 AS decade, COUNT(*) AS n FROM loans l JOIN clients c ON l.client_id = c.id GROUP BY 1 ORDER BY 1;

-- 6. What share of payments comes late?
-- wanted: useful
-- now: useful
SELECT AVG(CASE WHEN paid_on > due_on THEN 1.0 ELSE 0.0 END) AS late FROM payments;

-- 7. How many days are late payments late?
-- wanted: useful
-- now: useful
-- plain: SELECT AVG(CAST(paid_on - due_on AS DOUBLE)) AS days FROM payments WHERE paid_on > due_on;
SELECT AVG(DATEDIFF('day', due_on, paid_on)) AS days FROM payments WHERE paid_on > due_on;

-- 8. How many loans end in 2026?
-- wanted: useful
-- now: useful
-- plain: SELECT COUNT(*) FROM loans WHERE date_part('year', start_date) * 12 + date_part('month', start_date) - 1 + term BETWEEN 24312 AND 24323;
SELECT COUNT(*) FROM loans WHERE start_date + term * INTERVAL '1 month' BETWEEN '2026-01-01' AND '2026-12-31';

-- 9. At which providers do clients have their mail?
-- wanted: useful
-- now: useful
SELECT SPLIT_PART(email, '@', 2) AS provider, COUNT(*) AS n FROM clients GROUP BY provider ORDER BY 2 DESC;

-- 10. The five jobs to which most was lent.
-- wanted: useful
-- now: useful
SELECT c.job, SUM(l.amount) AS lent FROM clients c JOIN loans l ON l.client_id = c.id GROUP BY c.job ORDER BY lent DESC LIMIT 5;

-- 11. The quartiles of income.
-- wanted: useful
-- now: useful
-- plain: SELECT approx_percentile_cont(income, 0.25) AS q1, approx_percentile_cont(income, 0.5) AS q2, approx_percentile_cont(income, 0.75) AS q3 FROM clients;
SELECT percentile_disc(0.25) WITHIN GROUP (ORDER BY income) AS q1, percentile_disc(0.5) WITHIN GROUP (ORDER BY income) AS q2, percentile_disc(0.75) WITHIN GROUP (ORDER BY income) AS q3 FROM clients;

-- 12. How large is a loan beside the income?
-- wanted: useful
-- now: useful
SELECT AVG(l.amount / c.income) AS ratio FROM loans l JOIN clients c ON c.id = l.client_id WHERE c.income > 0;

-- 13. How many clients have more than one loan?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM (SELECT client_id FROM loans GROUP BY client_id HAVING COUNT(*) > 1) x;

-- 14. How many clients have a loan that runs?
-- wanted: useful
-- now: useful
SELECT COUNT(DISTINCT client_id) FROM loans WHERE status = 'running';

-- 15. How many people of each region earn more than the average?
-- wanted: useful
-- now: useful
WITH m AS (SELECT AVG(income) AS mean FROM clients) SELECT region, COUNT(*) AS n FROM clients, m WHERE income > m.mean GROUP BY region;

-- 16. How many loans start in each quarter?
-- wanted: useful
-- now: useful
SELECT date_trunc('quarter', start_date) AS quarter, COUNT(*) AS n FROM loans GROUP BY quarter ORDER BY quarter;

-- 17. How much was paid back, by the status of the loan?
-- wanted: useful
-- now: useful
SELECT l.status, SUM(p.amount) AS paid FROM payments p JOIN loans l ON l.id = p.loan_id WHERE p.paid_on IS NOT NULL GROUP BY l.status;

-- 18. How large is the first loan of a client?
-- wanted: useful
-- now: useful
-- plain: SELECT AVG(amount) FROM (SELECT amount, ROW_NUMBER() OVER (PARTITION BY client_id ORDER BY start_date, id) AS n FROM loans) t WHERE n = 1;
SELECT AVG(amount) FROM (SELECT amount FROM loans QUALIFY ROW_NUMBER() OVER (PARTITION BY client_id ORDER BY start_date, id) = 1) t;

-- 19. The smallest and the largest loan for each purpose.
-- wanted: useful
-- now: not yet, drowned
SELECT purpose, MIN(amount) AS smallest, MAX(amount) AS largest FROM loans GROUP BY purpose;

-- 20. All loans of one client.
-- wanted: refused
-- now: refused
SELECT * FROM loans WHERE client_id = 4711;
