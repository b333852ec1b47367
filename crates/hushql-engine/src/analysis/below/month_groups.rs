//! Groups of rows where a unit is one month of a person: which of them have rows of one unit, and
//! which expressions are the same on all rows of a unit.
//!
//! In: the keys of a GROUP BY over rows of such units. Out: whether the keys keep units apart, or
//! the refusal with the key that does.
//!
//! ```text
//! GROUP BY patient, DATE_TRUNC('month', visited_at)     rows of one unit
//! GROUP BY patient, DATE_TRUNC('week', visited_at)      a week can lie in two months: refused
//! GROUP BY DATE_TRUNC('month', visited_at)              a release: each unit is in one group
//! ```

use datafusion::logical_expr::Expr;

use super::relation::PrivateRelation;
use super::walk::Walk;
use crate::analysis::expr::facts::constant;
use crate::catalog::quoted;
use crate::refusal::Refusal;

impl Walk<'_> {
    /// True if each group has rows of one unit alone, where a unit is one month of a person: the
    /// person is a key, and a date that no domain moves to another month, or the start of its
    /// month.
    ///
    /// # Guarantee
    /// No bound relies on it: the unit itself is among the groups of the plan. So the rows of two
    /// units are never put together, and the answer is that of the query as it is written.
    pub(super) fn is_within_months(&self, flow: &PrivateRelation, keys: &[Expr]) -> bool {
        self.moves_no_date(flow)
            && keys.iter().any(|key| flow.names_person(key).is_some())
            && keys.iter().any(|key| flow.tells_month(key))
    }

    /// True if no domain moves the dates whose months tell units apart.
    fn moves_no_date(&self, flow: &PrivateRelation) -> bool {
        let date = flow.subject.month_of();
        let table = self.catalog.table(flow.subject.unit_domain());
        let column = table.zip(date).and_then(|(table, date)| table.column(date));
        column.is_some_and(|column| column.domain.is_none())
    }

    /// The refusal of groups with rows of several months, with the key that keeps them apart.
    pub(super) fn with_month_as_key(&self, refusal: Refusal, flow: &PrivateRelation) -> Refusal {
        match (flow.subject.column(), flow.subject.month_of()) {
            (Some(person), Some(date)) if self.moves_no_date(flow) => {
                let hint = format!(
                    "GROUP BY {0}, DATE_TRUNC('month', {1}) in the subquery, for one row of each {0} in each month; or {2}",
                    quoted(person),
                    quoted(date),
                    refusal.hint()
                );
                refusal.writing(&hint)
            }
            _ => refusal,
        }
    }
}

impl PrivateRelation {
    /// True if all rows of a unit are in one group of an expression: it is the same on all of them,
    /// or shows the month, the quarter or the year of a date whose months tell units apart.
    ///
    /// # Guarantee
    /// No bound relies on it, because the bounding operator enforces it.
    pub(crate) fn is_one_group(&self, expr: &Expr) -> bool {
        self.is_alike(expr) || self.is_of_month(expr).unwrap_or(false)
    }

    fn is_of_month(&self, expr: &Expr) -> Option<bool> {
        let (function, part) = self.part_of_date(expr)?;
        let is_read = ["date_trunc", "date_part"].contains(&function);
        Some(is_read && ["month", "quarter", "year"].contains(&part.as_str()))
    }

    /// True if rows with one value of an expression have their dates in one month: it is the date
    /// whose months tell units apart, or the start of its month or of a shorter time.
    fn tells_month(&self, expr: &Expr) -> bool {
        const WITHIN: [&str; 5] = ["second", "minute", "hour", "day", "month"];
        let started = self.part_of_date(expr);
        let is_start =
            started.is_some_and(|(name, part)| name == "date_trunc" && WITHIN.contains(&&*part));
        is_start || self.is_date_of_months(expr)
    }

    /// The function of the date whose months tell units apart, and the part that it takes.
    fn part_of_date<'a>(&self, expr: &'a Expr) -> Option<(&'a str, String)> {
        let Expr::ScalarFunction(call) = expr else { return None };
        let [part, of] = call.args.as_slice() else { return None };
        let part = constant(part)?;
        let part = part.try_as_str()??.to_lowercase();
        let mut of = of;
        while let Expr::Cast(cast) = of {
            of = &cast.expr;
        }
        self.is_date_of_months(of).then_some((call.func.name(), part))
    }

    fn is_date_of_months(&self, expr: &Expr) -> bool {
        let origin = self.trace(expr).and_then(|trace| trace.origin.as_ref());
        origin.is_some_and(|origin| {
            self.subject.month_of() == Some(origin.column.as_str())
                && origin.table == self.subject.unit_domain()
        })
    }
}
