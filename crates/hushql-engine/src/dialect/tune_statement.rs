//! `EXPLAIN PRIVACY TUNE query ON table`: a question, and the rows on which its bounds are tried.
//!
//! In: a parser behind TUNE. Out: a [`TuneStatement`]: the question, the parts of it that decide
//! which rows it reads, and the places of its bounds in its text. Questions of a form for which
//! bounds are not tried are refused here, and the refusal is explained as that of any question.
//!
//! ```text
//! EXPLAIN PRIVACY TUNE SELECT city, LAPLACE(eps=1) SUM(price) FROM orders GROUP BY city
//!   ON invented
//!   rows that are tried: SELECT city, user_id, price FROM invented AS orders
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{
    self as sql, Expr, GroupByExpr, Ident, ObjectName, ObjectNamePart, SelectItem, SetExpr,
    TableFactor,
};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::ast::{
    AggregateCall, AggregateName, MechanismName, Operand, QueryStatement, ReleaseClause,
    TuneStatement, marked,
};
use super::script::TokenOffsets;
use super::tokens::{closing, tokens};
use super::tunable_text::TunableText;
use crate::dialect::clauses::{expect_word, folded, number};
use crate::dialect::error::DialectError;
use crate::dialect::parser::HushDialect;
use crate::dialect::query_syntax::{name, query};
use crate::refusal::{Reason, Refusal};

/// The form of questions for which bounds are tried.
const FORM: &str =
    "EXPLAIN PRIVACY TUNE SELECT …, LAPLACE(eps=1) SUM(x) FROM … GROUP BY … ON a public table";

/// The name of the column of a person's rows.
pub(crate) const UNIT: &str = "u";

/// The name of the column of values.
pub(crate) const VALUE: &str = "x";

/// The parts of a question that decide which rows it reads.
struct Shape {
    table: String,
    keys: Vec<Expr>,
    value: Option<Expr>,
}

/// Reads what follows TUNE.
///
/// # Errors
/// A syntax error, and the refusal of a question of another form.
pub(super) fn tuned(
    text: &str,
    parser: &mut Parser,
    dialect: &HushDialect,
) -> Result<TuneStatement, DialectError> {
    let question = match query(parser, dialect) {
        Err(error @ DialectError::Syntax { .. }) => return Err(error),
        question => question,
    };
    // A refused question is explained, so the statement is read to its end.
    expect_word(parser, "ON")?;
    let stand_in = name(parser)?;
    let question = question?;
    let release = the_release(&question)?;
    let tunable = tunable_text(text, release)?;
    let Shape { table, keys, value } = shape(&question)?;
    Ok(TuneStatement { text: tunable, table, keys, value, stand_in, query: question })
}

/// The only release of a question.
fn the_release(question: &QueryStatement) -> Result<&ReleaseClause, DialectError> {
    let [release] = question.releases.as_slice() else {
        return match question.releases.as_slice() {
            [] => Err(unlike("it has no release with a mechanism and a cost").into()),
            _ => Err(unlike("it has several releases: tune each of them in a question of its own")
                .into()),
        };
    };
    let ReleaseClause { mechanism, parameters, operand, grouping, consistent, set, .. } = release;
    let is_number = match mechanism {
        MechanismName::Laplace | MechanismName::Gaussian | MechanismName::Auto => true,
        MechanismName::Exponential
        | MechanismName::GeneralizedExponential
        | MechanismName::PermuteAndFlip
        | MechanismName::NoisyMax
        | MechanismName::RandomizedResponse
        | MechanismName::SampleAndAggregate
        | MechanismName::Default => false,
    };
    if !is_number || grouping.is_some() {
        return Err(unlike("its cost does not stand in a mechanism before the aggregate").into());
    }
    if parameters.epsilon.is_none() && parameters.rho.is_none() {
        return Err(
            unlike("its mechanism states no eps and no rho, which are what is tuned").into()
        );
    }
    if parameters.rows_auto {
        return Err(unlike("rows=auto chooses the bound itself, on the private rows").into());
    }
    if consistent.is_some() || set.is_some() {
        return Err(unlike("it has several grouping sets").into());
    }
    let Operand::Aggregate(call) = operand else {
        return Err(only_numbers(&release.text).into());
    };
    let AggregateCall {
        function,
        star: _,
        distinct,
        fractions: _,
        bounds_per_group,
        bounds_per_row,
    } = call;
    let is_known = match function {
        AggregateName::Count | AggregateName::Sum | AggregateName::Avg => true,
        AggregateName::Min
        | AggregateName::Max
        | AggregateName::Median
        | AggregateName::Quantile
        | AggregateName::Quantiles
        | AggregateName::Cdf
        | AggregateName::Revenue
        | AggregateName::Spread(_)
        | AggregateName::Joint(_)
        | AggregateName::Unsupported(_) => false,
    };
    if !is_known || *distinct || bounds_per_group.is_some() || bounds_per_row.is_some() {
        return Err(only_numbers(&release.text).into());
    }
    Ok(release)
}

