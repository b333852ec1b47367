//! What generated queries are made of, and what they must be made of.
//!
//! Every query of the grey box is taken apart into *constructs*: plan nodes, expressions,
//! functions, types, mechanisms, aggregates, clauses, ways of measuring. A report counts how often
//! each was generated and how often accepted. What must be there is not a list of names: [`probes`]
//! ask the engine about every function, operator, type and clause there is, and whatever it accepts
//! and can price has to be in an accepted query of the gate, where its claims are checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use hushql_engine::analysis::{Analysis, ReleaseKind};
use hushql_engine::bind::Bound;
use hushql_engine::dialect::{
    AggregateCall, CandidatesClause, KeysClause, Operand, Parameters, PriorClause, QueryStatement,
    SelectionClause, candidate_of, marked,
};

mod probes;

/// What a query is made of.
pub type Constructs = BTreeSet<String>;

/// A test that generates queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Over one table.
    One,
    /// Over several.
    Several,
}

/// How often constructs were generated, and accepted.
#[derive(Debug, Default)]
pub struct Coverage {
    seen: BTreeMap<String, (usize, usize)>,
}

impl Coverage {
    pub fn generated(&mut self, made_of: &Constructs) {
        for construct in made_of {
            self.seen.entry(construct.clone()).or_default().0 += 1;
        }
    }

    pub fn accepted(&mut self, made_of: &Constructs) {
        for construct in made_of {
            self.seen.entry(construct.clone()).or_default().1 += 1;
        }
    }

    pub fn add(&mut self, other: Self) {
        for (construct, (generated, accepted)) in other.seen {
            let own = self.seen.entry(construct).or_default();
            *own = (own.0 + generated, own.1 + accepted);
        }
    }

    /// What the engine accepts and no accepted query has, each with a query that has it.
    pub fn missing(&self, gate: Gate) -> BTreeMap<String, String> {
        let mut missing = probes::required(gate);
        missing.retain(|construct, _| self.seen.get(construct).is_none_or(|n| n.1 == 0));
        missing
    }

    /// Prints the report.
    ///
    /// # Panics
    /// When something that the engine accepts is in no accepted query.
    pub fn check(&self, gate: Gate) {
        let required = probes::required(gate);
        println!("{:>9} {:>8}", "generated", "accepted");
        for (construct, (generated, accepted)) in &self.seen {
            let mark = if required.contains_key(construct) { ' ' } else { '+' };
            println!("{generated:>9} {accepted:>8} {mark} {construct}");
        }
        let covered = |construct: &&String| self.seen.get(*construct).is_some_and(|n| n.1 > 0);
        let (some, none): (Vec<_>, Vec<_>) = required.keys().partition(covered);
        println!("{} of {} constructs are covered", some.len(), required.len());
        let missing: Vec<String> =
            none.iter().map(|c| format!("{c}\n    as in {}", required[*c])).collect();
        assert!(missing.is_empty(), "accepted, and never generated:\n{}", missing.join("\n"));
    }
}

