//! One state of a database for all scans of a statement.
//!
//! In: an address. Out: the columns of its tables from the server's catalog, and the rows of all
//! tables as of one moment. The first connection locks each table against changes of its columns,
//! and exports its snapshot. If two scans run at once, the second one reads that snapshot through
//! its own connection.
//!
//! ```text
//! first     BEGIN; LOCK t; export 00000003-0000001B-1 ── COPY t …  ────────────────▶ end of the statement
//! second               BEGIN; SET TRANSACTION SNAPSHOT '00000003-0000001B-1' ── COPY t …
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use tokio::sync::mpsc::Sender;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::connect::{Connected, Trouble, connect};
use super::server_types::{ServerColumn, ServerColumnType, WireEncoding, found};
use crate::exec::source::server_location::{Address, Relation, identifier};

/// The longest time that the server's catalog may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The number of bytes in one block for the decoder.
const BLOCK: usize = 256 << 10;

/// The beginning of every transaction. The engine's own clock ends a statement, so the server's
/// clocks are off; but the server waits no longer than this for a lock that others hold.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
const SETTINGS: &str = "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = '10s'";

/// Turns off the clock of a transaction, which servers have since version 17. It is set before the
/// transaction begins.
const UNTIMED: &str = "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout'";

/// What the catalog says of a table, asked before the table is used. A table is foreign if any part
/// of it is: a partition, or a table that a view reads.
const KIND: &str = "
WITH RECURSIVE below(id) AS (
    SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname::text = $1 AND c.relname::text = $2
  UNION
    SELECT x.id FROM below b, LATERAL (
        SELECT i.inhrelid AS id FROM pg_catalog.pg_inherits i WHERE i.inhparent = b.id
      UNION ALL
        SELECT d.refobjid FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_depend d ON d.objid = r.oid
        WHERE r.ev_class = b.id AND d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
          AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
    ) x
)
SELECT c.relkind::text,
    EXISTS (SELECT FROM below b JOIN pg_catalog.pg_class f ON f.oid = b.id WHERE f.relkind = 'f'),
    pg_catalog.current_setting('server_encoding')::text,
    pg_catalog.current_setting('server_version_num')::pg_catalog.int4,
    pg_catalog.has_table_privilege(c.oid, 'SELECT')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname::text = $1 AND c.relname::text = $2";

/// The columns of a table. A domain is sent as the type below it, so that type is asked for. The
/// last two columns tell whether the server computes the column at every read, and whether its
/// values are words of an enum. Servers before version 12 compute no columns, and have no such
/// attribute.
const COLUMNS: &str = "
SELECT a.attname::text, base.id, base.modifier, pg_catalog.format_type(a.atttypid, a.atttypmod),
    coalesce(pg_catalog.to_jsonb(a) OPERATOR(pg_catalog.->>) 'attgenerated' = 'v', false),
    base.kind = 'e'
FROM pg_catalog.pg_attribute a
CROSS JOIN LATERAL (
    WITH RECURSIVE types(id, modifier, kind, below, of_below) AS (
        SELECT t.oid, a.atttypmod, t.typtype::text, t.typbasetype, t.typtypmod
        FROM pg_catalog.pg_type t WHERE t.oid = a.atttypid
      UNION ALL
        SELECT t.oid, d.of_below, t.typtype::text, t.typbasetype, t.typtypmod
        FROM types d JOIN pg_catalog.pg_type t ON t.oid = d.below WHERE d.kind = 'd'
    )
    SELECT id, modifier, kind FROM types WHERE kind <> 'd'
) base
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname::text = $1 AND c.relname::text = $2 AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum";

/// A database as of one moment. The server is asked for nothing before the first use.
pub(super) struct Snapshot {
    address: Address,
    first: Arc<tokio::sync::Mutex<First>>,
    known: Mutex<SnapshotState>,
}

/// The first connection.
#[derive(Default)]
struct First {
    connected: Option<Connected>,
    /// True if the connection is useless except to hold its locks and its snapshot.
    is_spent: bool,
}

#[derive(Default)]
struct SnapshotState {
    exported: Option<String>,
    columns: BTreeMap<Relation, Arc<Vec<ServerColumn>>>,
}

/// An address must not appear in plans and messages.
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

/// A column to read: its name on the server, and its encoding.
#[derive(Debug, Clone)]
pub(super) struct ReadColumn {
    pub(super) name: String,
    pub(super) kind: WireEncoding,
}

impl Snapshot {
    pub(super) fn new(address: Address) -> Self {
        Self { address, first: Arc::default(), known: Mutex::default() }
    }

