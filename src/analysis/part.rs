//! One private part: an aggregate across privacy units, cut out of its query.
//!
//! In: an aggregate node over private rows. Out: a [`Part`]: the enforced plan that yields the unit, the
//! group keys and the arguments of every measure; the public key space; the measures.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{HashSet, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan};

use super::chooses_several;
use super::columns::{Columns, Group, group_keys, keys_of};
use super::expression::{Total, total};
use super::flow::{Flow, internal, no_facts, rows};
use super::keys::{KeySpace, known_keys, listed_keys};
use super::measure::{Argument, Measure, Use, limits, number, read, score};
use crate::bind::Bound;
use crate::catalog::{Catalog, RESERVED, Unit};
use crate::dialect::{
    AggregateCall, AggregateName, MechanismName, Operand, Parameters, ReleaseClause, Selector,
    marked,
};
use crate::functions::without_nan;
use crate::refusal::{Reason, Refusal};

/// An aggregate across privacy units: what it reads, the keys that come out, what it measures.
#[derive(Debug)]
pub struct Part {
    table: String,
    unit: Unit,
    input: LogicalPlan,
    has_unit: bool,
    key_names: Vec<String>,
    keys: KeySpace,
    measures: Vec<Measure>,
    released: SchemaRef,
    aggregate: Aggregate,
    steps: Vec<String>,
}

impl Part {
    /// How the analysis came to this part, step by step.
    pub fn steps(&self) -> &[String] {
        &self.steps
    }

    /// The private table that is read; its unit space is charged.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Who is protected.
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// The enforced rows: the unit first (unless it is the row), then the keys, then the arguments.
    pub fn input(&self) -> &LogicalPlan {
        &self.input
    }

    /// Whether the input's first column is the unit.
    pub fn has_unit(&self) -> bool {
        self.has_unit
    }

    /// The group keys as written.
    pub fn key_names(&self) -> &[String] {
        &self.key_names
    }

    /// The public key space.
    pub fn keys(&self) -> &KeySpace {
        &self.keys
    }

    /// The measures, one per released column.
    pub fn measures(&self) -> &[Measure] {
        &self.measures
    }

    /// The released table: key columns, then one column per measure.
    pub fn released_schema(&self) -> SchemaRef {
        Arc::clone(&self.released)
    }

    /// The number of columns before the arguments.
    pub fn arguments_start(&self) -> usize {
        usize::from(self.has_unit) + self.key_names.len()
    }

    /// Whether the part chooses among its keys instead of releasing numbers for them.
    pub fn is_selection(&self) -> bool {
        self.measures.iter().any(|m| matches!(m.use_, Use::Score { .. }))
    }

    /// Whether this part was cut from an equal aggregate.
    pub(super) fn is_of(&self, aggregate: &Aggregate) -> bool {
        self.aggregate == *aggregate
    }
}

/// An aggregate expression taken apart.
pub(super) struct CallOf;

impl CallOf {
    fn function(expr: &Expr) -> Option<&AggregateFunction> {
        match expr {
            Expr::AggregateFunction(call) => Some(call),
            Expr::Alias(alias) => Self::function(&alias.expr),
            _ => None,
        }
    }

    /// The release that an aggregate expression stands for.
    pub(super) fn marker(expr: &Expr) -> Option<usize> {
        marked(Self::function(expr)?.func.name())
    }

    /// Whether an aggregate expression is a selection's marker: its arguments are target and score.
    pub(super) fn selection(expr: &Expr) -> bool {
        Self::marker(expr).is_some()
            && Self::function(expr).is_some_and(|call| call.params.args.len() == 2)
    }
}