/// Takes a query apart; what is measured is known of one that was accepted.
pub fn constructs(
    query: &QueryStatement,
    bound: &Bound,
    analysis: Option<&Analysis>,
) -> Constructs {
    let mut made_of = Constructs::new();
    for release in &query.releases {
        let what = match &release.operand {
            Operand::Selection(selection) => {
                chosen(selection, &mut made_of);
                selection.selector.to_string().split(' ').next().unwrap_or_default().to_owned()
            }
            Operand::Aggregate(call) => called(call),
            Operand::Response => "a response".to_owned(),
        };
        made_of.insert(format!("release {} {what}", release.mechanism));
        parameters(&release.parameters, &mut made_of);
        for keys in release.keys.iter().flatten() {
            made_of.insert(match keys {
                KeysClause::List(_) => "clause KEYS list".to_owned(),
                KeysClause::Domain => "clause KEYS DOMAIN".to_owned(),
                KeysClause::Table { .. } => "clause KEYS TABLE".to_owned(),
            });
        }
        if let Some(grouping) = &release.grouping {
            made_of.insert("clause OPTIONS".to_owned());
            if let Some(strategy) = grouping.strategy {
                made_of.insert(format!("clause group_selection_strategy {strategy:?}"));
            }
            if grouping.min_units.is_some() {
                made_of.insert("clause min_privacy_units_per_group".to_owned());
            }
        }
        if release.unit_column.is_some() {
            made_of.insert("clause privacy_unit_column".to_owned());
        }
    }
    walk(bound.plan(), false, &mut made_of);
    for part in analysis.into_iter().flat_map(Analysis::parts) {
        made_of.insert(format!("unit {}", if part.has_unit() { "of a column" } else { "row" }));
        if let Some(sets) = part.sets() {
            let keys = if part.key_names().is_empty() { "without keys" } else { "with keys" };
            let several = if sets > 1 { "of several" } else { "alone" };
            made_of.insert(format!("grouping set {keys}, {several}"));
        }
        for measure in part.measures() {
            made_of.insert(format!(
                "measure {} from {}",
                word(&measure.input),
                word(measure.input_shape())
            ));
            if let ReleaseKind::Choice(choice) = &measure.release_kind {
                made_of.insert(format!(
                    "choice of {}, {}",
                    word(&choice.source),
                    word(choice.sharing)
                ));
            }
        }
    }
    made_of
}

/// The first word of something's debug text: the name of an enum's variant.
fn word(of: impl Debug) -> String {
    format!("{of:?}").chars().take_while(|c| c.is_alphanumeric()).collect()
}

fn called(call: &AggregateCall) -> String {
    let mut name = call.function.to_string();
    for (is, word) in [
        (call.star, " of rows"),
        (call.distinct, " DISTINCT"),
        (call.bounds_per_group.is_some(), " per group"),
        (call.bounds_per_row.is_some(), " per row"),
    ] {
        name.push_str(if is { word } else { "" });
    }
    name
}

fn chosen(selection: &SelectionClause, made_of: &mut Constructs) {
    let candidates = match &selection.candidates {
        None => "of the key",
        Some(CandidatesClause::List(_)) => "IN list",
        Some(CandidatesClause::Range { step: Some(_), .. }) => "IN RANGE with a step",
        Some(CandidatesClause::Range { step: None, .. }) => "IN RANGE",
    };
    let name = if selection.named { "a name" } else { "a key" };
    made_of.insert(format!("candidates {candidates} for {name}"));
    made_of.insert(format!("score {} for {name}", called(&selection.score)));
    let prior = selection.prior.as_ref().map(|prior| match prior {
        PriorClause::Table { .. } => "clause PRIOR table".to_owned(),
        PriorClause::LogUniform => "clause PRIOR LOG_UNIFORM".to_owned(),
    });
    made_of.extend(prior);
}

fn parameters(parameters: &Parameters, made_of: &mut Constructs) {
    let Parameters {
        epsilon,
        rho,
        delta,
        groups,
        rows,
        rows_auto,
        total_rows,
        blocks,
        monotonic,
        within,
        complete_above,
        confidence,
        jointly,
    } = parameters;
    for (is, name) in [
        (epsilon.is_some(), "eps"),
        (rho.is_some(), "rho"),
        (delta.is_some(), "delta"),
        (groups.is_some(), "groups"),
        (rows.is_some(), "rows"),
        (*rows_auto, "rows auto"),
        (total_rows.is_some(), "total rows"),
        (blocks.is_some(), "blocks"),
        (monotonic.is_some(), "monotonic"),
        (within.is_some(), "within"),
        (complete_above.is_some(), "complete above"),
        (confidence.is_some(), "confidence"),
        (*jointly, "jointly"),
    ] {
        if is {
            made_of.insert(format!("parameter {name}"));
        }
    }
}

