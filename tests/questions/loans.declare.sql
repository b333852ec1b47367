-- A bank: a client is the unit, with all loans and their payments.
ALTER TABLE clients SET PRIVACY UNIT (id) UNIQUE;
ALTER TABLE loans SET PRIVACY UNIT VIA (client_id) REFERENCES clients(id) MAX ROWS 5;
ALTER TABLE payments SET PRIVACY UNIT VIA (loan_id) REFERENCES loans(id) MAX ROWS 30;

ALTER TABLE clients ALTER COLUMN born SET PRIVACY DOMAIN BETWEEN (DATE '1930-01-01', DATE '2007-12-31');
ALTER TABLE clients ALTER COLUMN income SET PRIVACY DOMAIN BETWEEN (0, 200000);
ALTER TABLE clients ALTER COLUMN region SET PRIVACY DOMAIN IN ('north', 'south', 'east', 'west');

ALTER TABLE loans ALTER COLUMN start_date SET PRIVACY DOMAIN BETWEEN (DATE '2019-01-01', DATE '2025-12-31');
ALTER TABLE loans ALTER COLUMN term SET PRIVACY DOMAIN BETWEEN (6, 120);
ALTER TABLE loans ALTER COLUMN amount SET PRIVACY DOMAIN BETWEEN (0, 75000);
ALTER TABLE loans ALTER COLUMN purpose SET PRIVACY DOMAIN IN ('car', 'home', 'furniture', 'travel', 'studies');
ALTER TABLE loans ALTER COLUMN status SET PRIVACY DOMAIN IN ('paid', 'running', 'default');

CREATE PRIVACY BUDGET loans FOR clients LIMIT (epsilon=1000000, delta=0.5) PER QUERY (default_delta=1e-7, default=1);
