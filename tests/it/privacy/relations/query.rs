//! Random queries over several tables: what stands below a release, to a depth.
//!
//! Most of what is made keeps to one unit, and some of it does not: then it must be refused, or be
//! harmless. A query remembers which operators it is made of, so that it can be told how near to
//! its claim each of them came.

use std::collections::BTreeSet;

mod joins;

use joins::Joins;

use super::release::{number, predicate};
use super::world::{Kind, Relation, World};
use crate::privacy::sensitivity::Dice;

const FRAMES: [&str; 6] = [
    " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
];

/// A column in reach.
#[derive(Debug, Clone)]
pub struct Col {
    /// As it is written.
    pub sql: String,
    pub kind: Kind,
    pub unit: bool,
    /// The table and column that it is, unchanged.
    pub origin: Option<(usize, &'static str)>,
    /// Whether a public table has its values.
    pub public: bool,
}

impl Col {
    fn named(&self, sql: String) -> Self {
        Self { sql, ..self.clone() }
    }
}

/// One item of FROM.
#[derive(Debug, Clone)]
struct Item {
    sql: String,
    cols: Vec<Col>,
}

/// FROM and WHERE, and the columns in reach.
#[derive(Debug, Clone)]
pub struct Body {
    pub sql: String,
    pub cols: Vec<Col>,
}

impl Body {
    pub fn unit(&self) -> Option<&Col> {
        self.cols.iter().find(|col| col.unit)
    }
}

pub struct Gen<'a> {
    pub dice: &'a mut Dice,
    pub world: &'a World,
    /// Whether rows are units.
    pub rows: bool,
    /// The operators that were used.
    pub ops: BTreeSet<&'static str>,
    names: usize,
}

impl<'a> Gen<'a> {
    pub fn new(dice: &'a mut Dice, world: &'a World, rows: bool) -> Self {
        Self { dice, world, rows, ops: BTreeSet::new(), names: 0 }
    }

    fn name(&mut self, what: &str) -> String {
        self.names += 1;
        format!("{what}{}", self.names)
    }

    fn tables(&self, wanted: impl Fn(&Relation) -> bool) -> Vec<usize> {
        let all = self.world.plan.relations.iter().enumerate();
        all.filter(|(_, relation)| wanted(relation)).map(|(i, _)| i).collect()
    }

