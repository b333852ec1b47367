-- A hospital: patients, their stays, what was measured and prescribed; wards are public.
--
-- patients(id, name, born, sex, city, insurer)
-- stays(id, patient_id, ward, admitted, discharged, emergency, cost)
-- measurements(stay_id, kind, value, taken_at)
-- prescriptions(stay_id, drug, dose, days)
-- wards(name, floor, beds)                                                          public
-- score: useful 35, advice 2, refused 1, not yet 1

-- 1. How many patients of each sex are there?
-- wanted: useful
-- now: useful
SELECT sex, COUNT(*) FROM patients GROUP BY sex;

-- 2. How many stays were there in each ward?
-- wanted: useful
-- now: useful
SELECT ward, COUNT(*) AS stays FROM stays GROUP BY ward ORDER BY stays DESC;

-- 3. How many patients were there in each ward?
-- wanted: useful
-- now: useful
SELECT ward, COUNT(DISTINCT patient_id) AS patients FROM stays GROUP BY ward;

-- 4. How many admissions were there in each week of 2025?
-- wanted: useful
-- now: useful
-- advised: SELECT date_trunc('week', admitted) AS week, COUNT(*) FROM stays WHERE admitted BETWEEN '2025-01-01' AND '2025-12-31' GROUP BY date_trunc('week', admitted) KEYS ('2024-12-30', '2025-01-06', '2025-01-13', '2025-01-20', '2025-01-27', '2025-02-03', '2025-02-10', '2025-02-17', '2025-02-24', '2025-03-03', '2025-03-10', '2025-03-17', '2025-03-24', '2025-03-31', '2025-04-07', '2025-04-14', '2025-04-21', '2025-04-28', '2025-05-05', '2025-05-12', '2025-05-19', '2025-05-26', '2025-06-02', '2025-06-09', '2025-06-16', '2025-06-23', '2025-06-30', '2025-07-07', '2025-07-14', '2025-07-21', '2025-07-28', '2025-08-04', '2025-08-11', '2025-08-18', '2025-08-25', '2025-09-01', '2025-09-08', '2025-09-15', '2025-09-22', '2025-09-29', '2025-10-06', '2025-10-13', '2025-10-20', '2025-10-27', '2025-11-03', '2025-11-10', '2025-11-17', '2025-11-24', '2025-12-01', '2025-12-08', '2025-12-15', '2025-12-22', '2025-12-29') ORDER BY 1;
SELECT date_trunc('week', admitted) AS week, COUNT(*) FROM stays WHERE admitted BETWEEN '2025-01-01' AND '2025-12-31' GROUP BY 1 ORDER BY 1;

-- 5. How many admissions were there in each quarter?
-- wanted: useful
-- now: useful
SELECT EXTRACT(YEAR FROM admitted) AS year, EXTRACT(QUARTER FROM admitted) AS quarter, COUNT(*) AS n FROM stays GROUP BY 1, 2 ORDER BY 1, 2;

-- 6. How long do patients stay on average?
-- wanted: useful
-- now: useful
SELECT AVG(discharged - admitted) AS days FROM stays;

-- 7. How long do patients stay on average in each ward?
-- wanted: useful
-- now: useful
-- plain: SELECT ward, AVG(discharged - admitted) AS days FROM stays GROUP BY ward;
-- advised: SELECT ward, AVG(CLAMP(date_diff('day', admitted, discharged), 0, 60)) AS days FROM stays GROUP BY ward;
SELECT ward, AVG(date_diff('day', admitted, discharged)) AS days FROM stays GROUP BY ward;

-- 8. How long is the median stay?
-- wanted: useful
-- now: useful
SELECT MEDIAN(discharged - admitted) FROM stays;

-- 9. Stays by their length: a day, a week, more.
-- wanted: useful
-- now: useful
SELECT CASE WHEN discharged - admitted <= 1 THEN 'a day' WHEN discharged - admitted <= 7 THEN 'a week' ELSE 'more' END AS length, COUNT(*) FROM stays GROUP BY 1;

-- 10. What share of stays began as an emergency?
-- wanted: useful
-- now: useful
SELECT AVG(emergency::int) FROM stays;

