-- A company's payroll: employees, a payslip for each month, absences; departments are public.
--
-- employees(id, name, department, title, gender, born, hired, left_on, salary, site)
-- payslips(employee_id, month, gross, bonus, overtime)
-- absences(employee_id, kind, first_day, last_day)
-- departments(name, division)                                                       public
-- score: useful 17, advice 0, refused 1, not yet 2

-- 1. How many people work here?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM employees WHERE left_on IS NULL;

-- 2. What does each department earn on average?
-- wanted: useful
-- now: useful
SELECT department, ROUND(AVG(salary)) AS average FROM employees GROUP BY department ORDER BY average DESC;

-- 3. The median salary of women and men.
-- wanted: useful
-- now: useful
-- plain: SELECT gender, approx_percentile_cont(salary, 0.5) AS median FROM employees GROUP BY gender;
SELECT gender, percentile_cont(0.5) WITHIN GROUP (ORDER BY salary) AS median FROM employees GROUP BY gender;

-- 4. The gender pay gap in percent.
-- wanted: useful
-- now: useful
SELECT 100 * (AVG(salary) FILTER (WHERE gender = 'm') - AVG(salary) FILTER (WHERE gender = 'f')) / AVG(salary) FILTER (WHERE gender = 'm') AS gap FROM employees;

-- 5. How old are our people on average?
-- wanted: useful
-- now: useful
-- plain: SELECT AVG(date_part('year', now()) - date_part('year', born)) AS age FROM employees WHERE left_on IS NULL;
SELECT AVG(YEAR(CURRENT_DATE) - YEAR(born)) AS age FROM employees WHERE left_on IS NULL;

-- 6. How many people were hired in each year?
-- wanted: useful
-- now: useful
-- plain: SELECT date_part('year', hired) AS year, COUNT(*) AS hires FROM employees GROUP BY 1 ORDER BY 1;
SELECT YEAR(hired) AS year, COUNT(*) AS hires FROM employees GROUP BY YEAR(hired) ORDER BY year;

-- 7. What are the five most common titles?
-- wanted: useful
-- now: useful
SELECT title, COUNT(*) AS n FROM employees GROUP BY title ORDER BY n DESC LIMIT 5;

-- 8. What do we pay in each month?
-- wanted: useful
-- now: not yet, empty groups
SELECT month, SUM(gross) AS payroll FROM payslips GROUP BY month ORDER BY month;

-- 9. Bonuses by division.
-- wanted: useful
-- now: useful
SELECT d.division, SUM(p.bonus) AS bonuses FROM payslips p JOIN employees e ON e.id = p.employee_id JOIN departments d ON d.name = e.department GROUP BY d.division;

-- 10. Overtime by site.
-- wanted: useful
-- now: useful
SELECT e.site, AVG(p.overtime) AS hours FROM payslips p JOIN employees e ON p.employee_id = e.id GROUP BY e.site ORDER BY hours DESC;

-- 11. How many years do those stay who leave?
-- wanted: useful
-- now: useful
-- plain: SELECT AVG(CAST(left_on - hired AS DOUBLE)) / 365.25 AS years FROM employees WHERE left_on IS NOT NULL;
SELECT AVG(DATEDIFF(day, hired, left_on)) / 365.25 AS years FROM employees WHERE left_on IS NOT NULL;

-- 12. How many days are people absent, by kind?
-- wanted: useful
-- now: useful
SELECT kind, SUM(last_day - first_day + 1) AS days FROM absences GROUP BY kind ORDER BY days DESC;

-- 13. What share of each department was sick at least once?
-- wanted: useful
-- now: useful
SELECT e.department, COUNT(DISTINCT a.employee_id) * 100.0 / COUNT(DISTINCT e.id) AS percent FROM employees e LEFT JOIN absences a ON a.employee_id = e.id AND a.kind = 'sick' GROUP BY e.department;

-- 14. Salaries in bands of 10,000.
-- wanted: useful
-- now: not yet, empty groups
SELECT FLOOR(salary / 10000) * 10000 AS band, COUNT(*) AS people FROM employees GROUP BY 1 ORDER BY 1;

-- 15. How many earn more than 60,000, and how many less?
-- wanted: useful
-- now: useful
-- plain: SELECT CASE WHEN salary >= 60000 THEN 'more' ELSE 'less' END AS group_name, COUNT(*) FROM employees GROUP BY 1;
SELECT IF(salary >= 60000, 'more', 'less') AS group_name, COUNT(*) FROM employees GROUP BY group_name;

-- 16. Who earns most?
-- wanted: refused
-- now: refused
SELECT name, salary FROM employees ORDER BY salary DESC LIMIT 10;

-- 17. The highest salary of each department.
-- wanted: useful
-- now: useful
SELECT department, MAX(salary) AS highest FROM employees GROUP BY department;

-- 18. In which months of 2025 did people leave?
-- wanted: useful
-- now: useful
-- plain: SELECT to_char(left_on, '%B') AS month, COUNT(*) AS n FROM employees WHERE left_on >= '2025-01-01' GROUP BY 1;
SELECT MONTHNAME(left_on) AS month, COUNT(*) AS n FROM employees WHERE left_on >= '2025-01-01' GROUP BY MONTHNAME(left_on) ORDER BY n DESC;

-- 19. What share of the payroll does each site have?
-- wanted: useful
-- now: useful
SELECT e.site, SUM(p.gross) * 100.0 / SUM(SUM(p.gross)) OVER () AS percent FROM payslips p JOIN employees e ON e.id = p.employee_id GROUP BY e.site;

-- 20. How many got a rise during the year?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM (SELECT employee_id, MAX(CASE WHEN month = '2025-01-01' THEN gross END) AS before, MAX(CASE WHEN month = '2025-12-01' THEN gross END) AS after FROM payslips GROUP BY employee_id) t WHERE after > before;
