//! Databases from hostile pools, and their neighbours.
//!
//! A database is either honest, so that every declaration holds of it, or not: then several parents share a key, and
//! units have more rows than was declared. Both have dangling links, NULL links and rows of nobody.

use std::collections::{BTreeMap, BTreeSet};

use super::world::{Kind, Plan, Relation, Role};
use crate::sensitivity::Dice;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    Null,
    Int(i64),
    Float(f64),
    Text(&'static str),
}

/// A value that can be compared, as keys are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Int(i64),
    Text(&'static str),
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
        }
    }
}

pub type Row = Vec<Value>;

const KEYS: [i64; 6] = [0, 1, 2, 3, 1 << 53, (1 << 53) + 1];
const KEY_TEXTS: [&str; 6] = ["", "1", "2", "A", "a", "é"];
const SMALL: [i64; 4] = [0, 1, 2, i64::MIN];
const INTEGERS: [i64; 13] =
    [0, 1, -1, 2, 3, 10, 11, 7, i64::MIN, i64::MAX, i64::MAX - 1, 1 << 53, (1 << 53) + 1];
const FLOATS: [f64; 15] = [
    0.0,
    -0.0,
    1.0,
    -2.5,
    3.0,
    2.999_999_999_999_999_6,
    0.1,
    f64::NAN,
    -f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    5e-324,
    1e308,
    -7.25,
    9_007_199_254_740_993.0,
];
const TEXTS: [&str; 8] = ["p", "q", "r", "", "12", "-3", "P", "nan"];

impl Value {
    pub fn int(&self) -> Option<i64> {
        if let Self::Int(value) = self { Some(*value) } else { None }
    }

    pub fn float(&self) -> Option<f64> {
        if let Self::Float(value) = self { Some(*value) } else { None }
    }

    pub fn text(&self) -> Option<&str> {
        if let Self::Text(value) = self { Some(value) } else { None }
    }

    pub fn key(&self) -> Option<Key> {
        match self {
            Self::Int(value) => Some(Key::Int(*value)),
            Self::Text(value) => Some(Key::Text(value)),
            Self::Null | Self::Float(_) => None,
        }
    }
}

fn random_key(dice: &mut Dice, text: bool) -> Value {
    match (dice.one_in(12), text) {
        (true, _) => Value::Null,
        (false, true) => Value::Text(dice.pick(&KEY_TEXTS)),
        (false, false) => Value::Int(dice.pick(&KEYS)),
    }
}

fn random_row(dice: &mut Dice, relation: &Relation, text: bool) -> Row {
    let fields = relation.fields.iter();
    let values = fields.map(|field| match (field.name, field.kind) {
        ("u" | "k" | "l1", _) => random_key(dice, text),
        ("j" | "l2", _) => {
            if dice.one_in(12) {
                Value::Null
            } else {
                Value::Int(dice.pick(&SMALL))
            }
        }
        _ if dice.one_in(7) => Value::Null,
        (_, Kind::Int) => Value::Int(dice.pick(&INTEGERS)),
        (_, Kind::Float) => Value::Float(dice.pick(&FLOATS)),
        (_, Kind::Text) => Value::Text(dice.pick(&TEXTS)),
    });
    values.collect()
}

/// The rows of a public table: keys come once, or any number of times.
pub fn public_rows(dice: &mut Dice, relation: &Relation, text: bool) -> Vec<Row> {
    let n = dice.below(7);
    let mut rows: Vec<Row> = (0..n).map(|_| random_row(dice, relation, text)).collect();
    if dice.one_in(2) {
        let mut seen = BTreeSet::new();
        rows.retain(|row| row[relation.at("k")].key().is_none_or(|key| seen.insert(key)));
    }
    rows
}

/// The rows of all tables, private ones only.
#[derive(Debug, Clone)]
pub struct Database {
    pub tables: Vec<Vec<Row>>,
    /// Whether every declaration holds.
    pub honest: bool,
}

/// The people that rows belong to, by table and row: two where several parents have one key.
type Owners = Vec<Vec<BTreeSet<Key>>>;

impl Database {
    pub fn random(dice: &mut Dice, plan: &Plan) -> Self {
        let honest = dice.one_in(2);
        let most = dice.pick(&[1, 4, 8, 8, 12]);
        let mut tables: Vec<Vec<Row>> = Vec::new();
        for (i, relation) in plan.relations.iter().enumerate() {
            let n = if relation.is_public() { 0 } else { dice.below(most + 1) };
            let mut rows: Vec<Row> =
                (0..n).map(|_| random_row(dice, relation, plan.text)).collect();
            if let Some((parent, link)) = relation.link() {
                // Most links lead somewhere.
                for row in rows.iter_mut().filter(|_| !tables[parent].is_empty()) {
                    if dice.one_in(7) {
                        continue;
                    }
                    let to = &tables[parent][dice.below(tables[parent].len())];
                    for (own, reference) in link.columns.iter().zip(&link.references) {
                        row[relation.at(own)] = to[plan.relations[parent].at(reference)];
                    }
                }
            }
            if dice.one_in(3) && rows.len() > 1 {
                // Rows that are equal in all columns.
                let copy = rows[0].clone();
                let last = rows.len() - 1;
                rows[last] = copy;
            }
            tables.push(rows);
            if honest {
                let mut so_far = Self { tables, honest };
                so_far.keep_declarations(plan, i);
                tables = so_far.tables;
            }
        }
        Self { tables, honest }
    }