    /// FROM and WHERE over private rows.
    pub fn body(&mut self, depth: usize) -> Body {
        let first = self.private(depth);
        let mut joins = Joins::new(first);
        let more = if depth == 0 { 0 } else { self.dice.pick(&[0, 0, 1, 1, 1, 2, 3]) };
        let comma = self.dice.one_in(2);
        for _ in 0..more {
            if self.rows || self.dice.one_in(3) {
                self.join_public(&mut joins, comma, depth - 1);
            } else {
                self.join_private(&mut joins, comma, depth - 1);
            }
        }
        if more > 0 && comma {
            self.ops.insert("comma");
            for i in (1..joins.items.len()).rev() {
                let other = self.dice.below(i + 1);
                joins.items.swap(i, other);
            }
        }
        if depth > 0 && self.dice.one_in(3) {
            self.semi(&mut joins, depth - 1);
        }
        if self.dice.one_in(3) {
            joins.conditions.push(predicate(self.dice, &joins.cols, 1));
        }
        if depth > 0 && self.dice.one_in(10) {
            self.scalar(&mut joins);
        }
        for i in (1..joins.conditions.len()).rev() {
            let other = self.dice.below(i + 1);
            joins.conditions.swap(i, other);
        }
        let items = joins.items.join(", ");
        let conditions = if joins.conditions.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", joins.conditions.join(" AND "))
        };
        Body { sql: format!("FROM {items}{conditions}"), cols: joins.cols }
    }

    /// The rows of one table under windows over windows, groups and filters: what is said of their
    /// order and values is much, and others' rows lie between.
    pub fn tower(&mut self) -> Body {
        self.ops.insert("tower");
        let mut body = self.body(0);
        for _ in 0..2 + self.dice.below(2) {
            let select = match self.dice.below(4) {
                0 => self.grouped(&body),
                _ => self.windows(&body),
            };
            let item = self.subquery(select);
            let condition = match self.dice.one_in(2) {
                true => format!(" WHERE {}", predicate(self.dice, &item.cols, 1)),
                false => String::new(),
            };
            body = Body { sql: format!("FROM {}{condition}", item.sql), cols: item.cols };
        }
        body
    }

    /// A table or a subquery of private rows.
    fn private(&mut self, depth: usize) -> Item {
        if depth == 0 || self.dice.one_in(2) {
            let rows = self.rows;
            let all = self.tables(|t| !t.is_public() && t.is_row() == rows);
            let table = self.dice.pick(&all);
            return self.table(table);
        }
        let select = match self.dice.below(6) {
            0 => self.projection(depth - 1),
            1 => self.distinct(depth - 1),
            2 | 3 => self.per_unit(depth - 1),
            4 => self.window(depth - 1),
            _ => self.union(depth - 1),
        };
        self.subquery(select)
    }

    fn table(&mut self, table: usize) -> Item {
        let alias = self.name("t");
        let relation = &self.world.plan.relations[table];
        let cols = relation.fields.iter().map(|field| Col {
            sql: format!("{alias}.{}", field.name),
            kind: field.kind,
            unit: self.names_unit(table, field.name),
            origin: (!relation.is_public()).then_some((table, field.name)),
            public: relation.is_public(),
        });
        Item { cols: cols.collect(), sql: format!("{} AS {alias}", relation.name) }
    }

    fn names_unit(&self, table: usize, column: &str) -> bool {
        let relation = &self.world.plan.relations[table];
        match relation.link() {
            None => column == "u",
            Some((parent, link)) => {
                let own = link.columns.iter().position(|c| c == column);
                own.is_some_and(|i| self.names_unit(parent, &link.references[i]))
            }
        }
    }

    fn subquery(&mut self, (sql, cols): (String, Vec<Col>)) -> Item {
        let alias = self.name("q");
        let cols = cols.iter().map(|col| col.named(format!("{alias}.{}", col.sql))).collect();
        Item { sql: format!("({sql}) AS {alias}"), cols }
    }

    /// Some columns under new names, those that tell the unit more often than others.
    fn shown(&mut self, body: &Body, most: usize) -> (Vec<String>, Vec<Col>) {
        let (mut list, mut cols) = (Vec::new(), Vec::new());
        for col in &body.cols {
            let wanted = if col.unit {
                !self.dice.one_in(6)
            } else if matches!(col.origin, Some((_, "k" | "j" | "l1" | "l2"))) {
                !self.dice.one_in(3)
            } else {
                self.dice.one_in(3)
            };
            if wanted && list.len() < most {
                let name = self.name("k");
                list.push(format!("{} AS {name}", col.sql));
                cols.push(col.named(name));
            }
        }
        if list.is_empty() || self.dice.one_in(3) {
            let name = self.name("e");
            list.push(format!("{} AS {name}", number(self.dice, &body.cols, 1)));
            cols.push(computed(name, Kind::Float));
        }
        // A constant, which an outer join around it pads.
        if self.dice.one_in(8) {
            let name = self.name("o");
            let (constant, kind) = self.dice.pick(&[("'q'", Kind::Text), ("7", Kind::Int)]);
            list.push(format!("{constant} AS {name}"));
            cols.push(computed(name, kind));
        }
        (list, cols)
    }

    fn projection(&mut self, depth: usize) -> (String, Vec<Col>) {
        let body = self.body(depth);
        self.list(&body)
    }

    fn list(&mut self, body: &Body) -> (String, Vec<Col>) {
        let (mut list, mut cols) = self.shown(body, 9);
        if self.dice.one_in(3) {
            let value = match self.dice.one_in(2) {
                true => self.with_subquery(&body.cols, 0).map(|condition| (condition, Kind::Flag)),
                false => self.value(&body.cols, 0),
            };
            if let Some((value, kind)) = value {
                self.ops.insert("mark");
                let name = self.name("m");
                list.push(format!("{value} AS {name}"));
                cols.push(computed(name, kind));
            }
        }
        (format!("SELECT {} {}", list.join(", "), body.sql), cols)
    }

    fn distinct(&mut self, depth: usize) -> (String, Vec<Col>) {
        let body = self.body(depth);
        let Some(unit) = body.unit() else { return self.projection(depth) };
        self.ops.insert("distinct");
        let name = self.name("k");
        let mut list = vec![format!("{} AS {name}", unit.sql)];
        let mut cols = vec![unit.named(name)];
        let most = self.dice.below(5);
        let (mut more, mut of) = self.shown(&body, most);
        list.append(&mut more);
        cols.append(&mut of);
        (format!("SELECT DISTINCT {} {}", list.join(", "), body.sql), cols)
    }

    fn per_unit(&mut self, depth: usize) -> (String, Vec<Col>) {
        let body = self.body(depth);
        self.grouped(&body)
    }

    fn grouped(&mut self, body: &Body) -> (String, Vec<Col>) {
        let by = match body.unit() {
            Some(unit) => unit.clone(),
            // A column that leads to one unit.
            None => match body.cols.iter().find(|c| matches!(c.origin, Some((_, "l1" | "k")))) {
                Some(lead) if !self.rows => lead.clone(),
                _ => return self.list(body),
            },
        };
        self.ops.insert("per-unit");
        let name = self.name("k");
        let (mut list, mut cols) = (vec![format!("{} AS {name}", by.sql)], vec![by.named(name)]);
        let mut keys = vec![by.sql.clone()];
        if self.dice.one_in(3) {
            let i = self.dice.below(body.cols.len());
            let key = body.cols[i].clone();
            let name = self.name("k");
            list.push(format!("{} AS {name}", key.sql));
            keys.push(key.sql.clone());
            cols.push(key.named(name));
        }
        for _ in 0..1 + self.dice.below(3) {
            let depth = self.dice.below(2);
            let of = number(self.dice, &body.cols, depth);
            let i = self.dice.below(body.cols.len());
            let any = body.cols[i].clone();
            let (call, kind) = match self.dice.below(9) {
                8 => (format!("ANY_VALUE({})", by.sql), by.kind),
                0 | 1 => ("COUNT(*)".to_owned(), Kind::Int),
                2 => (format!("COUNT({})", any.sql), Kind::Int),
                3 => (format!("COUNT(DISTINCT {})", any.sql), Kind::Int),
                4 if self.dice.one_in(3) => (format!("AVG(CAST({of} AS DOUBLE))"), Kind::Float),
                4 => (format!("AVG(CLAMP(CAST({of} AS DOUBLE), -3, 5))"), Kind::Float),
                5 => {
                    let name = self.dice.pick(&["MIN", "MAX"]);
                    let distinct = if self.dice.one_in(6) { "DISTINCT " } else { "" };
                    (format!("{name}({distinct}{})", any.sql), any.kind)
                }
                6 => (format!("SUM(CLAMP({of}, -2, 6))"), Kind::Float),
                _ => (format!("SUM({of})"), Kind::Float),
            };
            let condition = match self.dice.below(16) {
                0..4 => Some(predicate(self.dice, &body.cols, 0)),
                4 => self.with_subquery(&body.cols, 0),
                _ => None,
            };
            let filter = condition.map(|c| format!(" FILTER (WHERE {c})")).unwrap_or_default();
            let name = self.name("n");
            list.push(format!("{call}{filter} AS {name}"));
            cols.push(computed(name, kind));
        }
        let having = if self.dice.one_in(5) { " HAVING COUNT(*) > 1" } else { "" };
        let sql =
            format!("SELECT {} {} GROUP BY {}{having}", list.join(", "), body.sql, keys.join(", "));
        (sql, cols)
    }

    fn window(&mut self, depth: usize) -> (String, Vec<Col>) {
        let body = self.body(depth);
        self.windows(&body)
    }

    fn windows(&mut self, body: &Body) -> (String, Vec<Col>) {
        // The fewer columns are handed on, the more often windows go over what windows computed.
        let most = self.dice.pick(&[1, 2, 8]);
        let (mut list, mut cols) = self.shown(body, most);
        if let Some(unit) = body.unit() {
            self.ops.insert("window");
            for _ in 0..self.dice.pick(&[1, 1, 2]) {
                let (call, kind) = self.over(body, unit);
                let name = self.name("n");
                list.push(format!("{call} AS {name}"));
                cols.push(computed(name, kind));
            }
        }
        (format!("SELECT {} {}", list.join(", "), body.sql), cols)
    }

    /// A column of a body: any, or often one that a window or an aggregate below computed.
    fn column(&mut self, body: &Body) -> Col {
        let computed: Vec<&Col> =
            body.cols.iter().filter(|c| c.origin.is_none() && !c.public && !c.unit).collect();
        if !computed.is_empty() && !self.dice.one_in(3) {
            return computed[self.dice.below(computed.len())].clone();
        }
        body.cols[self.dice.below(body.cols.len())].clone()
    }

    /// A window function over a unit's rows.
    fn over(&mut self, body: &Body, unit: &Col) -> (String, Kind) {
        let of = self.column(body);
        let (call, kind) = match self.dice.below(11) {
            0 => ("ROW_NUMBER()".to_owned(), Kind::Int),
            1 | 2 => (self.dice.pick(&["RANK()", "DENSE_RANK()"]).to_owned(), Kind::Int),
            3 | 8 => ("COUNT(*)".to_owned(), Kind::Int),
            4 => (format!("{}({})", self.dice.pick(&["LAG", "LEAD"]), of.sql), of.kind),
            5 => (format!("{}({})", self.dice.pick(&["MIN", "MAX"]), of.sql), of.kind),
            6 if of.kind == Kind::Int => (format!("SUM({})", of.sql), Kind::Int),
            9 if matches!(of.kind, Kind::Int | Kind::Float) => {
                (format!("AVG(CLAMP(CAST({} AS DOUBLE), -3, 5))", of.sql), Kind::Float)
            }
            10 if of.kind == Kind::Float => (format!("SUM(CLAMP({}, -2, 6))", of.sql), Kind::Float),
            _ => (format!("COUNT({})", of.sql), Kind::Int),
        };
        let key = self.dice.one_in(2).then(|| self.column(body));
        // What a part has one value of puts nothing in order: its rows may stay as they come.
        let first = match (self.dice.one_in(3), &key) {
            (true, Some(key)) if self.dice.one_in(2) => key.sql.clone(),
            (true, _) => unit.sql.clone(),
            (false, _) if self.dice.one_in(5) => number(self.dice, &body.cols, 1),
            (false, _) => self.column(body).sql,
        };
        let mut order = vec![format!("{first}{}", self.direction())];
        if self.dice.one_in(5) {
            let next = self.column(body).sql;
            order.push(format!("{next}{}", self.direction()));
        }
        let order = match self.dice.one_in(12) {
            true => String::new(),
            false => format!(" ORDER BY {}", order.join(", ")),
        };
        let framed = !call.ends_with("()") && !call.starts_with('L');
        let frame = match framed && !order.is_empty() && self.dice.one_in(2) {
            true => self.dice.pick(&FRAMES),
            false => "",
        };
        let key = key.map(|key| format!(", {}", key.sql)).unwrap_or_default();
        let call = format!("{call} OVER (PARTITION BY {}{key}{order}{frame})", unit.sql);
        (call, kind)
    }

    fn direction(&mut self) -> &'static str {
        self.dice.pick(&["", " DESC", " DESC NULLS LAST", " NULLS FIRST"])
    }

    fn union(&mut self, depth: usize) -> (String, Vec<Col>) {
        self.ops.insert("union");
        let names: Vec<String> = (0..4).map(|_| self.name("n")).collect();
        let mut branches = Vec::new();
        let mut units = true;
        let mut cols = Vec::new();
        for _ in 0..2 + self.dice.below(2) {
            let body = self.body(depth);
            let unit = body.unit().cloned();
            units &= unit.is_some();
            let text = |of: Kind| body.cols.iter().filter(move |c| c.kind == of && !c.unit);
            let texts: Vec<_> = text(Kind::Text).map(|c| c.sql.clone()).collect();
            let key = if self.world.plan.text { Kind::Text } else { Kind::Int };
            let keys: Vec<_> = text(key).map(|c| c.sql.clone()).collect();
            let pick = |dice: &mut Dice, from: &[String]| {
                if from.is_empty() {
                    "NULL".to_owned()
                } else {
                    from[dice.below(from.len())].clone()
                }
            };
            let first = match unit {
                Some(unit) => unit.sql,
                None => pick(self.dice, &keys),
            };
            let clamped = number(self.dice, &body.cols, 1);
            branches.push(format!(
                "SELECT {first} AS {}, CLAMP(CAST({clamped} AS DOUBLE), -3, 4) AS {}, {} AS {}, {} AS {} {}",
                names[0],
                names[1],
                pick(self.dice, &texts),
                names[2],
                self.dice.pick(&["1", "0", "NULL", "-7"]),
                names[3],
                body.sql
            ));
            cols = vec![
                Col { unit: units, ..computed(names[0].clone(), key) },
                computed(names[1].clone(), Kind::Float),
                computed(names[2].clone(), Kind::Text),
                computed(names[3].clone(), Kind::Int),
            ];
        }
        (branches.join(" UNION ALL "), cols)
    }
}

fn computed(sql: String, kind: Kind) -> Col {
    Col { sql, kind, unit: false, origin: None, public: false }
}