/// The parts of a question over one table.
fn shape(question: &QueryStatement) -> Result<Shape, DialectError> {
    let sql::Query { with, body, limit_clause, fetch, .. } = &*question.tree;
    if question.template.is_some() || question.range_of.is_some() || selects(&question.tree) > 1 {
        return Err(unlike("it reads more than one table, or has a subquery").into());
    }
    let SetExpr::Select(select) = &**body else {
        return Err(unlike("it is no plain SELECT").into());
    };
    let is_cut = with.is_some() || limit_clause.is_some() || fetch.is_some();
    if is_cut || select.having.is_some() || select.distinct.is_some() || select.qualify.is_some() {
        return Err(unlike("WITH, HAVING, DISTINCT, QUALIFY or LIMIT stands in it").into());
    }
    let [sql::TableWithJoins { relation: TableFactor::Table { name, args: None, .. }, joins }] =
        select.from.as_slice()
    else {
        return Err(unlike("it reads more than one table, or has a subquery").into());
    };
    let [ObjectNamePart::Identifier(table)] = name.0.as_slice() else {
        return Err(unlike("its table has a name of several parts").into());
    };
    if !joins.is_empty() {
        return Err(unlike("it reads more than one table, or has a subquery").into());
    }
    let keys = match &select.group_by {
        GroupByExpr::Expressions(keys, modifiers) if modifiers.is_empty() => {
            keys.iter().map(|key| written_key(key, &select.projection)).collect()
        }
        GroupByExpr::Expressions(..) | GroupByExpr::All(_) => {
            return Err(unlike("its GROUP BY does not list its keys").into());
        }
    };
    let value = released_value(&select.projection)?;
    Ok(Shape { table: folded(table), keys, value })
}

/// A key of GROUP BY as an expression of the table, if it is the number or the name of a column.
fn written_key(key: &Expr, projection: &[SelectItem]) -> Expr {
    let items = projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) => Some((expr, None)),
        SelectItem::ExprWithAlias { expr, alias } => Some((expr, Some(alias))),
        SelectItem::ExprWithAliases { .. }
        | SelectItem::QualifiedWildcard(..)
        | SelectItem::Wildcard(_) => None,
    });
    let mut items = items.enumerate();
    let found = items.find(|(at, (_, alias))| match key {
        Expr::Identifier(ident) => alias.is_some_and(|alias| folded(alias) == folded(ident)),
        Expr::Value(value) => value.value.to_string().parse::<usize>() == Ok(at + 1),
        _ => false,
    });
    found.map_or(key, |(_, (expr, _))| expr).clone()
}

