//! Random expressions, and what is released of a body.

use super::query::{Body, Col, Gen};
use super::world::Kind;
use crate::privacy::sensitivity::Dice;

/// A random number over some columns; often clamped, so that it has a range.
pub fn number(dice: &mut Dice, cols: &[Col], depth: usize) -> String {
    if depth == 0 {
        let is_number = |c: &&Col| matches!(c.kind, Kind::Int | Kind::Float);
        let numbers: Vec<&Col> = cols.iter().filter(is_number).collect();
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
    let days: Vec<&Col> = cols.iter().filter(|c| c.kind == Kind::Time).collect();
    if dice.one_in(12) && !days.is_empty() {
        let part = dice.pick(&["YEAR", "MONTH", "DOW"]);
        return format!("EXTRACT({part} FROM {})", days[dice.below(days.len())].sql);
    }
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
        Kind::Time => match dice.below(4) {
            3 => {
                let by = dice.pick(&["40 days", "-1 month", "36 hours", "0 days"]);
                let compared = dice.pick(&[">", "<=", "="]);
                format!(
                    "CAST({sql} AS TIMESTAMP) - CAST({other} AS TIMESTAMP) {compared} INTERVAL '{by}'"
                )
            }
            0 => format!("{sql} > DATE '2024-06-01'"),
            1 => format!("{sql} = DATE '2024-01-01'"),
            _ => format!("{sql} BETWEEN DATE '2024-01-01' AND DATE '2024-12-30'"),
        },
        Kind::Flag => match dice.below(2) {
            0 => sql.clone(),
            _ => format!("{sql} IS NOT TRUE"),
        },
        Kind::Int | Kind::Float => match dice.below(4) {
            0 => format!("{sql} > {}", dice.pick(&["0", "1", "-1", "9223372036854775806"])),
            1 => format!("{sql} <= {}", dice.pick(&["0", "3", "10"])),
            // Several pass each division: it was taken to leave one number.
            2 => format!(
                "{sql} {}",
                dice.pick(&["BETWEEN 0 AND 5", "/ 2 = 5", "/ 2 = 1", "/ 3 = 0"])
            ),
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

const CHOOSERS: [&str; 4] =
    ["EXPONENTIAL(eps=1", "PERMUTE_AND_FLIP(eps=1", "NOISY_MAX(eps=1", "AUTO(eps=1"];

impl Gen<'_> {
    /// A whole query.
    pub fn query(&mut self, depth: usize) -> String {
        let body = match !self.rows && self.dice.one_in(5) {
            true => self.tower(),
            false => self.body(depth),
        };
        let bounds = self.bounds();
        match self.dice.below(8) {
            0 | 1 => self.selection(&body, &bounds),
            2 => {
                let (rows, groups) = (1 + self.dice.below(4), 1 + self.dice.below(3));
                let (keys, group) = self.groups(&body);
                let calls = self.aggregate(&body);
                format!(
                    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, max_rows_contributed={rows}, max_groups_contributed={groups}) {keys}{calls} AS r0 {}{group}",
                    body.sql
                )
            }
            _ => {
                let (keys, group) = self.groups(&body);
                let mut releases = Vec::new();
                for i in 0..1 + self.dice.below(3) {
                    let (mechanism, call) = match self.dice.below(10) {
                        0 => (self.dice.pick(&CHOOSERS), self.quantile(&body)),
                        1..=3 => ("GAUSSIAN(eps=1, delta=0.000001", self.aggregate(&body)),
                        4 => ("AUTO(eps=1", self.aggregate(&body)),
                        _ => ("LAPLACE(eps=1", self.aggregate(&body)),
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
        match self.dice.below(7) {
            0 => String::new(),
            3 => format!(", total={}", 1 + self.dice.below(6)),
            1 => ", rows=1, groups=1".to_owned(),
            2 => ", rows=2, groups=1".to_owned(),
            _ => {
                let (rows, groups) = (1 + self.dice.below(4), 1 + self.dice.below(3));
                format!(", rows={rows}, groups={groups}")
            }
        }
    }

    fn filter(&mut self, body: &Body) -> String {
        let condition = match self.dice.below(16) {
            0..4 => Some(predicate(self.dice, &body.cols, 1)),
            4 => self.with_subquery(&body.cols, 0),
            _ => None,
        };
        condition.map(|c| format!(" FILTER (WHERE {c})")).unwrap_or_default()
    }

    /// A number that a subquery tells of each row.
    pub fn of_subquery(&mut self, body: &Body) -> Option<String> {
        if self.dice.one_in(2) {
            let condition = self.with_subquery(&body.cols, 0)?;
            return Some(format!("CASE WHEN {condition} THEN 1 ELSE 0 END"));
        }
        let (value, kind) = self.value(&body.cols, 0)?;
        matches!(kind, Kind::Int | Kind::Float).then(|| format!("CLAMP({value}, -2, 4)"))
    }

    fn aggregate(&mut self, body: &Body) -> String {
        let i = self.dice.below(body.cols.len());
        if self.dice.one_in(10)
            && let Some(of) = self.of_subquery(body)
        {
            let name = self.dice.pick(&["SUM", "AVG"]);
            return format!("{name}({of})");
        }
        let call = match self.dice.below(14) {
            13 => {
                let name =
                    self.dice.pick(&["CORR", "COVAR_POP", "COVAR_SAMP", "REGR_SLOPE", "REGR_R2"]);
                let x = clamped(self.dice, &body.cols);
                format!("{name}({x}, {})", clamped(self.dice, &body.cols))
            }
            0 | 1 => "COUNT(*)".to_owned(),
            2 => format!("COUNT({})", body.cols[i].sql),
            3 => match body.unit() {
                Some(unit) => format!("COUNT(DISTINCT {})", unit.sql),
                None => "COUNT(*)".to_owned(),
            },
            4 => format!("COUNT(DISTINCT {})", body.cols[i].sql),
            5 => {
                let name = self.dice.pick(&["VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV"]);
                format!("{name}({})", clamped(self.dice, &body.cols))
            }
            6 => {
                let name = self.dice.pick(&["SUM", "AVG"]);
                let per = self.dice.pick(&["group", "row"]);
                let of = clamped(self.dice, &body.cols);
                format!("{name}({of}, contribution_bounds_per_{per} => (-2, 3))")
            }
            7..=9 => format!("SUM({})", clamped(self.dice, &body.cols)),
            _ => format!("AVG({})", clamped(self.dice, &body.cols)),
        };
        format!("{call}{}", self.filter(body))
    }

    /// A quantile of few ticks, so that all of them can be scored.
    fn quantile(&mut self, body: &Body) -> String {
        let of = format!("CAST(CLAMP({}, -3, 5) AS BIGINT)", number(self.dice, &body.cols, 1));
        let call = match self.dice.below(4) {
            0 => format!("MIN({of})"),
            1 => format!("MAX({of})"),
            2 => format!("QUANTILE({of}, {})", self.dice.pick(&["0.1", "0.75"])),
            _ => format!("MEDIAN({of})"),
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
                let list = list.unwrap_or_default();
                let group = match self.dice.below(8) {
                    0 => {
                        self.ops.insert("rollup");
                        format!(" GROUP BY ROLLUP ({key}{list})")
                    }
                    1 => {
                        self.ops.insert("rollup");
                        format!(" GROUP BY GROUPING SETS ((), ({key}{list}), ({key}))")
                    }
                    _ => format!(" GROUP BY {key}{list}"),
                };
                (format!("{key}, "), group)
            }
            None => {
                let one = number(self.dice, &body.cols, 0);
                (String::new(), format!(" GROUP BY CASE WHEN {one} > 1 THEN 'high' ELSE 'low' END"))
            }
        }
    }

    /// A column that can be a key, with the KEYS that it needs.
    pub fn key(&mut self, body: &Body) -> Option<(String, Option<String>)> {
        let public = body.cols.iter().filter(|c| c.public && c.kind != Kind::Float);
        let listed = body.cols.iter().filter(|c| matches!(c.origin, Some((_, "s" | "a"))));
        let mut all: Vec<(String, Option<String>)> =
            public.chain(listed).map(|c| (c.sql.clone(), None)).collect();
        for col in body.cols.iter().filter(|c| !c.unit) {
            let keys = match col.kind {
                Kind::Text => " KEYS ('p', 'A', NULL)",
                Kind::Int => " KEYS (0, 1, 2)",
                Kind::Time => " KEYS ('2024-06-01', '2024-01-01')",
                Kind::Flag => "",
                Kind::Float => continue,
            };
            let public = self.world.plan.relations.iter().find(|relation| {
                let k = relation.fields.iter().find(|field| field.name == "k");
                relation.is_public() && k.is_some_and(|k| k.kind == col.kind)
            });
            if let Some(relation) = public {
                all.push((col.sql.clone(), Some(format!(" KEYS TABLE {}(k)", relation.name))));
            }
            if all.len() < 14 {
                let keys = Some(keys.to_owned()).filter(|keys| !keys.is_empty());
                all.push((col.sql.clone(), keys));
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
        let list = list.filter(|keys| !keys.contains("TABLE"));
        let list = list.map(|keys| keys.replace("KEYS", "IN")).unwrap_or_default();
        format!(
            "SELECT {selector} {mechanism}(eps=1{bounds}) {key}{list} BY {score} {} GROUP BY {key}",
            body.sql
        )
    }
}
