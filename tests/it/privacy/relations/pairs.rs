//! One query over many databases: each beside its neighbours, beside others a step away, and kept
//! in other ways.

use std::collections::BTreeSet;

use hushql_engine::analysis::{InputShape, PrivateAggregate};
use hushql_engine::exec::Exact;

use super::rows::{Database, Gone};
use super::world::{Plan, Stored, World};
use super::{Held, Planned, Seen, analyzed, state};
use crate::privacy::sensitivity::{Dice, check, give_values};

/// A query that is planned.
pub struct Run<'a> {
    pub plan: &'a Plan,
    pub world: &'a World,
    pub part: &'a PrivateAggregate,
    /// Which of the query's parts it is.
    pub which: usize,
    pub planned: &'a Planned,
    pub sql: &'a str,
    pub hash: [u64; 4],
    /// The rows of a batch.
    pub cut: usize,
}

/// The pair of databases that came nearest to a claim.
struct Nearest {
    ratio: f64,
    pair: Option<(Database, Gone)>,
}

/// Tells what was tried when a check fails.
struct Told<'a> {
    run: &'a Run<'a>,
    database: &'a Database,
    gone: String,
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { run: Run { sql, world, .. }, database, gone } = self;
            println!("---- {sql}\nwithout {gone}");
            for (i, (relation, rows)) in
                world.plan.relations.iter().zip(&database.tables).enumerate()
            {
                let names: Vec<_> =
                    relation.fields.iter().map(|f| format!("{} {}", f.name, f.data_type)).collect();
                println!("{} {names:?} {:?}", relation.name, relation.role);
                for row in world.plan.public.get(&i).unwrap_or(rows) {
                    println!("  {row:?}");
                }
            }
        }
    }
}

