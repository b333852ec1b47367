//! What random queries join: public and private rows, along links and beside them, in FROM and in
//! conditions.

use super::super::release::{number, predicate};
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
                let mut side = |col: &Col, most: usize| match self.dice.below(most) {
                    0 => self.altered(col),
                    _ => col.sql.clone(),
                };
                on.push(format!("{} {op} {}", side(&there, 6), side(here, 3)));
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

    /// A value that is computed from a column, and that several of its values may share.
    fn altered(&mut self, col: &Col) -> String {
        let written: &[&str] = match col.kind {
            Kind::Int => &["@ % 3", "@ + 1", "@ / 2"],
            Kind::Float => &["FLOOR(@)", "CAST(@ AS BIGINT)"],
            Kind::Text => &["UPPER(@)", "LEFT(@, 1)"],
            Kind::Time => &["CAST(@ AS DATE)", "DATE_TRUNC('month', @)"],
            Kind::Flag => &["NOT @"],
        };
        self.dice.pick(written).replace('@', &col.sql)
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
        // Columns of rows without a match are NULL; others still lead along links, in a chain of
        // outer joins.
        let chained = self.dice.one_in(2);
        let lost = |cols: &mut Vec<Col>| {
            for col in cols {
                let leads = matches!(col.origin, Some((_, "u" | "k" | "j" | "l1" | "l2")));
                col.unit = false;
                col.origin = col.origin.filter(|_| leads && chained);
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

    /// A condition with a subquery.
    pub(super) fn semi(&mut self, joins: &mut Joins, depth: usize) {
        let cols = joins.cols.clone();
        joins.conditions.extend(self.with_subquery(&cols, depth));
    }

    /// A condition with IN, EXISTS or an aggregate of the rows that match: as a whole, or somewhere
    /// inside.
    pub fn with_subquery(&mut self, cols: &[Col], depth: usize) -> Option<String> {
        let condition = match self.dice.below(4) {
            0 => {
                let (value, kind) = self.value(cols, depth)?;
                match kind {
                    Kind::Text => format!("{value} = {}", self.dice.pick(&["'p'", "'q'"])),
                    Kind::Time | Kind::Flag => format!("{value} IS NULL"),
                    Kind::Int | Kind::Float => {
                        let op = self.dice.pick(&["> 1", "= 0", "<= 2", "IS NULL", "< 5"]);
                        format!("{value} {op}")
                    }
                }
            }
            _ => self.membership(cols, depth)?,
        };
        let inside = self.dice.below(8);
        if inside < 4 {
            return Some(condition);
        }
        self.ops.insert("mark");
        let other = predicate(self.dice, cols, 0);
        Some(match inside {
            4 => format!("({condition} OR {other})"),
            5 => format!("(NOT ({condition} AND {other}))"),
            6 => format!("(CASE WHEN {condition} THEN {other} ELSE FALSE END)"),
            _ => format!("(({condition}) IS NOT TRUE)"),
        })
    }

    /// An aggregate of the rows that match, and its kind.
    pub fn value(&mut self, cols: &[Col], depth: usize) -> Option<(String, Kind)> {
        let public = self.rows || self.dice.one_in(4);
        let (from, inner, on) = if public {
            let item = self.public()?;
            let (here, there) = self.alike(cols, &item.cols)?;
            (format!("FROM {}", item.sql), item.cols, vec![format!("{there} = {here}")])
        } else {
            let body = self.body(depth);
            let (on, _) = self.connection(cols, &body.cols)?;
            (body.sql, body.cols, on)
        };
        self.ops.insert(if public { "public aggregate" } else { "correlated aggregate" });
        let any = inner[self.dice.below(inner.len())].clone();
        let (call, kind) = match self.dice.below(6) {
            0 | 1 => ("COUNT(*)".to_owned(), Kind::Int),
            2 => (format!("COUNT(DISTINCT {})", any.sql), Kind::Int),
            3 => (format!("{}({})", self.dice.pick(&["MIN", "MAX"]), any.sql), any.kind),
            4 => (format!("SUM(CLAMP({}, -2, 6))", number(self.dice, &inner, 0)), Kind::Float),
            _ => (
                format!("AVG(CLAMP(CAST({} AS DOUBLE), -3, 5))", number(self.dice, &inner, 0)),
                Kind::Float,
            ),
        };
        let word = if from.contains(" WHERE ") { "AND" } else { "WHERE" };
        Some((format!("(SELECT {call} {from} {word} {})", on.join(" AND ")), kind))
    }

    /// Two columns of one kind.
    fn alike(&mut self, here: &[Col], there: &[Col]) -> Option<(String, String)> {
        let there = there[self.dice.below(there.len())].clone();
        let here: Vec<&Col> = here.iter().filter(|c| c.kind == there.kind).collect();
        if here.is_empty() {
            return None;
        }
        Some((here[self.dice.below(here.len())].sql.clone(), there.sql))
    }

    /// IN and EXISTS.
    fn membership(&mut self, cols: &[Col], depth: usize) -> Option<String> {
        let not = self.dice.one_in(3);
        let negation = if not { "NOT " } else { "" };
        if self.rows || self.dice.one_in(4) {
            let item = self.public()?;
            let (here, there) = self.alike(cols, &item.cols)?;
            self.ops.insert("public semi");
            return Some(if self.dice.one_in(2) {
                format!("{here} {negation}IN (SELECT {there} FROM {})", item.sql)
            } else {
                format!("{negation}EXISTS (SELECT 1 FROM {} WHERE {there} = {here})", item.sql)
            });
        }
        let body = self.body(depth);
        let (pairs, _) = self.pairs(cols, &body.cols)?;
        self.ops.insert(if not { "anti" } else { "semi" });
        if let ([(here, there)], true) = (pairs.as_slice(), self.dice.one_in(2)) {
            let having = match self.dice.one_in(4) {
                true => {
                    self.ops.insert("having");
                    format!(" GROUP BY {there} HAVING COUNT(*) > 1")
                }
                false => String::new(),
            };
            return Some(format!("{here} {negation}IN (SELECT {there} {}{having})", body.sql));
        }
        let mut on: Vec<String> = pairs.iter().map(|(l, r)| format!("{l} = {r}")).collect();
        let all: Vec<Col> = cols.iter().chain(&body.cols).cloned().collect();
        let having = match self.dice.below(6) {
            0 => {
                self.ops.insert("having");
                let keys: Vec<&str> = pairs.iter().map(|(_, there)| there.as_str()).collect();
                let of = number(self.dice, &body.cols, 0);
                let having = self.dice.pick(&["COUNT(*) > 1", "COUNT(*) = 1", "MAX(v) > 1"]);
                format!(" GROUP BY {} HAVING {}", keys.join(", "), having.replace('v', &of))
            }
            1 => {
                on.push(predicate(self.dice, &all, 0));
                String::new()
            }
            // Names of the outermost rows, two levels up.
            2 if depth > 0 => {
                let inner = self.body(0);
                if let Some((further, _)) = self.connection(&body.cols, &inner.cols) {
                    self.ops.insert("two levels");
                    let all: Vec<Col> = cols.iter().chain(&inner.cols).cloned().collect();
                    let across = match self.alike(cols, &inner.cols) {
                        Some((here, there)) => format!("{there} >= {here}"),
                        None => predicate(self.dice, &all, 0),
                    };
                    let word = if inner.sql.contains(" WHERE ") { "AND" } else { "WHERE" };
                    let further = further.join(" AND ");
                    on.push(format!(
                        "EXISTS (SELECT 1 {} {word} {further} AND {across})",
                        inner.sql
                    ));
                }
                String::new()
            }
            _ => String::new(),
        };
        let word = if body.sql.contains(" WHERE ") { "AND" } else { "WHERE" };
        Some(format!(
            "{negation}EXISTS (SELECT 1 {} {word} {}{having})",
            body.sql,
            on.join(" AND ")
        ))
    }
}
