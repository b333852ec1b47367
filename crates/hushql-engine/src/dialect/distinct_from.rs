//! `IS [NOT] DISTINCT FROM`, whose right operand ends before AND, OR and the next IS.
//!
//! Upstream: docs/upstream.md, 20. Delete this file when sqlparser has its pull request 2436.

use sqlparser::ast::Expr;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};

use crate::dialect::clauses::word_at;

/// `IS [NOT] DISTINCT FROM`.
pub(super) struct DistinctFrom {
    negated: bool,
}

/// `IS [NOT] DISTINCT FROM`, if it comes next. Looks ahead without consuming.
pub(super) fn distinct_from(parser: &Parser) -> Option<DistinctFrom> {
    let keyword = |n| word_at(parser, n).map(|word| word.keyword);
    let negated = keyword(1) == Some(Keyword::NOT);
    let rest = 1 + usize::from(negated);
    let words = [keyword(0), keyword(rest), keyword(rest + 1)];
    (words == [Keyword::IS, Keyword::DISTINCT, Keyword::FROM].map(Some))
        .then_some(DistinctFrom { negated })
}

impl DistinctFrom {
    /// Reads the words and the right operand, which ends before AND, OR and the next IS.
    pub(super) fn operand(
        &self,
        parser: &mut Parser,
        left: &Expr,
        precedence: u8,
    ) -> Result<Expr, ParserError> {
        for _ in 0..3 + usize::from(self.negated) {
            parser.next_token();
        }
        let right = Box::new(parser.parse_subexpr(precedence)?);
        let left = Box::new(left.clone());
        Ok(match self.negated {
            true => Expr::IsNotDistinctFrom(left, right),
            false => Expr::IsDistinctFrom(left, right),
        })
    }
}