impl Run<'_> {
    /// Checks databases and their neighbours until there were so many pairs.
    pub async fn databases(&self, dice: &mut Dice, pairs: usize, seen: &mut Seen) -> f64 {
        let before = seen.pairs;
        let mut nearest = Nearest { ratio: 0.0, pair: None };
        let mut last = Database::random(dice, self.plan);
        for _ in 0..3 * pairs {
            self.neighbours(dice, &last, seen, &mut nearest).await;
            if seen.pairs >= before + pairs {
                break;
            }
            last = Database::random(dice, self.plan);
        }
        if dice.one_in(8) {
            self.climb(dice, seen, &mut nearest).await;
        }
        if dice.one_in(10) {
            self.metamorphoses(dice, &last).await;
            seen.metamorphoses += 1;
        }
        nearest.ratio
    }

    /// Checks a database against all its neighbours; the result is the largest observed / claimed.
    pub async fn all_neighbours(
        &self,
        dice: &mut Dice,
        database: &Database,
        seen: &mut Seen,
    ) -> f64 {
        let mut nearest = Nearest { ratio: 0.0, pair: None };
        self.neighbours(dice, database, seen, &mut nearest).await;
        nearest.ratio
    }

    async fn outcome(&self, database: &Database) -> (Vec<Exact>, Held) {
        self.world.set(database, self.cut);
        self.planned.run().await
    }

    async fn neighbours(
        &self,
        dice: &mut Dice,
        database: &Database,
        seen: &mut Seen,
        nearest: &mut Nearest,
    ) {
        let subject = self.part.subject();
        let mut told = Told { run: self, database, gone: "nobody".to_owned() };
        let (full, held) = self.outcome(database).await;
        let units: Vec<Gone> = if subject.is_row() {
            let table = self.world.relation(&subject.tables()[0]);
            (0..database.tables[table].len()).map(|row| Gone::Row(table, row)).collect()
        } else {
            database.people(self.plan).into_iter().map(Gone::Person).collect()
        };
        if let (false, true, Some(most)) = (subject.is_row(), database.honest, subject.max_rows()) {
            let beyond = held.values().any(|own| own.values().sum::<u64>() > most);
            if beyond {
                println!("more than {most} rows: {}", self.sql);
            }
            seen.beyond += usize::from(beyond);
        }
        if self.planned.has_unit {
            let people: BTreeSet<String> = units.iter().map(ToString::to_string).collect();
            let held: Vec<_> = held.keys().collect();
            assert!(held.iter().all(|who| people.contains(*who)), "rows of nobody: {held:?}");
        }
        for unit in units {
            told.gone = unit.to_string();
            let (ratio, less) = self.pair(database, unit, &full, &held).await;
            seen.pairs += 1;
            if ratio >= nearest.ratio {
                *nearest = Nearest { ratio, pair: Some((database.clone(), unit)) };
            }
            if dice.one_in(3) {
                let sums = (full.as_slice(), less.as_slice());
                self.alone(database, unit, sums, &held).await;
            }
        }
    }

    /// Checks a database against itself without one unit; the result is the largest observed /
    /// claimed, and what is left.
    async fn pair(
        &self,
        database: &Database,
        unit: Gone,
        full: &[Exact],
        held: &Held,
    ) -> (f64, Vec<Exact>) {
        let (less, others) = self.outcome(&database.without(self.plan, unit)).await;
        if self.planned.has_unit {
            let who = unit.to_string();
            let expected = held.iter().filter(|(owner, _)| **owner != who);
            assert!(others.iter().eq(expected), "others' rows changed: {others:?}");
        } else {
            let none = Default::default();
            let (all, rest) = (held.get("").unwrap_or(&none), others.get("").unwrap_or(&none));
            assert!(rest.iter().all(|(row, n)| all.get(row) >= Some(n)), "a row came by leaving");
            let gone = all.values().sum::<u64>() - rest.values().sum::<u64>();
            let most = self.part.subject().max_rows().unwrap();
            assert!(gone <= most, "{gone} rows of one, {most} claimed");
        }
        (check(self.sql, self.part, full, &less), less)
    }

    /// Checks a unit in a database of its own: its rows are the same, and its sums are what it adds
    /// to others'.
    async fn alone(
        &self,
        database: &Database,
        unit: Gone,
        (full, less): (&[Exact], &[Exact]),
        held: &Held,
    ) {
        let (own, alone) = self.outcome(&database.only(self.plan, unit)).await;
        if self.planned.has_unit {
            let who = unit.to_string();
            let expected = held.iter().filter(|(owner, _)| **owner == who);
            assert!(alone.iter().eq(expected), "a person's rows depend on others: {alone:?}");
        }
        for (i, measure) in self.part.measures().iter().enumerate() {
            if let (
                InputShape::Sums,
                Exact::Vectors(full),
                Exact::Vectors(less),
                Exact::Vectors(own),
            ) = (measure.input_shape(), &full[i], &less[i], &own[i])
            {
                let change = |(f, l): (&Vec<i128>, &Vec<i128>)| -> Vec<i128> {
                    f.iter().zip(l).map(|(f, l)| f - l).collect()
                };
                let change: Vec<Vec<i128>> = full.iter().zip(less).map(change).collect();
                assert_eq!(change, *own, "sums do not add up over people");
            }
        }
    }

    /// Goes on from the nearest pair in small steps, and keeps those that come no less near.
    async fn climb(&self, dice: &mut Dice, seen: &mut Seen, nearest: &mut Nearest) {
        const STEPS: usize = 30;
        let Some((mut database, unit)) = nearest.pair.take() else { return };
        let begun = nearest.ratio;
        for _ in 0..STEPS {
            let Some(next) = database.mutated(dice, self.plan, unit) else { break };
            let _told = Told { run: self, database: &next, gone: unit.to_string() };
            let (full, held) = self.outcome(&next).await;
            let (ratio, _) = self.pair(&next, unit, &full, &held).await;
            if ratio >= nearest.ratio {
                nearest.ratio = ratio;
                database = next.clone();
            }
        }
        seen.climbs.0 += 1;
        seen.climbs.1 += nearest.ratio - begun;
    }

    /// The rows of small batches: one, or some where many tables are joined. A batch of a join has
    /// the buffers of every batch that its texts may come from: twelve batches of six tables each
    /// were three million for every row, and took all memory.
    fn few(&self) -> usize {
        const MOST_SCANS: usize = 4;
        let plan = self.part.input().display_indent().to_string();
        if plan.matches("TableScan").count() > MOST_SCANS { 4 } else { 1 }
    }

    /// Partitions, batches, the order of rows and how they are kept change nothing, nor do rows
    /// that are there while planning.
    async fn metamorphoses(&self, dice: &mut Dice, database: &Database) {
        let Self { plan, world, planned, sql, hash, .. } = self;
        let _told = Told { run: self, database, gone: "order".to_owned() };
        world.set(database, 8_192);
        let expected = planned.exact().await;
        let few = self.few();
        let (partitions, batch_rows) = dice.pick(&[(1, few), (2, 8_192), (7, few), (16, few)]);
        let stored = dice.pick(&[
            Stored::Batches,
            Stored::Dictionary,
            Stored::Parquet { statistics: true },
            Stored::Parquet { statistics: false },
        ]);
        for (partitions, batch_rows, stored) in
            [(partitions, batch_rows, Stored::Batches), (1, few, Stored::Batches), (2, few, stored)]
        {
            let shuffled = database.shuffled(dice);
            let other = plan.open_as(partitions, stored, Some(&shuffled));
            other.set(&shuffled, batch_rows);
            let analysis = match analyzed(sql, &other) {
                Ok(analysis) => analysis,
                // Some expressions over dictionaries are refused.
                Err(_) if stored == Stored::Dictionary => continue,
                Err(refusal) => panic!("{stored:?}: {refusal}"),
            };
            if stored == Stored::Batches {
                let own = self.part.input().display_indent().to_string();
                assert_eq!(own, analysis.parts()[self.which].input().display_indent().to_string());
            }
            let state = state(partitions, batch_rows);
            give_values(&analysis, hash[0]);
            let part = &analysis.parts()[self.which];
            let planned = Planned::new(part, state, *hash).await.unwrap();
            assert_eq!(
                expected,
                planned.exact().await,
                "{partitions} partitions, {batch_rows} rows, {stored:?}"
            );
        }
    }
}