/// The values that the release adds up, without their CLAMP; `None` for `COUNT(*)`.
fn released_value(projection: &[SelectItem]) -> Result<Option<Expr>, DialectError> {
    let released = projection.iter().find_map(|item| match item {
        SelectItem::UnnamedExpr(Expr::Function(call))
        | SelectItem::ExprWithAlias { expr: Expr::Function(call), alias: _ } => {
            marked(&call.name.to_string()).map(|_| call)
        }
        SelectItem::UnnamedExpr(_)
        | SelectItem::ExprWithAlias { .. }
        | SelectItem::ExprWithAliases { .. }
        | SelectItem::QualifiedWildcard(..)
        | SelectItem::Wildcard(_) => None,
    });
    let Some(call) = released else {
        return Err(unlike("its release is not a column by itself").into());
    };
    if call.filter.is_some() {
        return Err(unlike("its aggregate has a FILTER: write the condition into WHERE").into());
    }
    let value = first_argument(call);
    let clamped = match value {
        Some(Expr::Function(call)) if call.name.to_string().eq_ignore_ascii_case("clamp") => {
            first_argument(call)
        }
        _ => None,
    };
    Ok(clamped.or(value).cloned())
}

fn first_argument(call: &sql::Function) -> Option<&Expr> {
    let sql::FunctionArguments::List(list) = &call.args else { return None };
    match list.args.first() {
        Some(sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(expr))) => Some(expr),
        _ => None,
    }
}

/// The number of SELECTs in a query.
fn selects(tree: &sql::Query) -> usize {
    struct Selects(usize);
    impl sql::Visitor for Selects {
        type Break = ();

        fn pre_visit_query(&mut self, _: &sql::Query) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Continue(())
        }
    }
    let mut found = Selects(0);
    let _ = sql::Visit::visit(tree, &mut found);
    found.0
}

/// The text of the question between TUNE and ON, on one line, and the places of its bounds.
fn tunable_text(text: &str, release: &ReleaseClause) -> Result<TunableText, DialectError> {
    let written =
        || unlike("its mechanism does not stand before its aggregate, as in LAPLACE(eps=1) SUM(x)");
    let all = tokens(text)?;
    let mut offsets = TokenOffsets::in_text(text);
    let mut starts: Vec<usize> = all.iter().map(|t| offsets.offset(t.span.start)).collect();
    starts.push(text.len());
    // The tokens without white space and comments, and where each begins in the new text.
    let (mut kept, mut places, mut line): (Vec<TokenWithSpan>, Vec<usize>, String) =
        Default::default();
    let mut is_behind_tune = false;
    let mut is_apart = false;
    let is_word = |token: &Token, word: &str| matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word));
    for (at, token) in all.iter().enumerate() {
        if matches!(token.token, Token::Whitespace(_)) {
            is_apart = true;
        } else if is_behind_tune && !matches!(token.token, Token::EOF | Token::SemiColon) {
            if is_apart && !line.is_empty() {
                line.push(' ');
            }
            is_apart = false;
            places.push(line.len());
            kept.push(token.clone());
            let end = starts.get(at + 1).copied().unwrap_or(text.len());
            line.push_str(
                starts.get(at).and_then(|start| text.get(*start..end)).unwrap_or_default(),
            );
        } else {
            is_behind_tune |= is_word(&token.token, "TUNE");
        }
    }
    if kept.iter().any(|token| matches!(token.token, Token::Placeholder(_))) {
        return Err(unlike("it has parameters: write their values").into());
    }
    // ON and the name of the table.
    let end = kept
        .len()
        .checked_sub(2)
        .filter(|on| kept.get(*on).is_some_and(|t| is_word(&t.token, "ON")));
    let end = end.ok_or_else(written)?;
    line.truncate(places.get(end).copied().unwrap_or(line.len()));
    line.truncate(line.trim_end().len());
    let found = release_places(&kept, release.mechanism, end).ok_or_else(written)?;
    let [mechanism, close, aggregate, last] = found;
    let begin = |token: usize| places.get(token).copied().unwrap_or(line.len());
    let argument = begin(aggregate) + 1..begin(last);
    let values = clamped_values(&kept, aggregate, last)
        .map_or_else(|| argument.clone(), |[first, comma]| begin(first)..begin(comma));
    Ok(TunableText { parameters: begin(mechanism) + 1..begin(close), argument, values, text: line })
}