    fn known(&self, relation: &Relation) -> Option<Arc<Vec<ServerColumn>>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.columns.get(relation).cloned()
    }

    /// The columns of a table. The table is locked against changes, so they stay the same until
    /// this is dropped.
    ///
    /// # Guarantee
    /// No row of the table is read.
    ///
    /// # Errors
    /// The reason why the table cannot be read.
    pub(super) async fn columns(
        &self,
        relation: &Relation,
    ) -> Result<Arc<Vec<ServerColumn>>, Trouble> {
        if let Some(known) = self.known(relation) {
            return Ok(known);
        }
        let looked = tokio::time::timeout(PATIENCE, self.look(relation)).await;
        looked.unwrap_or(Err(Trouble::Locked))
    }

    async fn look(&self, relation: &Relation) -> Result<Arc<Vec<ServerColumn>>, Trouble> {
        let mut first = self.first.lock().await;
        if let Some(known) = self.known(relation) {
            return Ok(known);
        }
        if first.is_spent {
            return Err(Trouble::Failed);
        }
        // A caller that is cancelled in the middle leaves a useless transaction.
        first.is_spent = true;
        let client = match first.connected.take() {
            Some(connected) => first.connected.insert(connected).client()?,
            None => {
                let connected = connect(&self.address).await?;
                first.connected.insert(connected).client()?
            }
        };
        let columns = Arc::new(self.locked(client, relation).await?);
        first.is_spent = false;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.columns.insert(relation.clone(), Arc::clone(&columns));
        Ok(columns)
    }

    async fn locked(
        &self,
        client: &Client,
        relation: &Relation,
    ) -> Result<Vec<ServerColumn>, Trouble> {
        let name: [&(dyn tokio_postgres::types::ToSql + Sync); 2] =
            [&relation.schema, &relation.name];
        let kind = client.query_opt(KIND, &name).await?.ok_or(Trouble::NoTable)?;
        let is_foreign: bool = kind.try_get(1)?;
        let encoding: String = kind.try_get(2)?;
        let version: i32 = kind.try_get(3)?;
        let may_read: bool = kind.try_get(4)?;
        let kind: String = kind.try_get(0)?;
        if version < 110_000 {
            return Err(Trouble::Old);
        }
        // With another encoding, the server would fail on a text that has no equivalent in UTF-8.
        if encoding != "UTF8" {
            return Err(Trouble::Encoding);
        }
        if is_foreign {
            return Err(Trouble::Foreign);
        }
        if !may_read {
            return Err(Trouble::NoRight);
        }
        let is_first = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.exported.is_none()
        };
        if is_first {
            client.batch_execute(UNTIMED).await?;
            client.batch_execute(&format!("{BEGIN}; {SETTINGS}")).await?;
        }
        // The lock comes before the snapshot: TRUNCATE, or a rewrite of the table, makes it empty
        // in older snapshots.
        match kind.as_str() {
            "r" | "p" | "v" => {
                client
                    .batch_execute(&format!("LOCK TABLE {relation} IN ACCESS SHARE MODE"))
                    .await?;
            }
            "m" => {}
            _ => return Err(Trouble::NotATable),
        }
        if is_first {
            let exported = exported(client).await?;
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.exported = Some(exported);
        }
        let mut columns = Vec::new();
        for row in client.query(COLUMNS, &name).await? {
            let (oid, modifier): (u32, i32) = (row.try_get(1)?, row.try_get(2)?);
            let (name, shown) = (row.try_get(0)?, row.try_get(3)?);
            let is_computed: bool = row.try_get(4)?;
            let is_enum: bool = row.try_get(5)?;
            let found = match (is_computed, is_enum) {
                (true, _) => ServerColumnType::Computed,
                (false, true) => ServerColumnType::Readable(WireEncoding::Enum),
                (false, false) => found(oid, modifier),
            };
            columns.push(ServerColumn { name, found, shown });
        }
        // LOCK does not take a materialized view, but preparing a query on it locks it.
        client.prepare(&format!("SELECT FROM {relation}")).await?;
        Ok(columns)
    }

    /// Sends the rows of a table, in the format of binary COPY.
    ///
    /// # Errors
    /// The reason why that failed.
    pub(super) async fn copy(
        &self,
        relation: &Relation,
        columns: &[ReadColumn],
        to: &Sender<Vec<u8>>,
    ) -> Result<(), Trouble> {
        let expression = |column: &ReadColumn| column.kind.expression(&identifier(&column.name));
        let read: Vec<String> = columns.iter().map(expression).collect();
        let copy =
            format!("COPY (SELECT {} FROM {relation}) TO STDOUT (FORMAT binary)", read.join(", "));
        if let Ok(mut first) = Arc::clone(&self.first).try_lock_owned()
            && !first.is_spent
        {
            first.is_spent = true;
            if let Some(connected) = &first.connected {
                send(connected, &copy, to).await?;
            }
            first.is_spent = false;
            return Ok(());
        }
        let exported = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.exported.clone().ok_or(Trouble::Failed)?
        };
        let connected = connect(&self.address).await?;
        let begin = format!("{BEGIN}; SET TRANSACTION SNAPSHOT '{exported}'; {SETTINGS}");
        connected.client()?.batch_execute(UNTIMED).await?;
        connected.client()?.batch_execute(&begin).await?;
        let sent = send(&connected, &copy, to).await;
        // Dropping the connection blocks for a moment.
        drop(tokio::task::spawn_blocking(move || drop(connected)));
        sent
    }
}

/// The name by which other connections find the snapshot.
async fn exported(client: &Client) -> Result<String, Trouble> {
    let answer = client.simple_query("SELECT pg_catalog.pg_export_snapshot()").await?;
    let name = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    let is_name = |name: &String| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    name.filter(is_name).ok_or(Trouble::Failed)
}

async fn send(connected: &Connected, copy: &str, to: &Sender<Vec<u8>>) -> Result<(), Trouble> {
    connected.busy(true);
    let rows = connected.client()?.copy_out(copy).await?;
    pin_mut!(rows);
    let mut block = Vec::new();
    while let Some(bytes) = rows.next().await {
        block.extend_from_slice(&bytes?);
        if block.len() >= BLOCK {
            to.send(std::mem::take(&mut block)).await.map_err(|_| Trouble::Failed)?;
        }
    }
    connected.busy(false);
    to.send(block).await.map_err(|_| Trouble::Failed)
}
