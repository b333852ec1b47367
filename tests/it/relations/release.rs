//! Random expressions, and what is released of a body.

use super::query::{Body, Col, Gen};
use super::world::Kind;
use crate::sensitivity::Dice;

/// A random number over some columns; often clamped, so that it has a range.
pub fn number(dice: &mut Dice, cols: &[Col], depth: usize) -> String {
    if depth == 0 {
        let numbers: Vec<&Col> = cols.iter().filter(|c| c.kind != Kind::Text).collect();
        if numbers.is_empty() || dice.one_in(9) {
            return dice.pick(&["1", "2", "-3", "0.5"]).to_owned();
        }
        let col = &numbers[dice.below(numbers.len())].sql;
        return match dice.below(4) {
            0 => format!("CLAMP({col}, -4, 9)"),
            1 => format!("CLAMP({col}, 0, 2)"),
            _ => col.clone(),
        };
    }
    let (one, two) = (number(dice, cols, depth - 1), number(dice, cols, depth - 1));
    match dice.below(14) {
        0 | 1 => format!("({one} + {two})"),
        2 => format!("({one} - {two})"),
        3 => format!("({one} * {two})"),
        4 => format!("({one} / {two})"),
        5 => format!("COALESCE({one}, {two})"),
        6 => format!("(CASE WHEN {} THEN {one} ELSE {two} END)", predicate(dice, cols, 0)),
        7 => format!("(CASE WHEN {} THEN {one} END)", predicate(dice, cols, 0)),
        8 => format!("({one} * 4611686018427387904)"),
        9 => format!("ABS({one})"),
        _ => one,
    }
}

pub fn predicate(dice: &mut Dice, cols: &[Col], depth: usize) -> String {
    if depth > 0 && dice.one_in(3) {
        let (one, two) = (predicate(dice, cols, depth - 1), predicate(dice, cols, depth - 1));
        return match dice.below(3) {
            0 => format!("({one} AND {two})"),
            1 => format!("({one} OR {two})"),
            _ => format!("(NOT {one})"),
        };
    }
    let col = &cols[dice.below(cols.len())];
    let same: Vec<&Col> = cols.iter().filter(|c| c.kind == col.kind).collect();
    let other = &same[dice.below(same.len())].sql;
    let sql = &col.sql;
    if dice.one_in(3) {
        return match dice.below(4) {
            0 => format!("{sql} IS NULL"),
            1 => format!("{sql} IS NOT NULL"),
            2 => format!("({sql} IS DISTINCT FROM {other})"),
            _ => format!("{sql} <= {other}"),
        };
    }
    match col.kind {
        Kind::Text => match dice.below(3) {
            0 => format!("{sql} = {}", dice.pick(&["'p'", "''", "'1'", "'A'"])),
            1 => format!("{sql} <> 'q'"),
            _ => format!("{sql} IN ('p', 'r', '')"),
        },
        Kind::Int | Kind::Float => match dice.below(4) {
            0 => format!("{sql} > {}", dice.pick(&["0", "1", "-1", "9223372036854775806"])),
            1 => format!("{sql} <= {}", dice.pick(&["0", "3", "10"])),
            2 => format!("{sql} BETWEEN 0 AND 5"),
            _ => format!("{sql} IN (0, 1, 3)"),
        },
    }
}

fn clamped(dice: &mut Dice, cols: &[Col]) -> String {
    let depth = dice.below(3);
    let of = number(dice, cols, depth);
    match dice.below(5) {
        0 => of,
        1 => format!("CLAMP({of}, -3, 5)"),
        2 => format!("CLAMP({of}, 0, 2)"),
        3 => format!("CLAMP({of}, 1, 4)"),
        _ => format!("CLAMP({of}, -7, -1)"),
    }
}

