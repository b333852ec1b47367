-- Page views of a counter of web pages, for the suite of ClickBench. A visitor has up to 20 views.
CREATE TABLE views AS SELECT i AS view_id, i * 7 % 400 AS visitor, TIMESTAMP '2023-07-01 00:00:00' + INTERVAL (i * 61 % 744) HOUR + INTERVAL (i * 7 % 60) MINUTE AS seen, DATE '2023-07-01' + CAST(i * 61 % 744 // 24 AS INTEGER) AS day,
    CAST(CASE WHEN i % 5 = 0 THEN 60 + i % 3 ELSE 62 END AS INTEGER) AS counter, CAST(CASE WHEN i % 4 = 0 THEN i * 3 % 7 ELSE 0 END AS INTEGER) AS advert, CAST(1 + i * i % 23 AS INTEGER) AS region,
    CAST(320 + i * 7 % 40 * 40 AS INTEGER) AS width, CAST(i * 11 % 7 AS INTEGER) AS phone, CASE WHEN i % 3 = 0 THEN '' ELSE ['alpha', 'beta', 'gamma'][1 + i % 7 % 3] END AS model,
    CAST(i % 6 AS INTEGER) AS engine, CASE WHEN i % 2 = 0 THEN '' ELSE ['cheap flights', 'news', 'recipes', 'weather', 'google maps'][1 + i * i % 5] END AS phrase,
    'https://www.' || ['google', 'site', 'shop'][1 + i % 3] || '.example/' || i % 40 AS url, ['Google page', 'Shop page', 'Other page'][1 + i * i % 3] AS title,
    CASE WHEN i % 4 = 1 THEN '' ELSE 'http://' || ['www.first', 'second', 'third'][1 + i % 3] || '.example/path' END AS referer, CAST(i * 13 % 1000 AS INTEGER) AS address,
    CAST(i % 10 = 0 AS INTEGER) AS refresh, CAST(i % 15 = 0 AS INTEGER) AS uncounted, CAST(i % 8 = 0 AS INTEGER) AS link, CAST(i % 20 = 0 AS INTEGER) AS download,
    CAST(i % 9 - 1 AS INTEGER) AS source, CAST(i * i % 12 AS BIGINT) AS url_hash, CAST(i * i % 9 AS BIGINT) AS referer_hash, CAST(800 + i % 4 * 100 AS INTEGER) AS client_width, CAST(600 + i % 3 * 100 AS INTEGER) AS client_height
FROM range(8000) AS r(i);
