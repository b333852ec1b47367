-- A small shop, for the suites of GoogleSQL, CWI and Qrlew: a person has orders, an order items, an item shipments. All is arithmetic.
CREATE TABLE people AS SELECT i AS id, 'p' || i AS name, CAST(18 + i * 7 % 61 AS INTEGER) AS age, CASE WHEN i % 2 = 0 THEN 'f' ELSE 'm' END AS sex,
    ['east', 'north', 'south', 'west'][1 + i * 3 % 4] AS region, CAST(i * 911 % 90000 AS INTEGER) AS income, DATE '2023-01-01' + CAST(i * 13 % 700 AS INTEGER) AS joined,
    CASE WHEN i % 9 = 0 THEN NULL ELSE CAST(i % 5 AS INTEGER) END AS score
FROM range(600) AS r(i);
CREATE TABLE visits AS SELECT i * 37 % 600 AS person_id, TIMESTAMP '2024-01-01 00:00:00' + INTERVAL (i * 97 % 8760) HOUR + INTERVAL (i % 60) MINUTE AS seen,
    CAST(1 + i * 11 % 5 AS INTEGER) AS kind, ['apple', 'bread', 'cocoa', 'dates'][1 + i * 7 // 5 % 4] AS word, i * 7 % 600 / 10.0::DOUBLE AS minutes,
    CASE WHEN i % 11 = 0 THEN NULL ELSE CAST(i * i % 21 AS INTEGER) END AS points, CAST(i * 31 % 50000 / 100.0 AS DECIMAL(9, 2)) AS paid
FROM range(3000) AS r(i);
CREATE TABLE orders AS SELECT i AS id, CASE WHEN i % 6 = 0 THEN i % 100 ELSE i * 17 % 600 END AS person_id, DATE '2024-01-01' + CAST(i * 29 % 366 AS INTEGER) AS placed,
    ['phone', 'shop', 'web'][1 + i * 5 % 3] AS channel, CAST(i * 37 % 20000 / 100.0 AS DECIMAL(9, 2)) AS amount, 'note ' || i % 40 AS note
FROM range(1800) AS r(i);
CREATE TABLE items AS SELECT i AS id, i % 1800 AS order_id, (i * 7 + i // 1800) % 25 AS good_id, CAST(1 + i * 3 % 9 AS INTEGER) AS quantity, CAST(i * 41 % 9900 / 100.0 AS DECIMAL(9, 2)) AS price
FROM range(5400) AS r(i);
CREATE TABLE shipments AS SELECT i AS id, i * 7 % 5400 AS item_id, CAST(1 + i % 30 AS INTEGER) AS weight, ['air', 'road', 'sea'][1 + i % 3] AS way FROM range(4000) AS r(i);
CREATE TABLE goods AS SELECT i AS id, 'good ' || i AS title, ['food', 'tools', 'toys'][1 + i % 3] AS category, CAST(5 + i * 3 % 40 AS INTEGER) AS list_price FROM range(25) AS r(i);
CREATE TABLE kinds AS SELECT i AS kind, 'kind ' || i AS label, i % 2 AS half FROM range(1, 6) AS r(i);
CREATE TABLE words AS SELECT unnest(['apple', 'bread', 'cocoa', 'dates']) AS word, unnest([1, 2, 3, 4]) AS rank;
CREATE TABLE regions AS SELECT unnest(['east', 'north', 'south', 'west']) AS region, unnest([10, 20, 30, 40]) AS code;
