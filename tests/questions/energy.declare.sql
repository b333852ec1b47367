-- A power company: a household is the unit, with all readings of its meter and all faults. Tariffs are public.
ALTER TABLE households SET PRIVACY UNIT (id) UNIQUE;
ALTER TABLE readings SET PRIVACY UNIT VIA (household_id) REFERENCES households(id) MAX ROWS 12;
ALTER TABLE faults SET PRIVACY UNIT VIA (household_id) REFERENCES households(id) MAX ROWS 6;
ALTER TABLE tariffs SET PUBLIC;

ALTER TABLE households ALTER COLUMN tariff SET PRIVACY DOMAIN REFERENCES tariffs(name);
ALTER TABLE households ALTER COLUMN persons SET PRIVACY DOMAIN BETWEEN (1, 5);
ALTER TABLE households ALTER COLUMN heating SET PRIVACY DOMAIN IN ('gas', 'district', 'oil', 'heat pump');
ALTER TABLE households ALTER COLUMN solar SET PRIVACY DOMAIN IN (TRUE, FALSE);

ALTER TABLE readings ALTER COLUMN at SET PRIVACY DOMAIN BETWEEN (TIMESTAMP '2025-01-01 00:00:00', TIMESTAMP '2025-12-31 23:59:59');
ALTER TABLE readings ALTER COLUMN kwh SET PRIVACY DOMAIN BETWEEN (0, 500);

ALTER TABLE faults ALTER COLUMN reported SET PRIVACY DOMAIN BETWEEN (TIMESTAMP '2025-01-01 00:00:00', TIMESTAMP '2025-12-31 23:59:59');

CREATE PRIVACY BUDGET energy FOR households LIMIT (epsilon=1000000, delta=0.5) PER QUERY (default_delta=1e-7, default=1);