-- 11. What share of stays began as an emergency, by ward?
-- wanted: useful
-- now: useful
SELECT ward, AVG(CASE WHEN emergency THEN 1.0 ELSE 0.0 END) AS share FROM stays GROUP BY ward ORDER BY share DESC;

-- 12. At which hours of the day are patients measured?
-- wanted: useful
-- now: useful
SELECT EXTRACT(HOUR FROM taken_at) AS hour, COUNT(*) FROM measurements GROUP BY 1 ORDER BY 1;

-- 13. What do stays cost in total, by ward?
-- wanted: useful
-- now: useful
SELECT ward, SUM(cost) AS cost FROM stays GROUP BY ward ORDER BY cost DESC;

-- 14. What does a bed cost in each ward?
-- wanted: useful
-- now: useful
SELECT s.ward, SUM(s.cost) / MAX(w.beds) AS cost_per_bed FROM stays s JOIN wards w ON w.name = s.ward GROUP BY s.ward;

-- 15. Mean and standard deviation of the cost of a stay.
-- wanted: useful
-- now: useful
SELECT AVG(cost), STDDEV(cost) FROM stays;

-- 16. How old are patients when they are admitted?
-- wanted: useful
-- now: useful
SELECT AVG(EXTRACT(YEAR FROM s.admitted) - EXTRACT(YEAR FROM p.born)) FROM stays s JOIN patients p ON p.id = s.patient_id;

-- 17. How many patients are there in each age group?
-- wanted: useful
-- now: useful
-- advised: SELECT CAST(FLOOR((2025 - EXTRACT(YEAR FROM born)) / 10) * 10 AS BIGINT) AS age_group, COUNT(*) FROM patients GROUP BY CAST(FLOOR((2025 - EXTRACT(YEAR FROM born)) / 10) * 10 AS BIGINT) KEYS (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100) ORDER BY age_group;
SELECT FLOOR((2025 - EXTRACT(YEAR FROM born)) / 10) * 10 AS age_group, COUNT(*) FROM patients GROUP BY age_group ORDER BY age_group;

-- 18. How many patients came back within 30 days?
-- wanted: useful
-- now: useful
SELECT COUNT(DISTINCT patient_id) FROM (SELECT patient_id, admitted, LAG(discharged) OVER (PARTITION BY patient_id ORDER BY admitted) AS before FROM stays) AS t WHERE admitted - before <= 30;

-- 19. Share of stays that are readmissions.
-- wanted: useful
-- now: useful
SELECT AVG(CASE WHEN n > 1 THEN 1.0 ELSE 0.0 END) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY admitted) AS n FROM stays) AS t;

-- 20. How many stays does each insurer pay for?
-- wanted: useful
-- now: useful
SELECT p.insurer, COUNT(*) AS stays FROM patients p JOIN stays s ON s.patient_id = p.id GROUP BY p.insurer;

-- 21. How many patients take each drug?
-- wanted: useful
-- now: useful
SELECT drug, COUNT(DISTINCT s.patient_id) AS patients FROM prescriptions r JOIN stays s ON s.id = r.stay_id GROUP BY drug ORDER BY patients DESC;

-- 22. What is the average dose of each drug?
-- wanted: useful
-- now: not yet, drowned
SELECT drug, AVG(dose) AS dose, COUNT(*) AS n FROM prescriptions GROUP BY drug;

-- 23. How many stays have both penicillin and an antacid?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM stays s WHERE s.id IN (SELECT stay_id FROM prescriptions WHERE drug = 'penicillin') AND s.id IN (SELECT stay_id FROM prescriptions WHERE drug = 'antacid');

-- 24. How many drugs does a stay need on average?
-- wanted: useful
-- now: useful
SELECT AVG(drugs) FROM (SELECT stay_id, COUNT(DISTINCT drug) AS drugs FROM prescriptions GROUP BY stay_id) AS t;

-- 25. Blood pressure over 140: how many measurements, how many patients?
-- wanted: useful
-- now: useful
SELECT COUNT(*) AS measurements, COUNT(DISTINCT s.patient_id) AS patients FROM measurements m JOIN stays s ON s.id = m.stay_id WHERE m.kind = 'pressure' AND m.value > 140;

