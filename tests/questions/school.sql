-- Schools: pupils, their marks, the lessons that they missed; schools are public.
--
-- pupils(id, name, school_id, grade, born, gender, language)
-- marks(pupil_id, subject, given_on, mark)
-- missed(pupil_id, day, hours, excused)
-- schools(id, name, town, kind)                                                     public
-- score: useful 19, advice 0, refused 1, not yet 0

-- 1. How many pupils does each kind of school have?
-- wanted: useful
-- now: useful
SELECT s.kind, COUNT(*) AS pupils FROM pupils p JOIN schools s ON p.school_id = s.id GROUP BY s.kind;

-- 2. The average mark of each subject.
-- wanted: useful
-- now: useful
SELECT subject, AVG(mark) AS average FROM marks GROUP BY subject ORDER BY 2;

-- 3. The median mark of each grade.
-- wanted: useful
-- now: useful
SELECT p.grade, MEDIAN(m.mark) AS median FROM marks m JOIN pupils p ON p.id = m.pupil_id GROUP BY p.grade ORDER BY p.grade;

-- 4. How are the marks in mathematics distributed?
-- wanted: useful
-- now: useful
SELECT mark, COUNT(*) AS n FROM marks WHERE subject = 'mathematics' GROUP BY mark ORDER BY mark;

-- 5. Which languages do more than a hundred pupils speak at home?
-- wanted: useful
-- now: useful
SELECT language, COUNT(*) AS n FROM pupils GROUP BY language HAVING COUNT(*) > 100 ORDER BY n DESC;

-- 6. How many hours does a pupil miss, by grade?
-- wanted: useful
-- now: useful
SELECT p.grade, SUM(m.hours) * 1.0 / COUNT(DISTINCT p.id) AS hours FROM pupils p LEFT JOIN missed m ON m.pupil_id = p.id GROUP BY p.grade ORDER BY 1;

-- 7. How many hours are missed on each day of the week?
-- wanted: useful
-- now: useful
-- plain: SELECT date_part('dow', day) AS weekday, SUM(hours) AS hours FROM missed GROUP BY 1 ORDER BY 1;
SELECT DAYOFWEEK(day) AS weekday, SUM(hours) AS hours FROM missed GROUP BY 1 ORDER BY 1;

-- 8. On which days do pupils stay away without an excuse?
-- wanted: useful
-- now: useful
-- plain: SELECT to_char(day, '%A') AS weekday, COUNT(*) AS n FROM missed WHERE NOT excused GROUP BY 1;
SELECT DAYNAME(day) AS weekday, COUNT(*) AS n FROM missed WHERE NOT excused GROUP BY 1 ORDER BY n DESC;

-- 9. What share of absences is not excused, by kind of school?
-- wanted: useful
-- now: useful
SELECT s.kind, AVG(CASE WHEN NOT m.excused THEN 1.0 ELSE 0.0 END) AS share FROM missed m JOIN pupils p ON p.id = m.pupil_id JOIN schools s ON s.id = p.school_id GROUP BY s.kind;

-- 10. In which towns are the marks best?
-- wanted: useful
-- now: useful
SELECT s.town, AVG(m.mark) AS average FROM marks m JOIN pupils p ON m.pupil_id = p.id JOIN schools s ON s.id = p.school_id GROUP BY s.town ORDER BY average;

-- 11. How many pupils are worse than 4 on average?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM (SELECT pupil_id FROM marks GROUP BY pupil_id HAVING AVG(mark) > 4) AS t;

-- 12. How many pupils fail in two subjects or more?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM (SELECT pupil_id FROM marks WHERE mark >= 5 GROUP BY pupil_id HAVING COUNT(DISTINCT subject) >= 2) AS t;

-- 13. The average mark of each month.
-- wanted: useful
-- now: useful
-- plain: SELECT to_char(given_on, '%Y-%m') AS month, AVG(mark) AS average FROM marks GROUP BY 1 ORDER BY 1;
SELECT to_char(given_on, 'YYYY-MM') AS month, AVG(mark) AS average FROM marks GROUP BY 1 ORDER BY 1;

-- 14. Girls and boys in mathematics.
-- wanted: useful
-- now: useful
SELECT p.gender, AVG(m.mark) AS average FROM pupils p, marks m WHERE m.pupil_id = p.id AND m.subject = 'mathematics' GROUP BY p.gender;

-- 15. How old are the pupils of each grade?
-- wanted: useful
-- now: useful
-- plain: SELECT grade, AVG(2025 - date_part('year', born) - CASE WHEN to_char(born, '%m-%d') > '09-01' THEN 1 ELSE 0 END) AS age FROM pupils GROUP BY grade ORDER BY grade;
SELECT grade, AVG(EXTRACT(YEAR FROM AGE(DATE '2025-09-01', born))) AS age FROM pupils GROUP BY grade ORDER BY grade;

-- 16. How many pupils have never missed a lesson?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM pupils WHERE id NOT IN (SELECT pupil_id FROM missed);

-- 17. Do those have worse marks who miss more?
-- wanted: useful
-- now: useful
WITH a AS (SELECT pupil_id, AVG(mark) AS mark FROM marks GROUP BY pupil_id), b AS (SELECT pupil_id, COUNT(*) AS days FROM missed GROUP BY pupil_id) SELECT b.days, AVG(a.mark) AS average FROM a JOIN b ON a.pupil_id = b.pupil_id WHERE b.days <= 5 GROUP BY b.days ORDER BY b.days;

-- 18. How many marks were given in each subject and quarter?
-- wanted: useful
-- now: useful
-- plain: SELECT subject, date_part('quarter', given_on) AS quarter, COUNT(*) AS n FROM marks GROUP BY 1, 2 ORDER BY 1, 2;
SELECT subject, QUARTER(given_on) AS quarter, COUNT(*) AS n FROM marks GROUP BY subject, QUARTER(given_on) ORDER BY 1, 2;

-- 19. How much do marks differ within a subject?
-- wanted: useful
-- now: useful
SELECT subject, STDDEV(mark) AS deviation FROM marks GROUP BY subject;

-- 20. Which pupils have failed?
-- wanted: refused
-- now: refused
SELECT p.name, m.subject FROM pupils p JOIN marks m ON m.pupil_id = p.id WHERE m.mark = 6;
