-- Trade, for the suite of TPC-H: buyers, their deals, the lines of deals; parts, sellers, offers and the map are public.
CREATE TABLE buyers AS SELECT i AS id, 'buyer ' || i AS name, CAST(i * 7 % 8 AS INTEGER) AS nation, ['autos', 'houses', 'machines', 'tools'][1 + i % 4] AS segment, CAST(i * 271 % 10999 - 999 AS DECIMAL(9, 2)) AS balance, CAST(10 + i * 3 % 8 AS VARCHAR) || '-' || i AS phone
FROM range(900) AS r(i);
CREATE TABLE deals AS SELECT i AS id, CASE WHEN i % 3 = 0 THEN i % 300 ELSE i * 11 % 700 END AS buyer, DATE '1994-01-01' + CAST(i * 31 % 1400 AS INTEGER) AS day, ['1 urgent', '2 high', '3 low'][1 + i * 5 % 3] AS priority, ['f', 'o', 'p'][1 + i % 3] AS status, CASE WHEN i % 13 = 0 THEN 'special wish' ELSE 'usual' END AS remark
FROM range(2800) AS r(i);
CREATE TABLE lines AS SELECT i % 2800 AS deal, CAST(i * 7 % 80 AS INTEGER) AS part, CAST((i * 7 % 80 + i // 2800 * 5) % 20 AS INTEGER) AS seller, CAST(1 + i * 3 % 50 AS INTEGER) AS quantity, CAST(100 + i * 17 % 900 AS DECIMAL(9, 2)) AS price,
    CAST(i % 11 / 100.0 AS DECIMAL(4, 2)) AS discount, CAST(i % 9 / 100.0 AS DECIMAL(4, 2)) AS tax, ['a', 'n', 'r'][1 + i % 3] AS flag, ['f', 'o'][1 + i // 3 % 2] AS state,
    DATE '1994-01-05' + CAST(i % 2800 * 31 % 1400 + i % 90 AS INTEGER) AS shipped, DATE '1994-01-05' + CAST(i % 2800 * 31 % 1400 + 45 AS INTEGER) AS due, DATE '1994-01-06' + CAST(i % 2800 * 31 % 1400 + i % 90 + i % 7 AS INTEGER) AS received, ['air', 'mail', 'rail', 'ship'][1 + i * 3 % 4] AS way
FROM range(11200) AS r(i);
CREATE TABLE parts AS SELECT CAST(i AS INTEGER) AS id, ['blue', 'forest', 'green'][1 + i % 3] || ' part ' || i AS name, 'brand ' || i % 5 AS brand, ['brass', 'promo steel', 'tin'][1 + i % 3] AS kind, CAST(1 + i % 10 AS INTEGER) AS size, ['bag', 'box'][1 + i % 2] AS pack FROM range(80) AS r(i);
CREATE TABLE sellers AS SELECT CAST(i AS INTEGER) AS id, 'seller ' || i AS name, CAST(i % 8 AS INTEGER) AS nation, CASE WHEN i % 7 = 0 THEN 'Customer Complaints' ELSE 'fine' END AS remark FROM range(20) AS r(i);
CREATE TABLE offers AS SELECT CAST(i % 80 AS INTEGER) AS part, CAST((i % 80 + i // 80 * 5) % 20 AS INTEGER) AS seller, CAST(10 + i * 7 % 90 AS DECIMAL(9, 2)) AS cost, CAST(i * 13 % 500 AS INTEGER) AS stock FROM range(320) AS r(i);
CREATE TABLE nations AS SELECT CAST(i AS INTEGER) AS id, ['Brazil', 'Canada', 'Egypt', 'France', 'Germany', 'India', 'Japan', 'Kenya'][1 + i] AS name, CAST(i % 3 AS INTEGER) AS region FROM range(8) AS r(i);
CREATE TABLE regions AS SELECT CAST(i AS INTEGER) AS id, ['america', 'asia', 'europe'][1 + i] AS name FROM range(3) AS r(i);