impl Gen<'_> {
    /// A whole query.
    pub fn query(&mut self, depth: usize) -> String {
        let body = self.body(depth);
        let bounds = self.bounds();
        match self.dice.below(8) {
            0 | 1 => self.selection(&body, &bounds),
            2 => {
                let (rows, groups) = (1 + self.dice.below(4), 1 + self.dice.below(3));
                let (keys, group) = self.groups(&body);
                let calls = self.aggregate(&body, &mut Vec::new());
                format!(
                    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, max_rows_contributed={rows}, max_groups_contributed={groups}) {keys}{calls} AS r0 {}{group}",
                    body.sql
                )
            }
            _ => {
                let (keys, group) = self.groups(&body);
                let mut releases = Vec::new();
                for i in 0..1 + self.dice.below(3) {
                    let call = self.aggregate(&body, &mut Vec::new());
                    let mechanism = if self.dice.one_in(3) {
                        "GAUSSIAN(eps=1, delta=0.000001"
                    } else {
                        "LAPLACE(eps=1"
                    };
                    releases.push(format!("{mechanism}{bounds}) {call} AS r{i}"));
                }
                format!("SELECT {keys}{} {}{group}", releases.join(", "), body.sql)
            }
        }
    }

    fn bounds(&mut self) -> String {
        if self.rows {
            return String::new();
        }
        match self.dice.below(6) {
            0 => String::new(),
            1 => ", rows=1, groups=1".to_owned(),
            2 => ", rows=2, groups=1".to_owned(),
            _ => {
                let (rows, groups) = (1 + self.dice.below(4), 1 + self.dice.below(3));
                format!(", rows={rows}, groups={groups}")
            }
        }
    }

    fn filter(&mut self, body: &Body) -> String {
        if self.dice.one_in(4) {
            format!(" FILTER (WHERE {})", predicate(self.dice, &body.cols, 1))
        } else {
            String::new()
        }
    }

    fn aggregate(&mut self, body: &Body, _used: &mut Vec<String>) -> String {
        let i = self.dice.below(body.cols.len());
        let call = match self.dice.below(9) {
            0 | 1 => "COUNT(*)".to_owned(),
            2 => format!("COUNT({})", body.cols[i].sql),
            3 => match body.unit() {
                Some(unit) => format!("COUNT(DISTINCT {})", unit.sql),
                None => "COUNT(*)".to_owned(),
            },
            4..=6 => format!("SUM({})", clamped(self.dice, &body.cols)),
            _ => format!("AVG({})", clamped(self.dice, &body.cols)),
        };
        format!("{call}{}", self.filter(body))
    }

    /// A key: the SELECT list's part, and GROUP BY.
    fn groups(&mut self, body: &Body) -> (String, String) {
        if self.dice.one_in(2) {
            return (String::new(), String::new());
        }
        match self.key(body) {
            Some((key, list)) => {
                (format!("{key}, "), format!(" GROUP BY {key}{}", list.unwrap_or_default()))
            }
            None => {
                let one = number(self.dice, &body.cols, 0);
                (String::new(), format!(" GROUP BY CASE WHEN {one} > 1 THEN 'high' ELSE 'low' END"))
            }
        }
    }

    /// A column that can be a key, with the KEYS that it needs.
    fn key(&mut self, body: &Body) -> Option<(String, Option<String>)> {
        let public = body.cols.iter().filter(|c| c.public && c.kind != Kind::Float);
        let listed = body.cols.iter().filter(|c| matches!(c.origin, Some((_, "s" | "a"))));
        let mut all: Vec<(String, Option<String>)> =
            public.chain(listed).map(|c| (c.sql.clone(), None)).collect();
        for col in body.cols.iter().filter(|c| !c.unit) {
            let keys = match col.kind {
                Kind::Text => " KEYS ('p', 'A', NULL)",
                Kind::Int => " KEYS (0, 1, 2)",
                Kind::Float => continue,
            };
            if all.len() < 12 {
                all.push((col.sql.clone(), Some(keys.to_owned())));
            }
        }
        if all.is_empty() {
            return None;
        }
        Some(all.swap_remove(self.dice.below(all.len())))
    }

    fn selection(&mut self, body: &Body, bounds: &str) -> String {
        let selector = self.dice.pick(&["ARGMAX", "ARGMIN", "TOP 2", "BOTTOM 2"]);
        let mechanism = self.dice.pick(&["EXPONENTIAL", "PERMUTE_AND_FLIP", "NOISY_MAX", "AUTO"]);
        let score = match self.dice.below(4) {
            0 => "COUNT(*)".to_owned(),
            1 => match body.unit() {
                Some(unit) => format!("COUNT(DISTINCT {})", unit.sql),
                None => "COUNT(*)".to_owned(),
            },
            _ => format!("SUM({})", clamped(self.dice, &body.cols)),
        };
        let score = format!("{score}{}", self.filter(body));
        let Some((key, list)) = self.key(body) else {
            let values = number(self.dice, &body.cols, 0);
            return format!(
                "SELECT {selector} {mechanism}(eps=1{bounds}) t IN (0, 1, 3) BY COUNT(*) FILTER (WHERE {values} >= t) {}",
                body.sql
            );
        };
        if self.dice.one_in(5) && list.is_some() {
            return format!(
                "SELECT {} EXPONENTIAL(eps=1, delta=0.000001{bounds}) {key} BY {score} {} GROUP BY {key}",
                self.dice.pick(&["ARGMAX", "TOP 2"]),
                body.sql
            );
        }
        let list = list.map(|keys| keys.replace("KEYS", "IN")).unwrap_or_default();
        format!(
            "SELECT {selector} {mechanism}(eps=1{bounds}) {key}{list} BY {score} {} GROUP BY {key}",
            body.sql
        )
    }
}
