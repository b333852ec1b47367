//! Refusals that several operators below a release have in common.

use datafusion::logical_expr::LogicalPlan;

use crate::analysis::below::unit::UnitScope;
use crate::catalog::quoted;
use crate::refusal::{Reason, Refusal};

pub(crate) fn operator(name: &str, hint: &str) -> Refusal {
    Refusal::new(
        Reason::Operator,
        name,
        format!("{name} below a release could let one person change many rows"),
        hint,
    )
}

/// The refusal of an operator that puts rows of one person together, where a unit is one month of a
/// person; `None` for other units. Rows of several months are those of several units: each of them
/// would change what becomes of the others.
pub(crate) fn several_months(subject: &UnitScope, operator: &str) -> Option<Refusal> {
    let (date, person) = (subject.month_of()?, subject.column()?);
    Some(Refusal::new(
        Reason::Operator,
        operator,
        format!(
            "a unit is one {person} in one month of {date}, and {operator} below a release mixes the rows of several months"
        ),
        format!(
            "the aggregate of the rows themselves, such as COUNT(DISTINCT {person}); for questions about whole persons, the owner declares SET PRIVACY UNIT ({person}) in a vault of its own"
        ),
    ))
}

/// The refusal of a table that is public or not declared.
pub(crate) fn not_private(name: &str, declared: bool) -> Refusal {
    if !declared {
        return undeclared(name);
    }
    Refusal::new(
        Reason::Operand,
        name,
        format!("{name} is public; a mechanism would only add noise"),
        "the aggregate without a mechanism",
    )
}

/// The refusal of a table that is not declared.
pub(crate) fn undeclared(name: &str) -> Refusal {
    Refusal::new(
        Reason::Undeclared,
        name,
        format!("{name} is declared neither private nor public"),
        format!(
            "ALTER TABLE {0} SET PRIVACY UNIT …, or ALTER TABLE {0} SET PUBLIC, in an owner's session",
            quoted(name)
        ),
    )
}

/// The refusal of a subquery as a value that has several rows.
pub(crate) fn several() -> Refusal {
    Refusal::new(
        Reason::Place,
        "a subquery as a value",
        "a value is one row, and this subquery has several",
        "an aggregate without GROUP BY, or IN in place of a comparison",
    )
}

/// The table whose rows a plan passes on as they are, as FROM names it.
pub(crate) fn only_table(plan: &LogicalPlan) -> Option<String> {
    if let LogicalPlan::TableScan(scan) = plan {
        let is_whole = scan.filters.is_empty() && scan.fetch.is_none();
        return is_whole.then(|| scan.table_name.to_string());
    }
    let LogicalPlan::Projection(projection) = plan else { return None };
    let columns = projection.expr.iter().all(|expr| expr.try_as_col().is_some());
    if columns { only_table(&projection.input) } else { None }
}

/// The refusal of what is not derived for neighbours that replace what a person's row says.
pub(crate) fn replaced(what: &str, write: &str) -> Refusal {
    Refusal::new(
        Reason::NotYet,
        what,
        format!(
            "the presence of these people is public, so that neighbours replace what a person's row says, and how far that moves {what} is not derived"
        ),
        write,
    )
}