/// The parentheses of the mechanism and of its aggregate, if both are written once.
fn release_places(
    kept: &[TokenWithSpan],
    mechanism: MechanismName,
    end: usize,
) -> Option<[usize; 4]> {
    let is_open = |at: usize| kept.get(at).is_some_and(|token| token.token == Token::LParen);
    let word = |at: usize| match kept.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => Some(word.value.as_str()),
        _ => None,
    };
    let mut found = (0..end).filter_map(|at| {
        let is_own = word(at).and_then(MechanismName::parse) == Some(mechanism) && is_open(at + 1);
        let close = closing(kept, at + 1).filter(|_| is_own)?;
        let is_aggregate = word(close + 1).and_then(AggregateName::parse).is_some();
        let last = closing(kept, close + 2).filter(|_| is_aggregate && is_open(close + 2))?;
        Some([at + 1, close, close + 2, last])
    });
    found.next().filter(|_| found.next().is_none())
}

/// The first token of the values in `CLAMP(values, lo, hi)`, and the comma behind them, if this is
/// the whole argument.
fn clamped_values(kept: &[TokenWithSpan], open: usize, last: usize) -> Option<[usize; 2]> {
    let is_clamp = matches!(&kept.get(open + 1)?.token, Token::Word(word) if word.value.eq_ignore_ascii_case("clamp"));
    let inner = closing(kept, open + 2).filter(|close| is_clamp && *close + 1 == last)?;
    let mut depth = 0_usize;
    let comma = (open + 3..inner).find(|at| {
        let token = kept.get(*at).map(|token| &token.token);
        match token {
            Some(Token::LParen) => depth += 1,
            Some(Token::RParen) => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && token == Some(&Token::Comma)
    });
    Some([open + 3, comma?])
}

impl TuneStatement {
    /// The query for the rows of the stand-in that the question would read: its keys, the column
    /// of the unit, and the values, each row by itself.
    ///
    /// # Guarantee
    /// It has no release and names the stand-in alone. It shows single rows, so a table of people
    /// can never answer it.
    pub(crate) fn rows(&self, unit: Option<&str>) -> QueryStatement {
        let mut tree = self.query.tree.clone();
        let column = |expr: Expr, name: String| SelectItem::ExprWithAlias {
            expr,
            alias: Ident::with_quote('"', name),
        };
        tree.order_by = None;
        if let SetExpr::Select(select) = &mut *tree.body {
            let keys = self.keys.iter().enumerate();
            let mut shown: Vec<SelectItem> =
                keys.map(|(at, key)| column(key.clone(), format!("k{at}"))).collect();
            let own = unit.map(|unit| Expr::Identifier(Ident::with_quote('"', unit)));
            shown.extend(own.map(|unit| column(unit, UNIT.to_owned())));
            let value = self.value.clone().unwrap_or_else(|| number("1"));
            shown.push(column(value, VALUE.to_owned()));
            select.projection = shown;
            select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
            if let Some(TableFactor::Table { name, alias, .. }) =
                select.from.first_mut().map(|from| &mut from.relation)
            {
                *name = ObjectName::from(vec![Ident::with_quote('"', &self.stand_in)]);
                let own = Ident::with_quote('"', &self.table);
                let called =
                    |name| sql::TableAlias { explicit: true, name, columns: Vec::new(), at: None };
                alias.get_or_insert_with(|| called(own));
            }
        }
        QueryStatement {
            text: tree.to_string(),
            tree,
            releases: Vec::new(),
            range_of: None,
            null_values: false,
            headings: Vec::new(),
            names: Vec::new(),
            limited: None,
            template: None,
        }
    }
}

/// The refusal of a question of another form.
fn unlike(why: &str) -> Refusal {
    Refusal::new(
        Reason::NotYet,
        "TUNE",
        format!(
            "TUNE takes one COUNT, SUM or AVG of one table, with keys or without, and this question differs: {why}"
        ),
        FORM,
    )
}

fn only_numbers(text: &str) -> Refusal {
    Refusal::new(
        Reason::NotYet,
        text,
        format!(
            "TUNE takes COUNT(*), COUNT(x), SUM(x) and AVG(x) without DISTINCT and named bounds, and not {text}"
        ),
        FORM,
    )
}