/// Cuts an aggregate over private rows out of its query.
///
/// # Guarantee
/// The part's input carries the unit of every row; its keys are public; each measure's sensitivity holds for
/// the bounds that the part's operators enforce.
///
/// # Errors
/// A refusal, see [`Reason`].
pub(super) fn cut(
    aggregate: &Aggregate,
    bound: &Bound,
    catalog: &Catalog,
    steps: &mut Vec<String>,
) -> Result<Part, Refusal> {
    let before = steps.len();
    let calls = releases(aggregate, bound)?;
    let flow = rows(&aggregate.input, catalog, steps)?;
    let mut columns = Columns::new(&flow);
    let groups = group_keys(aggregate, &flow, &mut columns)?;
    let keys_clause = calls.iter().map(|c| &c.clause.keys).find(|keys| !keys.is_empty());
    let selections: Vec<_> = calls.iter().filter(|c| c.is_selection()).collect();
    if !selections.is_empty() && selections.len() != calls.len() {
        return Err(Refusal::new(
            Reason::Place,
            &selections[0].clause.text,
            "a selection answers one row, an aggregate one per group",
            "two statements",
        ));
    }
    let values = match selections.as_slice() {
        [] => groups
            .iter()
            .enumerate()
            .map(|(i, group)| {
                let clause = keys_clause.and_then(|k| k.get(i)).and_then(Option::as_ref);
                keys_of(group, clause)
            })
            .collect::<Result<Vec<_>, _>>()?,
        selections => {
            if keys_clause.is_some() {
                return Err(Refusal::new(
                    Reason::Place,
                    "KEYS",
                    "the candidates of a selection stand behind its target",
                    format!("{} IN ('a', 'b')", selections[0].clause.text),
                ));
            }
            vec![candidates(selections, aggregate, &groups)?]
        }
    };
    for (group, keys) in groups.iter().zip(&values) {
        columns.drop_strangers_late(group, keys);
    }
    let space = KeySpace::product(&values, "GROUP BY")?;
    let measures = calls
        .iter()
        .map(|call| measure(call, &flow, &mut columns, &space, values.first(), &groups))
        .collect::<Result<Vec<_>, _>>()?;
    steps.push(format!(
        "Aggregate{}{}: {}",
        if groups.is_empty() { "" } else { " by " },
        groups.iter().map(|g| g.name.as_str()).collect::<Vec<_>>().join(", "),
        measures.iter().map(describe_measure).collect::<Vec<_>>().join(", "),
    ));
    let fields: Vec<_> = aggregate
        .schema
        .fields()
        .iter()
        .enumerate()
        .map(|(i, field)| Field::new(format!("c{i}"), field.data_type().clone(), true))
        .collect();
    Ok(Part {
        table: flow.table.clone(),
        unit: flow.unit.clone(),
        has_unit: flow.unit.column().is_some(),
        input: columns.build(&flow)?,
        key_names: groups.into_iter().map(|g| g.name).collect(),
        keys: space,
        measures,
        released: Arc::new(Schema::new(fields)),
        aggregate: aggregate.clone(),
        steps: steps.get(before..).unwrap_or_default().to_vec(),
    })
}

fn describe_measure(measure: &Measure) -> String {
    let shown = |units: i128| {
        let value = crate::privacy::Rational::from_integer(units.into()) * measure.grid_unit();
        crate::privacy::decimal_text(&value, 6)
    };
    let what = match &measure.clause.operand {
        Operand::Aggregate(_) => measure.clause.text.clone(),
        Operand::Selection { by, .. } => by.clone(),
    };
    format!("{what} [{}..{}]", shown(measure.lo), shown(measure.hi))
}

/// A release's clause with the plan's version of its call.
struct Call<'a> {
    clause: ReleaseClause,
    params: &'a AggregateFunctionParams,
    column: String,
    data_type: DataType,
}

impl Call<'_> {
    fn is_selection(&self) -> bool {
        matches!(self.clause.operand, Operand::Selection { .. })
    }
}

/// The aggregate's expressions as releases; bare ones become releases of the default.
fn releases<'a>(aggregate: &'a Aggregate, bound: &Bound) -> Result<Vec<Call<'a>>, Refusal> {
    if aggregate.aggr_expr.is_empty() {
        return Err(Refusal::new(
            Reason::Exact,
            "GROUP BY",
            "the distinct values of a private table are not released",
            "GROUP BY the column with LAPLACE(eps=1) COUNT(*)",
        ));
    }
    let fields = aggregate.schema.fields().iter().skip(aggregate.group_expr.len());
    let mut calls = Vec::new();
    for (expr, field) in aggregate.aggr_expr.iter().zip(fields) {
        let Some(function) = CallOf::function(expr) else { return Err(no_call(expr)) };
        let clause = match marked(function.func.name()) {
            Some(n) => bound.releases().get(n).cloned().ok_or_else(|| no_call(expr))?,
            None => bare(function, expr)?,
        };
        if !function.params.order_by.is_empty() || function.params.null_treatment.is_some() {
            return Err(no_call(expr));
        }
        calls.push(Call {
            clause,
            params: &function.params,
            column: field.name().clone(),
            data_type: field.data_type().clone(),
        });
    }
    Ok(calls)
}

