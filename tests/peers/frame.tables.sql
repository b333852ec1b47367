-- Two tables of numbers, for the suite of H2O's benchmark of data frames: id6 is the person. Three public tables are joined.
CREATE TABLE frame AS SELECT 'a' || i % 10 AS id1, 'b' || i * 3 % 10 AS id2, 'c' || i * 7 % 60 AS id3, CAST(i // 10 % 10 AS INTEGER) AS id4, CAST(i * 11 % 12 AS INTEGER) AS id5, i * 17 % 900 AS id6,
    CAST(1 + i // 7 % 5 AS INTEGER) AS v1, CAST(1 + i // 3 % 15 AS INTEGER) AS v2, i * 37 % 10000 / 100.0::DOUBLE AS v3
FROM range(4500) AS r(i);
CREATE TABLE small AS SELECT CAST(i AS INTEGER) AS id4, 's' || i AS name, i * 1.5::DOUBLE AS v4 FROM range(8) AS r(i);
CREATE TABLE medium AS SELECT CAST(i AS INTEGER) AS id5, 'b' || i % 10 AS label, i * 2.5::DOUBLE AS v4 FROM range(10) AS r(i);
CREATE TABLE big AS SELECT 'c' || i AS id3, i * 3.5::DOUBLE AS v4 FROM range(55) AS r(i);
