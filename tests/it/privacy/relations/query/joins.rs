//! What random queries join: public and private rows, along links and beside them, in FROM and in conditions.

use super::super::release::predicate;
use super::super::world::{Kind, Relation};
use super::{Col, Gen, Item};

type Pairs = Vec<(String, String)>;

/// FROM as it grows.
pub(super) struct Joins {
    pub(super) items: Vec<String>,
    pub(super) conditions: Vec<String>,
    pub(super) cols: Vec<Col>,
}

impl Joins {
    pub(super) fn new(first: Item) -> Self {
        Self { items: vec![first.sql], conditions: Vec::new(), cols: first.cols }
    }

    fn add(&mut self, join: &str) {
        if let Some(all) = self.items.last_mut() {
            *all = format!("{all} {join}");
        }
    }
}

impl Gen<'_> {
    fn public(&mut self) -> Option<Item> {
        let all = self.tables(Relation::is_public);
        if all.is_empty() {
            return None;
        }
        let table = self.dice.pick(&all);
        let item = self.table(table);
        if !self.dice.one_in(4) {
            return Some(item);
        }
        // Read while the query is planned.
        let alias = self.name("t");
        let world = self.world;
        let inner = &world.plan.relations[table].name;
        let select = match self.dice.below(3) {
            0 => format!("SELECT k, COUNT(*) AS a, MAX(c) AS c FROM {inner} GROUP BY k"),
            1 => format!("SELECT DISTINCT k, a, c FROM {inner} WHERE k IS NOT NULL"),
            _ => format!("SELECT k, a, c FROM {inner} ORDER BY k, a, c LIMIT 2"),
        };
        let cols = item
            .cols
            .iter()
            .filter(|col| [".k", ".a", ".c"].iter().any(|end| col.sql.ends_with(end)));
        let bare = |col: &Col| col.sql.rsplit('.').next().unwrap_or_default().to_owned();
        let cols = cols.map(|col| col.named(format!("{alias}.{}", bare(col)))).collect();
        Some(Item { sql: format!("({select}) AS {alias}"), cols })
    }

    pub(super) fn join_public(&mut self, joins: &mut Joins, comma: bool, depth: usize) {
        let Some(item) = self.public() else {
            if !self.rows {
                self.join_private(joins, comma, depth);
            }
            return;
        };
        let mut on = Vec::new();
        for _ in 0..self.dice.pick(&[0, 1, 1, 1, 2]) {
            let i = self.dice.below(item.cols.len());
            let there = item.cols[i].clone();
            let here: Vec<Col> =
                joins.cols.iter().filter(|c| c.kind == there.kind).cloned().collect();
            if !here.is_empty() {
                let here = &here[self.dice.below(here.len())];
                let op = self.dice.pick(&["=", "=", "=", "=", "<", "<>"]);
                on.push(format!("{} {op} {}", there.sql, here.sql));
            }
        }
        let equal = on.iter().any(|c| c.contains(" = "));
        if comma {
            self.ops.insert(if equal { "public equal" } else { "public pairs" });
            joins.items.push(item.sql);
            joins.conditions.append(&mut on);
        } else if on.is_empty() {
            self.ops.insert("public pairs");
            joins.add(&format!("CROSS JOIN {}", item.sql));
        } else {
            let left = self.dice.one_in(3);
            self.ops.insert(match (left, equal) {
                (true, _) => "public left",
                (false, true) => "public equal",
                (false, false) => "public pairs",
            });
            let kind = if left { "LEFT JOIN" } else { "JOIN" };
            joins.add(&format!("{kind} {} ON {}", item.sql, on.join(" AND ")));
        }
        joins.cols.extend(item.cols);
    }

    pub(super) fn join_private(&mut self, joins: &mut Joins, comma: bool, depth: usize) {
        let item = self.private(depth);
        let Some((mut on, why)) = self.connection(&joins.cols, &item.cols) else { return };
        if self.dice.one_in(4) {
            let all: Vec<Col> = joins.cols.iter().chain(&item.cols).cloned().collect();
            on.push(predicate(self.dice, &all, 0));
        }
        if self.dice.one_in(15) {
            on.remove(0);
        }
        if comma {
            self.ops.insert(why);
            joins.items.push(item.sql);
            joins.conditions.extend(on);
            joins.cols.extend(item.cols);
            return;
        }
        let on = if on.is_empty() { "TRUE".to_owned() } else { on.join(" AND ") };
        let lost = |cols: &mut Vec<Col>| {
            for col in cols {
                (col.unit, col.origin) = (false, None);
            }
        };
        let mut cols = item.cols;
        let kind = match self.dice.below(6) {
            0 => {
                self.ops.insert("left");
                lost(&mut cols);
                "LEFT JOIN"
            }
            1 => {
                self.ops.insert("right");
                lost(&mut joins.cols);
                "RIGHT JOIN"
            }
            _ => {
                self.ops.insert(why);
                "JOIN"
            }
        };
        joins.add(&format!("{kind} {} ON {on}", item.sql));
        joins.cols.append(&mut cols);
    }

    /// Conditions under which two items keep to one unit, and why they do.
    fn connection(&mut self, left: &[Col], right: &[Col]) -> Option<(Vec<String>, &'static str)> {
        let (pairs, why) = self.pairs(left, right)?;
        let text = |(a, b): (String, String)| {
            if self.dice.one_in(2) { format!("{a} = {b}") } else { format!("{b} = {a}") }
        };
        Some((pairs.into_iter().map(text).collect(), why))
    }

    fn pairs(&mut self, left: &[Col], right: &[Col]) -> Option<(Pairs, &'static str)> {
        let mut all: Vec<(Pairs, &'static str)> = Vec::new();
        let mut found = |gen_: &mut Self, l: &[(usize, &str)], r: &[(usize, &str)], why| {
            let pairs = l.iter().zip(r).map(|(l, r)| {
                let one = |gen_: &mut Self, cols: &[Col], of: &(usize, &str)| {
                    let same = |c: &&Col| c.origin.is_some_and(|o| o == *of);
                    let cols: Vec<&Col> = cols.iter().filter(same).collect();
                    // Where a table is read twice, each column may come from another row of it.
                    (!cols.is_empty()).then(|| cols[gen_.dice.below(cols.len())].sql.clone())
                };
                Some((one(gen_, left, l)?, one(gen_, right, r)?))
            });
            if let Some(pairs) = pairs.collect::<Option<Pairs>>() {
                all.push((pairs, why));
            }
        };
        let world = self.world;
        let links = world.plan.relations.iter().enumerate();
        let links: Vec<_> = links.filter_map(|(i, t)| Some((i, t.link()?))).collect();
        for (child, (parent, link)) in &links {
            let own: Vec<_> = link.columns.iter().map(|c| (*child, c.as_str())).collect();
            let to: Vec<_> = link.references.iter().map(|c| (*parent, c.as_str())).collect();
            found(self, &to, &own, "along a link");
            found(self, &own, &to, "along a link");
            found(self, &to, &to, "of one parent");
            for (other, (further, sibling)) in &links {
                if further == parent && sibling.references == link.references {
                    let others: Vec<_> =
                        sibling.columns.iter().map(|c| (*other, c.as_str())).collect();
                    found(self, &own, &others, "of one parent");
                }
            }
        }
        let units = |cols: &[Col]| -> Vec<String> {
            cols.iter().filter(|c| c.unit).map(|c| c.sql.clone()).collect()
        };
        let (l, r) = (units(left), units(right));
        if !l.is_empty() && !r.is_empty() {
            for _ in 0..2 {
                let pair =
                    (l[self.dice.below(l.len())].clone(), r[self.dice.below(r.len())].clone());
                all.push((vec![pair], "of one unit"));
            }
        }
        if all.is_empty() {
            return None;
        }
        Some(all.swap_remove(self.dice.below(all.len())))
    }

    /// A comparison with what a subquery tells of public rows, or releases of private ones.
    pub(super) fn scalar(&mut self, joins: &mut Joins) {
        let numbers: Vec<&Col> = joins.cols.iter().filter(|c| c.kind == Kind::Int).collect();
        if numbers.is_empty() {
            return;
        }
        let here = numbers[self.dice.below(numbers.len())].sql.clone();
        let public = self.tables(Relation::is_public);
        let one = if public.is_empty() || self.dice.one_in(2) {
            let rows = self.rows;
            let private = self.tables(|t| !t.is_public() && t.is_row() == rows);
            let table = &self.world.plan.relations[self.dice.pick(&private)];
            self.ops.insert("released value");
            let call = self.dice.pick(&["COUNT(*)", "SUM(CLAMP(b, 0, 5))"]);
            format!("LAPLACE(eps=1, rows=2) {call} FROM {}", table.name)
        } else {
            let table = &self.world.plan.relations[self.dice.pick(&public)];
            self.ops.insert("public value");
            format!("{} FROM {}", self.dice.pick(&["MAX(a)", "COUNT(*)", "MIN(b)"]), table.name)
        };
        let op = self.dice.pick(&["<", ">=", "<>"]);
        joins.conditions.push(format!("{here} {op} (SELECT {one})"));
    }

    /// IN and EXISTS.
    pub(super) fn semi(&mut self, joins: &mut Joins, depth: usize) {
        let not = self.dice.one_in(3);
        let negation = if not { "NOT " } else { "" };
        if self.rows || self.dice.one_in(4) {
            let Some(item) = self.public() else { return };
            let i = self.dice.below(item.cols.len());
            let there = item.cols[i].clone();
            let here: Vec<Col> =
                joins.cols.iter().filter(|c| c.kind == there.kind).cloned().collect();
            if here.is_empty() {
                return;
            }
            let here = here[self.dice.below(here.len())].clone();
            self.ops.insert("public semi");
            joins.conditions.push(if self.dice.one_in(2) {
                format!("{} {negation}IN (SELECT {} FROM {})", here.sql, there.sql, item.sql)
            } else {
                format!(
                    "{negation}EXISTS (SELECT 1 FROM {} WHERE {} = {})",
                    item.sql, there.sql, here.sql
                )
            });
            return;
        }
        let body = self.body(depth);
        let Some((pairs, _)) = self.pairs(&joins.cols, &body.cols) else { return };
        self.ops.insert(if not { "anti" } else { "semi" });
        joins.conditions.push(match pairs.as_slice() {
            [(here, there)] if self.dice.one_in(2) => {
                format!("{here} {negation}IN (SELECT {there} {})", body.sql)
            }
            pairs => {
                let mut on: Vec<String> = pairs.iter().map(|(l, r)| format!("{l} = {r}")).collect();
                if self.dice.one_in(3) {
                    let all: Vec<Col> = joins.cols.iter().chain(&body.cols).cloned().collect();
                    on.push(predicate(self.dice, &all, 0));
                }
                let word = if body.sql.contains(" WHERE ") { "AND" } else { "WHERE" };
                format!("{negation}EXISTS (SELECT 1 {} {word} {})", body.sql, on.join(" AND "))
            }
        });
    }
}
