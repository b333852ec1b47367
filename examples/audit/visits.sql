-- The declarations of `visits`: up to five rows a person.
CREATE EXTERNAL TABLE visits (id BIGINT, side VARCHAR, n BIGINT)
  STORED AS CSV LOCATION 'visits.csv';
ALTER TABLE visits SET PRIVACY UNIT (id) MAX ROWS 5;
ALTER TABLE visits ALTER COLUMN side SET PRIVACY DOMAIN IN ('left', 'right');
ALTER TABLE visits ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 9);
