-- A library: members, what they borrow, the fines that they pay; books are public.
--
-- members(id, born, branch, joined, kind)
-- borrowings(id, member_id, book_id, out_on, due_on, back_on)
-- fines(member_id, paid_on, amount)
-- books(id, title, genre, language, published, pages)                               public
-- score: useful 19, advice 0, refused 0, not yet 1

-- 1. How often is each genre borrowed?
-- wanted: useful
-- now: useful
SELECT b.genre, COUNT(*) AS n FROM borrowings w JOIN books b ON b.id = w.book_id GROUP BY b.genre ORDER BY n DESC;

-- 2. The ten books that are borrowed most.
-- wanted: useful
-- now: useful
SELECT b.title, COUNT(*) AS n FROM borrowings w JOIN books b ON b.id = w.book_id GROUP BY b.title ORDER BY n DESC LIMIT 10;

-- 3. How many pages does a borrowed book have?
-- wanted: useful
-- now: useful
SELECT AVG(b.pages) FROM borrowings w, books b WHERE w.book_id = b.id;

-- 4. How many members borrow books of each language?
-- wanted: useful
-- now: useful
SELECT b.language, COUNT(DISTINCT w.member_id) AS members FROM borrowings w JOIN books b ON b.id = w.book_id GROUP BY b.language;

-- 5. How many books came back late, or are overdue at the end of 2025?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM borrowings WHERE back_on > due_on OR (back_on IS NULL AND due_on < '2025-12-31');

-- 6. How many days is a book away?
-- wanted: useful
-- now: useful
-- plain: SELECT AVG(CAST(back_on - CAST(out_on AS DATE) AS DOUBLE)) AS days FROM borrowings;
SELECT AVG(back_on - CAST(out_on AS DATE)) AS days FROM borrowings;

-- 7. At which hours do people borrow?
-- wanted: useful
-- now: useful
SELECT EXTRACT(HOUR FROM out_on) AS hour, COUNT(*) AS n FROM borrowings GROUP BY hour ORDER BY hour;

-- 8. How many members are active in each month?
-- wanted: useful
-- now: useful
-- plain: SELECT to_char(out_on, '%Y-%m') AS month, COUNT(DISTINCT member_id) AS members FROM borrowings GROUP BY 1 ORDER BY 1;
SELECT strftime(out_on, '%Y-%m') AS month, COUNT(DISTINCT member_id) AS members FROM borrowings GROUP BY month ORDER BY month;

-- 9. How many members were under 18 at the end of 2025?
-- wanted: useful
-- now: useful
-- plain: SELECT COUNT(*) FROM members WHERE born > '2007-12-31';
SELECT COUNT(*) FROM members WHERE AGE(DATE '2025-12-31', born) < INTERVAL '18 years';

-- 10. What do fines bring in?
-- wanted: useful
-- now: useful
SELECT SUM(amount) FROM fines;

-- 11. Fines by branch and year.
-- wanted: useful
-- now: not yet, drowned
-- plain: SELECT m.branch, date_part('year', f.paid_on) AS year, SUM(f.amount) AS paid FROM fines f JOIN members m ON m.id = f.member_id WHERE f.paid_on < '2026-01-01' GROUP BY 1, 2 ORDER BY 1, 2;
SELECT m.branch, YEAR(f.paid_on) AS year, SUM(f.amount) AS paid FROM fines f JOIN members m ON m.id = f.member_id WHERE f.paid_on < '2026-01-01' GROUP BY 1, 2 ORDER BY 1, 2;

-- 12. What does a fine come to?
-- wanted: useful
-- now: useful
SELECT AVG(amount), MEDIAN(amount) FROM fines;

-- 13. How many members have never borrowed anything?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM members m LEFT JOIN borrowings w ON w.member_id = m.id WHERE w.id IS NULL;

-- 14. How many members borrowed one book, two, three, up to five?
-- wanted: useful
-- now: useful
SELECT n, COUNT(*) AS members FROM (SELECT member_id, COUNT(*) AS n FROM borrowings GROUP BY member_id) t WHERE n <= 5 GROUP BY n ORDER BY n;

-- 15. How many new members of 2025 borrow in their first 30 days, by month?
-- wanted: useful
-- now: useful
SELECT date_trunc('month', m.joined) AS cohort, COUNT(DISTINCT m.id) AS members FROM members m JOIN borrowings w ON w.member_id = m.id WHERE m.joined >= '2025-01-01' AND w.out_on < m.joined + INTERVAL '30 days' GROUP BY 1 ORDER BY 1;

-- 16. Who reads what?
-- wanted: useful
-- now: useful
SELECT m.kind, b.genre, COUNT(*) AS n FROM borrowings w JOIN members m ON m.id = w.member_id JOIN books b ON b.id = w.book_id GROUP BY m.kind, b.genre ORDER BY 1, 3 DESC;

-- 17. Which genre does each kind of member like best?
-- wanted: useful
-- now: useful
SELECT kind, genre FROM (SELECT m.kind, b.genre, RANK() OVER (PARTITION BY m.kind ORDER BY COUNT(*) DESC) AS r FROM borrowings w JOIN members m ON m.id = w.member_id JOIN books b ON b.id = w.book_id GROUP BY m.kind, b.genre) t WHERE r = 1;

-- 18. How many books does a member borrow in a year?
-- wanted: useful
-- now: useful
SELECT AVG(n) FROM (SELECT member_id, EXTRACT(YEAR FROM out_on) AS year, COUNT(*) AS n FROM borrowings GROUP BY 1, 2) t;

-- 19. From which decades are the books that people borrow?
-- wanted: useful
-- now: useful
SELECT b.published / 10 * 10 AS decade, COUNT(*) AS n FROM borrowings w JOIN books b ON b.id = w.book_id GROUP BY decade ORDER BY decade;

-- 20. How many books are borrowed in each week of 2025?
-- wanted: useful
-- now: useful
-- plain: SELECT date_trunc('week', out_on) AS week, COUNT(*) AS n FROM borrowings WHERE date_part('year', out_on) = 2025 GROUP BY 1 ORDER BY 1;
SELECT date_trunc('week', out_on) AS week, COUNT(*) AS n FROM borrowings WHERE YEAR(out_on) = 2025 GROUP BY week ORDER BY week;
