-- ClickBench | web | The 43 questions of ClickBench, with visitors as the people. Where the original groups by values that are all different, the groups are those that several people share.

-- 1. All views
SELECT COUNT(*) FROM views;

-- 2. Views with an advertisement
SELECT COUNT(*) FROM views WHERE advert <> 0;

-- 3. A sum, a count and a mean
SELECT SUM(advert), COUNT(*), AVG(width) FROM views;

-- 4. The mean number of the visitor
SELECT AVG(visitor) FROM views;

-- 5. Visitors
SELECT COUNT(DISTINCT visitor) FROM views;

-- 6. Search phrases
SELECT COUNT(DISTINCT phrase) FROM views;

-- 7. First and last day
SELECT MIN(day), MAX(day) FROM views;

-- 8. Views by advertisement
SELECT advert, COUNT(*) FROM views WHERE advert <> 0 GROUP BY advert ORDER BY COUNT(*) DESC;

-- 9. Regions by visitors
SELECT region, COUNT(DISTINCT visitor) AS u FROM views GROUP BY region ORDER BY u DESC, region LIMIT 10;

-- 10. Regions by five numbers
SELECT region, SUM(advert), COUNT(*) AS c, AVG(width), COUNT(DISTINCT visitor) FROM views GROUP BY region ORDER BY c DESC, region LIMIT 10;

-- 11. Models by visitors
SELECT model, COUNT(DISTINCT visitor) AS u FROM views WHERE model <> '' GROUP BY model ORDER BY u DESC LIMIT 10;

-- 12. Phones and models by visitors
SELECT phone, model, COUNT(DISTINCT visitor) AS u FROM views WHERE model <> '' GROUP BY phone, model ORDER BY u DESC, phone, model LIMIT 10;

-- 13. Phrases by views
SELECT phrase, COUNT(*) AS c FROM views WHERE phrase <> '' GROUP BY phrase ORDER BY c DESC, phrase LIMIT 10;

-- 14. Phrases by visitors
SELECT phrase, COUNT(DISTINCT visitor) AS u FROM views WHERE phrase <> '' GROUP BY phrase ORDER BY u DESC, phrase LIMIT 10;

-- 15. Engines and phrases
SELECT engine, phrase, COUNT(*) AS c FROM views WHERE phrase <> '' GROUP BY engine, phrase ORDER BY c DESC, engine, phrase LIMIT 10;

-- refused: 16. Visitors by views
SELECT visitor, COUNT(*) FROM views GROUP BY visitor ORDER BY COUNT(*) DESC LIMIT 10;

-- refused: 17. Visitors and phrases by views
SELECT visitor, phrase, COUNT(*) FROM views GROUP BY visitor, phrase ORDER BY COUNT(*) DESC LIMIT 10;

-- refused: 18. Visitors and phrases
SELECT visitor, phrase, COUNT(*) FROM views GROUP BY visitor, phrase LIMIT 10;

-- refused: 19. Visitors, minutes and phrases
SELECT visitor, EXTRACT(MINUTE FROM seen) AS m, phrase, COUNT(*) FROM views GROUP BY visitor, m, phrase ORDER BY COUNT(*) DESC LIMIT 10;

-- refused: 20. One visitor
SELECT visitor FROM views WHERE visitor = 123;

-- 21. Addresses that contain a word
SELECT COUNT(*) FROM views WHERE url LIKE '%google%';

-- refused: 22. A least address by phrase
SELECT phrase, MIN(url), COUNT(*) AS c FROM views WHERE url LIKE '%google%' AND phrase <> '' GROUP BY phrase ORDER BY c DESC LIMIT 10;

-- refused: 23. A least address and title by phrase
SELECT phrase, MIN(url), MIN(title), COUNT(*) AS c, COUNT(DISTINCT visitor) FROM views WHERE title LIKE '%Google%' AND url NOT LIKE '%.google.%' AND phrase <> '' GROUP BY phrase ORDER BY c DESC LIMIT 10;

-- refused: 24. Rows in the order of time
SELECT * FROM views WHERE url LIKE '%google%' ORDER BY seen LIMIT 10;

-- refused: 25. Phrases in the order of time
SELECT phrase FROM views WHERE phrase <> '' ORDER BY seen LIMIT 10;

-- refused: 26. Phrases in their order
SELECT phrase FROM views WHERE phrase <> '' ORDER BY phrase LIMIT 10;

-- refused: 27. Phrases in the order of time and their own
SELECT phrase FROM views WHERE phrase <> '' ORDER BY seen, phrase LIMIT 10;

-- 28. Counters by the mean length of addresses
SELECT counter, AVG(LENGTH(url)) AS l, COUNT(*) AS c FROM views WHERE url <> '' GROUP BY counter HAVING COUNT(*) > 100 ORDER BY l DESC LIMIT 25;

-- 29. Hosts of referers by mean length
SELECT REGEXP_REPLACE(referer, '^https?://(?:www\.)?([^/]+)/.*$', '\1') AS k, AVG(LENGTH(referer)) AS l, COUNT(*) AS c FROM views WHERE referer <> '' GROUP BY k HAVING COUNT(*) > 100 ORDER BY l DESC LIMIT 25;

