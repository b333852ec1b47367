-- The tables of format 9, to the letter: a vault of that format has exactly these.

CREATE TABLE seal (
    kind TEXT PRIMARY KEY NOT NULL CHECK (kind IN ('tables', 'budgets', 'analysts', 'ledger', 'history', 'home', 'answers', 'roles', 'versions')),
    digest BLOB NOT NULL CHECK (length(digest) = 32)
) STRICT, WITHOUT ROWID;

CREATE TABLE declared_table (
    name TEXT PRIMARY KEY NOT NULL,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE joined_space (
    space TEXT NOT NULL,
    other TEXT NOT NULL,
    PRIMARY KEY (space, other),
    CONSTRAINT in_order CHECK (space < other)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER spaces_stay_joined BEFORE DELETE ON joined_space
BEGIN SELECT RAISE(ABORT, 'what was joined is never parted'); END;

CREATE TRIGGER joined_spaces_stay_as_they_are BEFORE UPDATE ON joined_space
BEGIN SELECT RAISE(ABORT, 'what was joined is never parted'); END;

CREATE TABLE budget (
    name TEXT PRIMARY KEY NOT NULL,
    table_name TEXT NOT NULL REFERENCES declared_table (name),
    notion TEXT NOT NULL CHECK (notion IN ('epsilon', 'rho', 'coupons')),
    promised_epsilon INTEGER CHECK (promised_epsilon > 0),
    promised_delta INTEGER CHECK (promised_delta > 0),
    coupon_epsilon INTEGER CHECK (coupon_epsilon > 0),
    limit_loss INTEGER NOT NULL CHECK (limit_loss > 0),
    limit_delta INTEGER NOT NULL CHECK (limit_delta >= 0),
    floor_loss INTEGER NOT NULL CHECK (floor_loss >= 0),
    floor_delta INTEGER NOT NULL CHECK (floor_delta >= 0),
    default_epsilon INTEGER CHECK (default_epsilon > 0),
    default_rho INTEGER CHECK (default_rho > 0),
    default_delta INTEGER CHECK (default_delta >= 0),
    min_loss INTEGER CHECK (min_loss > 0),
    max_loss INTEGER CHECK (max_loss > 0),
    max_delta INTEGER CHECK (max_delta >= 0),
    spent_loss INTEGER NOT NULL CHECK (spent_loss >= 0),
    spent_delta INTEGER NOT NULL CHECK (spent_delta >= 0),
    replay TEXT NOT NULL DEFAULT 'OFF' CHECK (replay IN ('ALL', 'OWN', 'OFF')),
    CONSTRAINT promise CHECK ((promised_epsilon IS NULL) = (promised_delta IS NULL)
        AND (promised_epsilon IS NULL OR notion IN ('rho', 'coupons'))),
    CONSTRAINT coupon CHECK ((coupon_epsilon IS NULL) = (notion <> 'coupons')
        AND (coupon_epsilon IS NULL OR promised_epsilon IS NOT NULL)),
    CONSTRAINT cap_loss CHECK (spent_loss <= max(limit_loss, floor_loss)),
    CONSTRAINT cap_delta CHECK (spent_delta <= max(limit_delta, floor_delta))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER budget_never_refunds BEFORE UPDATE ON budget
WHEN NEW.spent_loss < OLD.spent_loss OR NEW.spent_delta < OLD.spent_delta
BEGIN SELECT RAISE(ABORT, 'spent budget is never given back'); END;

CREATE TRIGGER budget_counts_as_it_did BEFORE UPDATE ON budget
WHEN NEW.notion IS NOT OLD.notion
    OR (NEW.promised_epsilon IS NULL) IS NOT (OLD.promised_epsilon IS NULL)
    OR NEW.coupon_epsilon IS NOT OLD.coupon_epsilon
BEGIN SELECT RAISE(ABORT, 'how a budget counts never changes'); END;

CREATE TABLE analyst (
    name TEXT PRIMARY KEY NOT NULL CHECK (length(name) BETWEEN 1 AND 64)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger (
    sequence INTEGER PRIMARY KEY NOT NULL CHECK (sequence > 0),
    charge INTEGER NOT NULL CHECK (charge BETWEEN 1 AND sequence),
    analyst TEXT NOT NULL REFERENCES analyst (name),
    spaces TEXT NOT NULL,
    budgets TEXT NOT NULL,
    mechanism TEXT NOT NULL,
    parameters TEXT NOT NULL,
    sensitivity TEXT NOT NULL,
    epsilon_nano INTEGER CHECK (epsilon_nano >= 0),
    delta_atto INTEGER CHECK (delta_atto >= 0),
    rho_nano INTEGER NOT NULL CHECK (rho_nano >= 0),
    rho_delta_atto INTEGER NOT NULL CHECK (rho_delta_atto >= 0),
    plan_hash BLOB NOT NULL CHECK (length(plan_hash) = 32),
    at INTEGER,
    statement BLOB CHECK (length(statement) = 32),
    cells TEXT,
    nonce BLOB NOT NULL CHECK (length(nonce) = 16),
    chain BLOB NOT NULL CHECK (length(chain) = 32),
    CONSTRAINT pair CHECK ((epsilon_nano IS NULL) = (delta_atto IS NULL)),
    CONSTRAINT carried_over CHECK ((at IS NULL) = (statement IS NULL))
) STRICT;

CREATE INDEX ledger_of_analyst ON ledger (analyst, sequence);

CREATE TRIGGER ledger_grows_at_its_end BEFORE INSERT ON ledger
WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM ledger)
BEGIN SELECT RAISE(ABORT, 'the ledger grows at its end only'); END;

CREATE TRIGGER ledger_is_never_changed BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is never changed'); END;

CREATE TRIGGER ledger_is_never_deleted BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is never deleted'); END;

CREATE TABLE slice (
    budget TEXT NOT NULL REFERENCES budget (name),
    analyst TEXT NOT NULL CHECK (length(analyst) BETWEEN 1 AND 64),
    limit_loss INTEGER NOT NULL CHECK (limit_loss > 0),
    limit_delta INTEGER NOT NULL CHECK (limit_delta >= 0),
    PRIMARY KEY (budget, analyst)
) STRICT, WITHOUT ROWID;

CREATE TABLE cell_column (
    budget TEXT PRIMARY KEY NOT NULL REFERENCES budget (name),
    table_name TEXT NOT NULL,
    column_name TEXT NOT NULL,
    since INTEGER NOT NULL CHECK (since >= 0)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER cells_never_begin_earlier BEFORE UPDATE ON cell_column
WHEN NEW.since < OLD.since
BEGIN SELECT RAISE(ABORT, 'cells never begin earlier than they did'); END;

CREATE TABLE table_version (
    name TEXT PRIMARY KEY NOT NULL,
    number INTEGER NOT NULL CHECK (number > 0)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER table_version_only_grows BEFORE UPDATE ON table_version
WHEN NEW.number <= OLD.number OR NEW.name IS NOT OLD.name
BEGIN SELECT RAISE(ABORT, 'the version of a table only grows'); END;

CREATE TRIGGER table_version_is_never_deleted BEFORE DELETE ON table_version
BEGIN SELECT RAISE(ABORT, 'the version of a table is never deleted'); END;

CREATE TABLE refreshed_table (
    name TEXT PRIMARY KEY NOT NULL,
    number INTEGER NOT NULL CHECK (number > 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE statement (
    hash BLOB PRIMARY KEY NOT NULL CHECK (length(hash) = 32),
    text TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER statement_is_never_changed BEFORE UPDATE ON statement
BEGIN SELECT RAISE(ABORT, 'a statement is never changed'); END;

CREATE TRIGGER statement_is_never_deleted BEFORE DELETE ON statement
BEGIN SELECT RAISE(ABORT, 'a statement is never deleted'); END;

CREATE TABLE declaration (
    sequence INTEGER PRIMARY KEY NOT NULL CHECK (sequence > 0),
    at INTEGER NOT NULL,
    analyst TEXT NOT NULL,
    change TEXT NOT NULL,
    chain BLOB NOT NULL CHECK (length(chain) = 32)
) STRICT;

CREATE TRIGGER declaration_grows_at_its_end BEFORE INSERT ON declaration
WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM declaration)
BEGIN SELECT RAISE(ABORT, 'the history grows at its end only'); END;

CREATE TRIGGER declaration_is_never_changed BEFORE UPDATE ON declaration
BEGIN SELECT RAISE(ABORT, 'the history is never changed'); END;

CREATE TRIGGER declaration_is_never_deleted BEFORE DELETE ON declaration
BEGIN SELECT RAISE(ABORT, 'the history is never deleted'); END;

CREATE TABLE home (
    only INTEGER PRIMARY KEY NOT NULL CHECK (only = 1),
    name BLOB NOT NULL,
    file INTEGER NOT NULL,
    folder INTEGER NOT NULL,
    anchored INTEGER NOT NULL CHECK (anchored IN (0, 1))
) STRICT;

CREATE TABLE release_table (
    sequence INTEGER PRIMARY KEY NOT NULL CHECK (sequence > 0),
    name TEXT NOT NULL UNIQUE,
    creator TEXT NOT NULL,
    charge INTEGER NOT NULL CHECK (charge BETWEEN 1 AND sequence - 1),
    about TEXT NOT NULL,
    answer BLOB NOT NULL,
    salt BLOB NOT NULL CHECK (length(salt) = 16),
    digest BLOB NOT NULL CHECK (length(digest) = 32)
) STRICT;

CREATE TRIGGER release_table_is_never_changed BEFORE UPDATE ON release_table
BEGIN SELECT RAISE(ABORT, 'a stored answer is never changed'); END;

CREATE TABLE release_grant (
    name TEXT NOT NULL,
    analyst TEXT NOT NULL,
    PRIMARY KEY (name, analyst)
) STRICT, WITHOUT ROWID;

CREATE TABLE kept_draw (
    key BLOB NOT NULL CHECK (length(key) = 32),
    analyst TEXT NOT NULL,
    sequence INTEGER NOT NULL CHECK (sequence > 0),
    charge INTEGER NOT NULL CHECK (charge BETWEEN 1 AND sequence - 1),
    drawn BLOB NOT NULL,
    salt BLOB NOT NULL CHECK (length(salt) = 16),
    PRIMARY KEY (key, analyst)
) STRICT, WITHOUT ROWID;

CREATE INDEX kept_draw_by_analyst ON kept_draw (analyst, sequence, length(drawn));

CREATE INDEX ledger_replays ON ledger (analyst, parameters, at) WHERE mechanism = 'REPLAY';

CREATE TRIGGER kept_draw_is_never_changed BEFORE UPDATE ON kept_draw
BEGIN SELECT RAISE(ABORT, 'a kept draw is never changed'); END;

CREATE TABLE role (
    name TEXT PRIMARY KEY NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    verifier TEXT NOT NULL,
    may_log_in INTEGER NOT NULL CHECK (may_log_in IN (0, 1)),
    valid_until INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE log_in_secret (
    number INTEGER PRIMARY KEY NOT NULL CHECK (number = 1),
    secret BLOB NOT NULL CHECK (length(secret) = 32)
) STRICT;

CREATE TABLE checkpoint (
    sequence INTEGER PRIMARY KEY NOT NULL CHECK (sequence > 0 AND sequence % 256 = 0),
    chain BLOB NOT NULL CHECK (length(chain) = 32),
    sums TEXT NOT NULL,
    cells TEXT NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32)
) STRICT;

CREATE TRIGGER checkpoint_grows_at_its_end BEFORE INSERT ON checkpoint
WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 256 FROM checkpoint)
BEGIN SELECT RAISE(ABORT, 'checkpoints grow at their end only'); END;

CREATE TRIGGER checkpoint_is_never_changed BEFORE UPDATE ON checkpoint
BEGIN SELECT RAISE(ABORT, 'a checkpoint is never changed'); END;

CREATE TRIGGER checkpoint_is_never_deleted BEFORE DELETE ON checkpoint
BEGIN SELECT RAISE(ABORT, 'a checkpoint is never deleted'); END;