/// Takes apart what stands below releases.
fn walk(plan: &LogicalPlan, below: bool, made_of: &mut Constructs) {
    let releases = matches!(plan, LogicalPlan::Aggregate(aggregate)
        if aggregate.aggr_expr.iter().any(holds_release));
    let inputs = plan.inputs();
    let schema = merge_schema(&inputs);
    if below {
        let text = plan.display().to_string();
        let name = text.split(':').next().unwrap_or_default();
        made_of.insert(format!("node {name}"));
    }
    if let (LogicalPlan::Aggregate(aggregate), true) = (plan, releases) {
        for key in &aggregate.group_expr {
            made_of.insert(format!("key of type {}", type_of(key, &schema)));
        }
    }
    if below || releases {
        for expr in plan.expressions() {
            expression(&expr, &schema, made_of);
        }
        let _ = plan.apply_subqueries(|subquery| {
            walk(subquery, true, made_of);
            Ok(TreeNodeRecursion::Continue)
        });
    }
    for input in inputs {
        walk(input, below || releases, made_of);
    }
}

fn holds_release(expr: &Expr) -> bool {
    expr.exists(|e| {
        Ok(matches!(e, Expr::AggregateFunction(call) if marked(call.func.name()).is_some()))
    })
    .unwrap()
}

/// A type without its digits.
fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Timestamp(unit, zone) => {
            format!("Timestamp {unit:?}{}", if zone.is_some() { " zoned" } else { "" })
        }
        other => word(other),
    }
}

fn type_of(expr: &Expr, schema: &DFSchema) -> String {
    expr.get_type(schema).map_or_else(|_| "unknown".to_owned(), |t| type_name(&t))
}

fn expression(expr: &Expr, schema: &DFSchema, made_of: &mut Constructs) {
    let mut is = |construct: String| {
        made_of.insert(construct);
    };
    let literal = |e: Option<&Expr>| match e {
        Some(Expr::Literal(value, _)) => {
            value.try_as_str().flatten().unwrap_or_default().to_lowercase()
        }
        _ => String::new(),
    };
    let not = |negated: bool| if negated { "not " } else { "" };
    let walked = expr.apply(|e| {
        match e {
            Expr::BinaryExpr(binary) => is(format!("operator {}", binary.op)),
            Expr::ScalarFunction(call) if candidate_of(call.func.name()).is_some() => {
                is("expression the candidate".to_owned());
            }
            Expr::ScalarFunction(call) => {
                let name = call.func.name();
                is(format!("function {name}"));
                if name == "date_part" || name == "date_trunc" {
                    is(format!("function {name} {}", literal(call.args.first())));
                }
            }
            Expr::Cast(cast) => is(format!("cast to {}", type_name(cast.field.data_type()))),
            Expr::TryCast(cast) => is(format!("cast to {}", type_name(cast.field.data_type()))),
            Expr::Column(_) => is(format!("column of type {}", type_of(e, schema))),
            Expr::Like(like) => {
                let i = if like.case_insensitive { "I" } else { "" };
                is(format!("expression {}{i}Like", not(like.negated)));
            }
            Expr::Between(between) => is(format!("expression {}Between", not(between.negated))),
            Expr::InList(list) => is(format!("expression {}InList", not(list.negated))),
            Expr::Exists(exists) => is(format!("expression {}Exists", not(exists.negated))),
            Expr::InSubquery(subquery) => {
                is(format!("expression {}InSubquery", not(subquery.negated)));
            }
            Expr::Case(case) => {
                let of = if case.expr.is_some() { " of a value" } else { "" };
                let otherwise = if case.else_expr.is_some() { "" } else { " without ELSE" };
                is(format!("expression Case{of}{otherwise}"));
            }
            Expr::AggregateFunction(call) => {
                let filter = call.params.filter.is_some();
                if marked(call.func.name()).is_some() {
                    for argument in &call.params.args {
                        is(format!("argument of type {}", type_of(argument, schema)));
                    }
                    if filter {
                        is("clause FILTER".to_owned());
                    }
                } else {
                    let distinct = if call.params.distinct { " DISTINCT" } else { "" };
                    is(format!("inner {}{distinct}", call.func.name()));
                    if filter {
                        is("inner FILTER".to_owned());
                    }
                }
            }
            Expr::WindowFunction(window) => {
                let frame = &window.params.window_frame;
                is(format!("window {}", window.fun.name().to_lowercase()));
                is(format!("window frame {:?}", frame.units));
            }
            Expr::Alias(_) | Expr::Literal(..) => {}
            other => is(format!("expression {}", other.variant_name())),
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.unwrap();
}
