-- A survey of households and their devices, for the suites of SmartNoise and OpenDP. A person answers once; a device reports several times.
CREATE TABLE survey AS SELECT i AS pid, CAST(16 + i * 13 % 80 AS INTEGER) AS age, CAST(i % 2 AS INTEGER) AS sex, CAST(1 + i * 7 % 16 AS INTEGER) AS educ, i * 5 % 3 = 0 AS married,
    CAST(i * 397 % 120000 AS INTEGER) AS income, DATE '2024-01-01' + CAST(i % 60 AS INTEGER) AS started, ['north', 'south', 'west'][1 + i % 3] AS area
FROM range(4000) AS r(i);
CREATE TABLE reports AS SELECT i % 500 AS device, ['cold', 'mild', 'warm'][1 + i % 500 % 3] AS region, i % 500 % 4 = 0 AS refurbished, 'b' || i % 500 % 5 AS building,
    CAST(i * 7 % 50 AS INTEGER) AS crashes, 40 + i * 3 % 300 / 10.0::DOUBLE AS heat, TIMESTAMP '2024-03-01 00:00:00' + INTERVAL (i * 7 % 2000) HOUR + INTERVAL (i % 60) SECOND AS seen
FROM range(2500) AS r(i);
CREATE TABLE labour AS SELECT i % 800 AS person, CAST(2022 + i // 800 % 2 AS INTEGER) AS year, CAST(1 + i // 800 % 4 AS INTEGER) AS quarter, CASE WHEN i % 13 = 0 THEN NULL ELSE CAST(i * 7 % 60 AS INTEGER) END AS hours,
    CASE WHEN i % 17 = 0 THEN NULL ELSE i * 3 % 500 / 10.0::DOUBLE END AS usual, CASE WHEN i % 3 = 0 THEN NULL ELSE CAST(1 + i % 4 AS INTEGER) END AS status, CAST(18 + i % 800 % 70 AS INTEGER) AS age,
    CASE WHEN i % 5 = 0 THEN 'a' ELSE ['a', 'b', 'c', 'd'][1 + i % 4] END AS letter, TIMESTAMP '2022-01-01 00:00:00' + INTERVAL (i * 11 % 17000) HOUR + INTERVAL (i % 3600) SECOND AS at_time
FROM range(3200) AS r(i);
CREATE TABLE levels AS SELECT i AS educ, 'level ' || i AS title, i % 3 AS step FROM range(1, 17) AS r(i);
CREATE TABLE quarters AS SELECT y AS year, q AS quarter FROM range(2022, 2024) AS a(y), range(1, 5) AS b(q);
CREATE TABLE letters AS SELECT unnest(['a', 'b', 'c', 'd']) AS letter;