fn no_call(expr: &Expr) -> Refusal {
    Refusal::new(
        Reason::Operand,
        expr,
        format!("{expr} cannot be released"),
        "COUNT, SUM or AVG with a mechanism in front: LAPLACE(eps=1) COUNT(*)",
    )
}

/// A bare aggregate, which the budget's default may release.
fn bare(function: &AggregateFunction, expr: &Expr) -> Result<ReleaseClause, Refusal> {
    let name = AggregateName::parse(function.func.name()).ok_or_else(|| no_call(expr))?;
    let star = name == AggregateName::Count
        && matches!(function.params.args.as_slice(), [Expr::Literal(value, _)] if !value.is_null());
    if function.params.args.len() != 1 && !matches!(name, AggregateName::Unsupported(_)) {
        return Err(no_call(expr));
    }
    Ok(ReleaseClause {
        mechanism: MechanismName::Default,
        parameters: Parameters::default(),
        operand: Operand::Aggregate(AggregateCall {
            function: name,
            star,
            distinct: function.params.distinct,
            bounds_per_group: None,
            bounds_per_row: None,
        }),
        keys: Vec::new(),
        unit_column: None,
        text: if star { "count(*)".to_owned() } else { expr.schema_name().to_string() },
    })
}

/// The candidates of the selections of one SELECT: those of each, once.
fn candidates(
    selections: &[&Call<'_>],
    aggregate: &Aggregate,
    groups: &[Group],
) -> Result<Vec<ScalarValue>, Refusal> {
    let mut all: Vec<ScalarValue> = Vec::new();
    let mut seen = HashSet::new();
    for call in selections {
        for value in own_candidates(call, aggregate, groups)? {
            if seen.insert(value.clone()) {
                all.push(value);
            }
        }
    }
    Ok(all)
}

fn own_candidates(
    call: &Call<'_>,
    aggregate: &Aggregate,
    groups: &[Group],
) -> Result<Vec<ScalarValue>, Refusal> {
    let text = &call.clause.text;
    let target = call.params.args.first();
    let position = aggregate.group_expr.iter().position(|key| Some(key) == target);
    let Some(group) = position.and_then(|i| groups.get(i)) else {
        return Err(Refusal::new(
            Reason::Target,
            text,
            format!("{text} is not a key of GROUP BY, so it has no candidates"),
            format!("… FROM t GROUP BY {text}"),
        ));
    };
    if groups.len() > 1 {
        let others = groups.iter().map(|g| g.name.as_str()).filter(|n| n != text);
        return Err(Refusal::new(
            Reason::WinnerPerGroup,
            others.collect::<Vec<_>>().join(", "),
            "one winner per group is not built yet",
            format!("GROUP BY {text} alone, with WHERE for the group of interest"),
        ));
    }
    let Operand::Selection { candidates, .. } = &call.clause.operand else {
        return Ok(Vec::new());
    };
    match candidates {
        Some(literals) => listed_keys(literals, &group.facts, &group.data_type, text),
        None => known_keys(&group.facts, &group.data_type, text, true),
    }
}

/// What a release measures, with its argument and FILTER put into the input's columns.
fn measure(
    call: &Call<'_>,
    flow: &Flow,
    columns: &mut Columns,
    space: &KeySpace,
    values: Option<&Vec<ScalarValue>>,
    groups: &[Group],
) -> Result<Measure, Refusal> {
    let text = call.clause.text.as_str();
    check_unit_column(&call.clause, &flow.unit)?;
    let mut clause = call.clause.clone();
    let (aggregate_call, selector) = match &call.clause.operand {
        Operand::Aggregate(aggregate) => (aggregate, None),
        Operand::Selection { selector, score, .. } => {
            if chooses_several(*selector) {
                return Err(Refusal::new(
                    Reason::NotYet,
                    selector,
                    "choosing several candidates is not built yet",
                    "ARGMAX, or LAPLACE(eps=1) COUNT(*) per group with ORDER BY and LIMIT outside",
                ));
            }
            (score, Some(*selector))
        }
    };
    // FILTER narrows what its aggregate sees.
    let mut scope = flow.scope.clone();
    let filter = match &call.params.filter {
        Some(predicate) => {
            let filter = total(predicate, &scope)?;
            scope = scope.narrowed(predicate);
            Some(columns.argument(filter.expr))
        }
        None => None,
    };
    let argument = argument(call, aggregate_call, flow, columns, &scope)?;
    let read = read(aggregate_call, &argument, &flow.unit, &mut clause.parameters, text)?;
    let is_score = selector.is_some();
    let limits = limits(&flow.unit, &clause.parameters, &read, space.len(), is_score, text)?;
    let use_ = match selector {
        None => number(&read, &limits, text)?,
        Some(selector) => {
            let own = selected(&clause, values, groups)?;
            score(&read, &limits, selector, own, text)?
        }
    };
    Ok(Measure {
        clause,
        column: call.column.clone(),
        data_type: call.data_type.clone(),
        input: read.input,
        filter,
        grid: read.grid,
        lo: read.lo,
        hi: read.hi,
        limits,
        use_,
    })
}

/// The rows of the key space that are candidates of this selection.
fn selected(
    clause: &ReleaseClause,
    values: Option<&Vec<ScalarValue>>,
    groups: &[Group],
) -> Result<Vec<usize>, Refusal> {
    let all = values.map_or(&[][..], Vec::as_slice);
    let (Operand::Selection { candidates: Some(literals), .. }, Some(group)) =
        (&clause.operand, groups.first())
    else {
        return Ok((0..all.len()).collect());
    };
    let own = listed_keys(literals, &group.facts, &group.data_type, &clause.text)?;
    Ok(own.iter().filter_map(|value| all.iter().position(|v| v == value)).collect())
}

fn argument(
    call: &Call<'_>,
    aggregate: &AggregateCall,
    flow: &Flow,
    columns: &mut Columns,
    scope: &super::facts::Scope,
) -> Result<Argument, Refusal> {
    // A selection's first argument is its target.
    let skip = usize::from(call.is_selection());
    let facts = no_facts();
    let none = Argument {
        column: 0,
        data_type: DataType::Int64,
        range: facts.range,
        is_unit: false,
        remedy: String::new(),
    };
    if aggregate.star {
        return Ok(none);
    }
    let Some(expr) = call.params.args.get(skip) else { return Ok(none) };
    let remedy = remedy(expr, &flow.table);
    let Total { expr, facts } = total(expr, scope)?;
    let data_type = expr.get_type(flow.plan.schema()).map_err(|e| internal(&e))?;
    let column = columns.argument(without_nan(expr, &data_type));
    Ok(Argument { column, data_type, range: facts.range, is_unit: facts.is_unit, remedy })
}

/// The two ways to give an expression a range.
fn remedy(expr: &Expr, table: &str) -> String {
    match expr {
        Expr::Column(column) => format!(
            "CLAMP({0}, lo, hi) in place of {0}, or declare its domain: ALTER TABLE {table} ALTER COLUMN {0} SET PRIVACY DOMAIN BETWEEN (lo, hi)",
            column.name
        ),
        _ => "CLAMP(…, lo, hi) around it, or declare the domains of its columns: ALTER TABLE … ALTER COLUMN … SET PRIVACY DOMAIN BETWEEN (lo, hi)".to_owned(),
    }
}

/// An analyst never chooses whom to protect: `privacy_unit_column` may only repeat the declaration.
fn check_unit_column(clause: &ReleaseClause, unit: &Unit) -> Result<(), Refusal> {
    let Some(named) = &clause.unit_column else { return Ok(()) };
    if unit.column() == Some(named.as_str()) {
        return Ok(());
    }
    let declared = unit.column().map_or("the row".to_owned(), ToOwned::to_owned);
    Err(Refusal::new(
        Reason::UnitColumn,
        format!("privacy_unit_column={named}"),
        format!("the declared privacy unit is {declared}"),
        "OPTIONS without privacy_unit_column",
    ))
}

impl Refusal {
    /// Puts what was written in place of the engine's own marker names.
    pub(super) fn hiding_markers(self, releases: &[ReleaseClause]) -> Self {
        let text = releases.iter().map(|r| r.text.as_str()).collect::<Vec<_>>().join(", ");
        if self.clause().contains(RESERVED) {
            return Self::new(self.reason(), text, self.message(), self.hint());
        }
        self
    }
}

/// Whether a selector prefers low scores.
pub(crate) fn prefers_low(selector: Selector) -> bool {
    matches!(selector, Selector::ArgMin | Selector::Bottom(_))
}