-- 26. What is the 95th percentile of blood pressure?
-- wanted: advice
-- now: useful
SELECT percentile_cont(0.95) WITHIN GROUP (ORDER BY value) FROM measurements WHERE kind = 'pressure';

-- 27. Highest temperature of each stay: how is it distributed?
-- wanted: advice
-- now: advice
-- advised: SELECT ROUND(peak) AS peak, LAPLACE(eps=1, delta=1e-6) COUNT(*) FROM (SELECT stay_id, MAX(value) AS peak FROM measurements WHERE kind = 'temperature' GROUP BY stay_id) AS t GROUP BY 1 ORDER BY 1;
SELECT ROUND(peak) AS peak, COUNT(*) FROM (SELECT stay_id, MAX(value) AS peak FROM measurements WHERE kind = 'temperature' GROUP BY stay_id) AS t GROUP BY 1 ORDER BY 1;

-- 28. Does age go with the length of a stay?
-- wanted: useful
-- now: useful
SELECT CORR(EXTRACT(YEAR FROM p.born), s.cost) FROM stays s JOIN patients p ON p.id = s.patient_id;

-- 29. How full is each floor?
-- wanted: useful
-- now: useful
SELECT w.floor, COUNT(*) AS stays, SUM(s.discharged - s.admitted) AS days FROM stays s JOIN wards w ON w.name = s.ward GROUP BY w.floor ORDER BY w.floor;

-- 30. Which wards have more than 5,000 stays?
-- wanted: useful
-- now: useful
SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward HAVING COUNT(*) > 5000;

-- 31. Who has been in ward 'icu' today?
-- wanted: refused
-- now: refused
SELECT p.name FROM patients p JOIN stays s ON s.patient_id = p.id WHERE s.ward = 'icu';

-- 32. Stays by ward and quarter.
-- wanted: useful
-- now: useful
SELECT ward, date_trunc('quarter', admitted) AS quarter, COUNT(*) AS stays FROM stays GROUP BY 1, 2 ORDER BY 1, 2;

-- 33. What does a stay of the young and of the old cost?
-- wanted: useful
-- now: useful
SELECT CASE WHEN p.born < '1960-01-01' THEN 'old' WHEN p.born < '2000-01-01' THEN 'middle' ELSE 'young' END AS age, AVG(s.cost) AS cost FROM stays s JOIN patients p ON p.id = s.patient_id GROUP BY 1;

-- 34. After how many stays does the patient come back within 30 days, by ward?
-- wanted: useful
-- now: useful
SELECT ward, AVG(CASE WHEN next - discharged <= 30 THEN 1.0 ELSE 0.0 END) AS share FROM (SELECT ward, discharged, LEAD(admitted) OVER (PARTITION BY patient_id ORDER BY admitted) AS next FROM stays) AS t GROUP BY ward;

-- 35. Which drugs does each ward prescribe?
-- wanted: useful
-- now: useful
SELECT s.ward, r.drug, COUNT(*) AS n FROM prescriptions r JOIN stays s ON s.id = r.stay_id GROUP BY s.ward, r.drug ORDER BY s.ward, n DESC;

-- 36. From which cities do patients come?
-- wanted: advice
-- now: advice
SELECT city, COUNT(*) AS n FROM patients GROUP BY city ORDER BY n DESC;

-- 37. What do the dearest tenth of stays cost, by ward?
-- wanted: useful
-- now: useful
-- plain: SELECT ward, percentile_cont(0.9) WITHIN GROUP (ORDER BY cost) AS dear FROM stays GROUP BY ward;
SELECT ward, approx_percentile_cont(cost, 0.9) AS dear FROM stays GROUP BY ward;

-- 38. In how many stays was nothing measured?
-- wanted: useful
-- now: useful
SELECT COUNT(*) FROM stays s LEFT JOIN measurements m ON m.stay_id = s.id WHERE m.stay_id IS NULL;

-- 39. How many patients have each number of stays?
-- wanted: useful
-- now: useful
SELECT n, COUNT(*) AS patients FROM (SELECT patient_id, COUNT(*) AS n FROM stays GROUP BY patient_id) AS t GROUP BY n ORDER BY n;
