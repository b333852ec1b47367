-- The declarations of `trips`: any number of rows a person.
CREATE EXTERNAL TABLE trips (id BIGINT, side VARCHAR, n BIGINT)
  STORED AS CSV LOCATION 'visits.csv';
ALTER TABLE trips SET PRIVACY UNIT (id);
ALTER TABLE trips ALTER COLUMN side SET PRIVACY DOMAIN IN ('left', 'right');
ALTER TABLE trips ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 9);