    /// Drops the rows of one table that break what is declared of it and of its columns.
    fn keep_declarations(&mut self, plan: &Plan, table: usize) {
        let relation = &plan.relations[table];
        let mut counts: BTreeMap<Key, u64> = BTreeMap::new();
        let owners = self.owners(plan);
        let mut keep: Vec<bool> = Vec::new();
        let mut keys: Vec<BTreeSet<Vec<Key>>> = vec![BTreeSet::new(); plan.relations.len()];
        for (row, owners) in self.tables[table].iter().zip(&owners[table]) {
            let full = relation.max_rows().is_some_and(|most| {
                owners.iter().any(|owner| counts.get(owner).copied().unwrap_or(0) >= most)
            });
            let referring = plan.relations.iter().enumerate().filter_map(|(i, child)| {
                let (_, link) = child.link().filter(|(parent, _)| *parent == table)?;
                let key = link.references.iter().map(|column| row[relation.at(column)].key());
                Some((i, key.collect::<Option<Vec<_>>>()?))
            });
            let referring: Vec<_> = referring.collect();
            let taken = referring.iter().any(|(i, key)| keys[*i].contains(key));
            keep.push(!full && !taken);
            if !full && !taken {
                for owner in owners {
                    *counts.entry(*owner).or_default() += 1;
                }
                for (i, key) in referring {
                    keys[i].insert(key);
                }
            }
        }
        let mut keep = keep.into_iter();
        self.tables[table].retain(|_| keep.next().unwrap());
    }

    pub fn owners(&self, plan: &Plan) -> Owners {
        let mut owners: Owners = Vec::new();
        for (relation, rows) in plan.relations.iter().zip(&self.tables) {
            let of_row = |row: &Row| -> BTreeSet<Key> {
                match &relation.role {
                    Role::Person { .. } => row[relation.at("u")].key().into_iter().collect(),
                    Role::Row | Role::Public => BTreeSet::new(),
                    Role::Child { parent, link } => {
                        let own = link.columns.iter().map(|c| row[relation.at(c)].key());
                        let Some(own) = own.collect::<Option<Vec<_>>>() else {
                            return BTreeSet::new();
                        };
                        let above = &plan.relations[*parent];
                        let leads = self.tables[*parent].iter().zip(&owners[*parent]);
                        let leads = leads.filter(|(to, _)| {
                            let to = link.references.iter().map(|c| to[above.at(c)].key());
                            to.eq(own.iter().copied().map(Some))
                        });
                        leads.flat_map(|(_, owners)| owners.iter().copied()).collect()
                    }
                }
            };
            let of_table = rows.iter().map(of_row).collect();
            owners.push(of_table);
        }
        owners
    }

    /// Everyone who has a row.
    pub fn people(&self, plan: &Plan) -> BTreeSet<Key> {
        self.owners(plan).into_iter().flatten().flatten().collect()
    }

    fn keeping(&self, owners: &Owners, keep: impl Fn(&BTreeSet<Key>) -> bool) -> Self {
        let tables = self.tables.iter().zip(owners).map(|(rows, owners)| {
            let kept = rows.iter().zip(owners).filter(|(_, owners)| keep(owners));
            kept.map(|(row, _)| row.clone()).collect()
        });
        Self { tables: tables.collect(), honest: self.honest }
    }

    /// Without a person: the rows that lead to nobody else.
    pub fn without(&self, plan: &Plan, person: Key) -> Self {
        let alone = BTreeSet::from([person]);
        self.keeping(&self.owners(plan), |owners| *owners != alone)
    }

    /// A person's rows, and nobody's.
    pub fn only(&self, plan: &Plan, person: Key) -> Self {
        self.keeping(&self.owners(plan), |owners| owners.is_empty() || owners.contains(&person))
    }

    /// Without one row of a table.
    pub fn without_row(&self, table: usize, row: usize) -> Self {
        let mut less = self.clone();
        less.tables[table].remove(row);
        less
    }

    /// With one row of a table only.
    pub fn only_row(&self, table: usize, row: usize) -> Self {
        let mut one = self.clone();
        one.tables[table] = vec![self.tables[table][row].clone()];
        one
    }

    pub fn shuffled(&self, dice: &mut Dice) -> Self {
        let mut other = self.clone();
        for rows in &mut other.tables {
            for i in (1..rows.len()).rev() {
                rows.swap(i, dice.below(i + 1));
            }
        }
        other
    }
}
