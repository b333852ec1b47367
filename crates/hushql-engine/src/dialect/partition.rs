//! Cells of people: the clauses of CREATE and ALTER PRIVACY BUDGET.
//!
//! In: a parser at the clause. Out: the column whose values divide the people of a budget into
//! cells, or the end of this partition.
//!
//! ```text
//! ALTER PRIVACY BUDGET research PARTITION BY region     →  PartitionBudget { name: "research", column: Some("region") }
//! ```

use sqlparser::parser::{Parser, ParserError};

use super::declaration::Declaration;
use crate::dialect::clauses::{expect_word, take_word, word_at};
use crate::dialect::query_syntax::name;

/// `[PARTITION BY column]`, which ends the creation of a budget.
pub(super) fn of_new(parser: &mut Parser, create: Declaration) -> Result<Declaration, ParserError> {
    match partition_by(parser)? {
        Some(column) => Ok(Declaration::CreatePartitioned { create: Box::new(create), column }),
        None => Ok(create),
    }
}

/// `PARTITION BY column` or `DROP PARTITION` after the name of a budget. `None` for anything else.
pub(super) fn alteration(
    parser: &mut Parser,
    budget: &str,
) -> Result<Option<Declaration>, ParserError> {
    let is = |n: usize, word: &str| {
        word_at(parser, n).is_some_and(|found| found.value.eq_ignore_ascii_case(word))
    };
    if is(0, "DROP") && is(1, "PARTITION") {
        expect_word(parser, "DROP")?;
        expect_word(parser, "PARTITION")?;
        let name = budget.to_owned();
        return Ok(Some(Declaration::PartitionBudget { name, column: None }));
    }
    let column = partition_by(parser)?;
    let declared =
        |column| Declaration::PartitionBudget { name: budget.to_owned(), column: Some(column) };
    Ok(column.map(declared))
}

fn partition_by(parser: &mut Parser) -> Result<Option<String>, ParserError> {
    if !take_word(parser, "PARTITION") {
        return Ok(None);
    }
    expect_word(parser, "BY")?;
    name(parser).map(Some)
}
