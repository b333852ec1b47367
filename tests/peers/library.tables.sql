-- A library, for the suite of Tumult Analytics: members, and the books that they take home.
CREATE TABLE members AS SELECT i AS id, 'm' || i AS name, CAST(5 + i * 7 % 90 AS INTEGER) AS age, ['f', 'm', 'x'][1 + CASE WHEN i % 50 = 0 THEN 2 ELSE i % 2 END] AS gender,
    ['college', 'primary', 'secondary', 'university'][1 + i * 7 // 13 % 4] AS schooling, CAST(27000 + i * 3 % 20 AS INTEGER) AS postcode, CAST(i * 11 % 90 AS INTEGER) AS borrowed,
    ['crime', 'drama', 'maths', 'travel'][1 + i * 3 % 4] AS favourite, ['crime', 'drama', 'maths', 'travel'][1 + (i // 4 + 1) % 4] AS second, DATE '2010-01-01' + CAST(i * 17 % 4000 AS INTEGER) AS joined
FROM range(2000) AS r(i);
CREATE TABLE loans AS SELECT i * 7 % 2000 AS member_id, CAST(1000 + i * i % 30 AS INTEGER) AS book, ['crime', 'drama', 'maths', 'travel'][1 + i // 3 % 4] AS genre, ['crime', 'drama', NULL][1 + i % 3] AS other,
    DATE '2024-01-01' + CAST(i * 3 % 90 AS INTEGER) AS taken
FROM range(8000) AS r(i);
CREATE TABLE postcodes AS SELECT CAST(27000 + i AS INTEGER) AS postcode, 'town ' || i % 6 AS city, ['Durham', 'Orange', 'Wake'][1 + i % 3] AS county FROM range(25) AS r(i);
CREATE TABLE books AS SELECT CAST(1000 + i AS INTEGER) AS book, 'title ' || i AS title, CAST(5 + i AS INTEGER) AS price FROM range(30) AS r(i);
