//! Requests for more of a budget: what an analyst asks, and what the owner decides.
//!
//! In: a parser at the verb. Out: the statement. Whether a budget or a request exists is checked
//! when it runs.
//!
//! ```text
//! REQUEST PRIVACY BUDGET study ADD (epsilon=1) REASON 'the second year'   →  Ask { budget: study, … }
//! APPROVE REQUEST 17                                                      →  Approve { number: 17 }
//! ```

use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::ast::Statement;
use super::budget_clauses::limit;
use super::budget_request::BudgetRequestStatement;
use crate::dialect::clauses::{error, expect_word, take_word};
use crate::dialect::query_syntax::name;

/// A statement that begins with REQUEST, APPROVE or DENY.
pub(super) fn budget_request(parser: &mut Parser, verb: &str) -> Result<Statement, ParserError> {
    parser.next_token();
    Ok(Statement::BudgetRequest(match verb {
        "request" => {
            expect_word(parser, "PRIVACY")?;
            expect_word(parser, "BUDGET")?;
            let budget = name(parser)?;
            expect_word(parser, "ADD")?;
            let add = Box::new(limit(parser)?);
            expect_word(parser, "REASON")?;
            BudgetRequestStatement::Ask { budget, add, reason: parser.parse_literal_string()? }
        }
        "approve" => BudgetRequestStatement::Approve { number: number(parser)? },
        _ => {
            let number = number(parser)?;
            let reason = match take_word(parser, "REASON") {
                true => parser.parse_literal_string()?,
                false => String::new(),
            };
            BudgetRequestStatement::Deny { number, reason }
        }
    }))
}

/// `REQUEST n`.
fn number(parser: &mut Parser) -> Result<i64, ParserError> {
    expect_word(parser, "REQUEST")?;
    match parser.peek_token().token {
        Token::Number(..) => {
            let number = i64::try_from(parser.parse_literal_uint()?);
            number.or_else(|_| error(parser, "the number of a request is smaller"))
        }
        _ => error(parser, "a request has a number: SHOW PRIVACY REQUESTS lists them"),
    }
}

#[cfg(test)]
mod tests {
    use crate::dialect::parse;

    #[test]
    fn requests_and_decisions_are_read() {
        for sql in [
            "REQUEST PRIVACY BUDGET study ADD (epsilon=1, delta=1e-7) REASON 'why'",
            "request privacy budget \"a b\" add (rho=0.1) reason 'it''s'",
            "APPROVE REQUEST 17",
            "DENY REQUEST 17;",
            "DENY REQUEST 17 REASON 'no'",
            "SHOW PRIVACY REQUESTS",
        ] {
            assert!(parse(sql).is_ok(), "{sql}: {:?}", parse(sql));
        }
        for (sql, says) in [
            ("REQUEST PRIVACY BUDGET study ADD (epsilon=1)", "REASON"),
            ("REQUEST PRIVACY BUDGET study ADD (epsilon=-1) REASON 'x'", "epsilon"),
            ("REQUEST PRIVACY BUDGET study REASON 'x'", "ADD"),
            ("APPROVE REQUEST", "SHOW PRIVACY REQUESTS"),
            ("APPROVE REQUEST lab", "SHOW PRIVACY REQUESTS"),
            ("APPROVE REQUEST 99999999999999999999", ""),
            ("DENY REQUEST 1 BECAUSE 'x'", "BECAUSE"),
        ] {
            let error = parse(sql).unwrap_err().to_string();
            assert!(error.contains(says), "{sql}: {error}");
        }
    }
}