-- 30. Ninety sums
SELECT SUM(width), SUM(width + 1), SUM(width + 2), SUM(width + 3), SUM(width + 4), SUM(width + 5), SUM(width + 6), SUM(width + 7), SUM(width + 8), SUM(width + 9), SUM(width + 10), SUM(width + 11), SUM(width + 12), SUM(width + 13), SUM(width + 14), SUM(width + 15), SUM(width + 16), SUM(width + 17), SUM(width + 18), SUM(width + 19), SUM(width + 20), SUM(width + 21), SUM(width + 22), SUM(width + 23), SUM(width + 24), SUM(width + 25), SUM(width + 26), SUM(width + 27), SUM(width + 28), SUM(width + 29), SUM(width + 30), SUM(width + 31), SUM(width + 32), SUM(width + 33), SUM(width + 34), SUM(width + 35), SUM(width + 36), SUM(width + 37), SUM(width + 38), SUM(width + 39), SUM(width + 40), SUM(width + 41), SUM(width + 42), SUM(width + 43), SUM(width + 44), SUM(width + 45), SUM(width + 46), SUM(width + 47), SUM(width + 48), SUM(width + 49), SUM(width + 50), SUM(width + 51), SUM(width + 52), SUM(width + 53), SUM(width + 54), SUM(width + 55), SUM(width + 56), SUM(width + 57), SUM(width + 58), SUM(width + 59), SUM(width + 60), SUM(width + 61), SUM(width + 62), SUM(width + 63), SUM(width + 64), SUM(width + 65), SUM(width + 66), SUM(width + 67), SUM(width + 68), SUM(width + 69), SUM(width + 70), SUM(width + 71), SUM(width + 72), SUM(width + 73), SUM(width + 74), SUM(width + 75), SUM(width + 76), SUM(width + 77), SUM(width + 78), SUM(width + 79), SUM(width + 80), SUM(width + 81), SUM(width + 82), SUM(width + 83), SUM(width + 84), SUM(width + 85), SUM(width + 86), SUM(width + 87), SUM(width + 88), SUM(width + 89) FROM views;

-- 31. Engines and addresses
SELECT engine, address % 10 AS a, COUNT(*) AS c, SUM(refresh), AVG(width) FROM views WHERE phrase <> '' GROUP BY engine, a ORDER BY c DESC, engine, a LIMIT 10;

-- 32. Single views with a phrase: nobody shares them
-- = SELECT 0
SELECT COUNT(*) FROM (SELECT view_id, address, COUNT(*) AS c, SUM(refresh), AVG(width) FROM views WHERE phrase <> '' GROUP BY view_id, address ORDER BY c DESC LIMIT 10) AS t;

-- 33. Single views: nobody shares them
-- = SELECT 0
SELECT COUNT(*) FROM (SELECT view_id, address, COUNT(*) AS c, SUM(refresh), AVG(width) FROM views GROUP BY view_id, address ORDER BY c DESC LIMIT 10) AS t;

-- 34. Addresses by views
SELECT url, COUNT(*) AS c FROM views GROUP BY url ORDER BY c DESC, url LIMIT 10;

-- 35. A constant and addresses by views
SELECT 1 AS one, url, COUNT(*) AS c FROM views GROUP BY 1, url ORDER BY c DESC, url LIMIT 10;

-- 36. A number and numbers that follow from it
SELECT region, region - 1, region - 2, region - 3, COUNT(*) AS c FROM views GROUP BY region, region - 1, region - 2, region - 3 ORDER BY c DESC, region LIMIT 10;

-- 37. Addresses of a counter in a month
SELECT url, COUNT(*) AS n FROM views WHERE counter = 62 AND day >= '2023-07-01' AND day <= '2023-07-31' AND uncounted = 0 AND refresh = 0 AND url <> '' GROUP BY url ORDER BY n DESC, url LIMIT 10;

-- 38. Titles of a counter in a month
SELECT title, COUNT(*) AS n FROM views WHERE counter = 62 AND day >= '2023-07-01' AND day <= '2023-07-31' AND uncounted = 0 AND refresh = 0 AND title <> '' GROUP BY title ORDER BY n DESC, title LIMIT 10;

-- 39. Links of a counter, far down
SELECT url, COUNT(*) AS n FROM views WHERE counter = 62 AND day >= '2023-07-01' AND day <= '2023-07-31' AND refresh = 0 AND link <> 0 AND download = 0 GROUP BY url ORDER BY n DESC, url LIMIT 10 OFFSET 5;

-- 40. Sources, engines and where from
SELECT source, engine, advert, CASE WHEN (engine = 0 AND advert = 0) THEN referer ELSE '' END AS src, title AS dst, COUNT(*) AS n FROM views WHERE counter = 62 AND day >= '2023-07-01' AND day <= '2023-07-31' AND refresh = 0 GROUP BY source, engine, advert, src, dst HAVING COUNT(*) > 20 ORDER BY n DESC, source, engine, advert, src, dst LIMIT 10 OFFSET 10;

-- 41. Hashes of addresses by day
SELECT url_hash, day, COUNT(*) AS n FROM views WHERE counter = 62 AND day >= '2023-07-01' AND day <= '2023-07-31' AND refresh = 0 AND source IN (-1, 6) AND referer_hash = 4 GROUP BY url_hash, day HAVING COUNT(*) > 5 ORDER BY n DESC, url_hash, day LIMIT 10;

-- 42. Sizes of windows
SELECT client_width, client_height, COUNT(*) AS n FROM views WHERE counter = 62 AND day >= '2023-07-01' AND day <= '2023-07-31' AND refresh = 0 AND uncounted = 0 AND url_hash = 4 GROUP BY client_width, client_height ORDER BY n DESC, client_width, client_height LIMIT 10;

-- 43. Views by hour of two days
SELECT DATE_TRUNC('hour', seen) AS h, COUNT(*) AS n FROM views WHERE counter = 62 AND day >= '2023-07-14' AND day <= '2023-07-15' AND refresh = 0 AND uncounted = 0 GROUP BY DATE_TRUNC('hour', seen) HAVING COUNT(*) > 0 ORDER BY h LIMIT 10 OFFSET 10;
