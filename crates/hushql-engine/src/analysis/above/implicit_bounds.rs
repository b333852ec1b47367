//! Bounds that are found: the range of a sum, mean, variance, quantile or extreme that has none.
//!
//! In: a query in which an aggregate has no range: in plain SQL, under GoogleSQL's OPTIONS or
//! behind a mechanism. Out: the same query with the aggregate's cost split in two. One half
//! releases the histogram of its argument. The other half releases the aggregate of the argument,
//! measured in units of the bound that the histogram showed. All aggregates of one SELECT that read
//! the same argument of the same rows share one histogram, and each pays half of its cost for it.
//! The rewritten query is analyzed like any other. The bound is a released value, and no noise is
//! calibrated to it, because the summed values lie in −1..1 for every bound.
//!
//! ```text
//! SUM(x) at ε   →   SUM(CLAMP(x / b, −1, 1)) at ε/2, times b
//!                   b = (SELECT MAX(2^k) … buckets of x with enough of COUNT(*) at ε/2; if none has enough, the fullest bucket)
//! ```
//!
//! A statistic of two columns has a histogram for each column without a range. If both have none,
//! each histogram costs a quarter.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::expr::{AggregateFunction, TryCast};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder};

use super::findable::is_eligible;
use super::scaled_aggregates::{ArgumentBound, Rewriting, aliased, call_of, place_of};
use crate::analysis::call::read_calls::bare_clause_of;
use crate::analysis::default_shares::{DefaultShare, DefaultShares, is_bare};
use crate::analysis::expr::aggregate_call::CallOf;
use crate::analysis::expr::shape::readable;
use crate::analysis::not_analyzed::{BareCall, CallPlace, NoRange, NotAnalyzed};
use crate::analysis::outcome::Analysis;
use crate::bind::{Bound, marker_function};
use crate::catalog::Catalog;
use crate::dialect::{
    AggregateCall, AggregateName, Finding, MechanismName, Operand, Parameters, ReleaseClause,
};
use crate::privacy::{Epsilon, Rational, Rho};

/// The most rounds in which bounds are found. Each finds those of at least one more aggregate.
const MOST_ROUNDS: usize = 64;

/// Analyzes a query in which a release has no range. Repeats until every such release that may find
/// its bounds has found them.
///
/// Releases without a cost share a budget's default. What a histogram costs is known once all of
/// them are, and the least count of its buckets follows from that, so the query is rewritten twice.
///
/// # Guarantee
/// The result is what `analyze` makes of the query as written, or of the query after [`rewritten`]
/// has replaced some of its releases. The cost does not grow.
///
/// # Errors
/// The errors of `analyze`.
pub(crate) fn with_bounds_found(
    bound: &Bound,
    missing: NoRange,
    catalog: &Catalog,
    analyze: &dyn Fn(&Bound) -> Result<Analysis, NotAnalyzed>,
) -> Result<Analysis, NotAnalyzed> {
    let priced = found(bound, missing.clone(), &Costs::new(), analyze)?;
    if let Some(budget) = fixed_by(&priced, catalog) {
        let why = format!("budget `{budget}` takes declared bounds alone");
        return Err(NotAnalyzed::NoRange(missing).said(|refusal| refusal.since(&why)));
    }
    match default_costs(&priced, catalog) {
        None => Err(NotAnalyzed::NoRange(missing)),
        Some(costs) if costs.is_empty() => Ok(priced),
        Some(costs) => found(bound, missing, &costs, analyze),
    }
}

/// The budget whose owner has fixed that no bounds are found for its people, if there is one.
fn fixed_by<'a>(analysis: &Analysis, catalog: &'a Catalog) -> Option<&'a str> {
    let finding = analysis
        .parts()
        .iter()
        .filter(|part| part.measures().iter().any(|measure| measure.clause.finding.is_some()));
    finding.map(|part| part.subject().unit_domain()).find_map(|of| catalog.declares_bounds(of))
}

/// The default costs of histograms, by the number of their bound.
type Costs = BTreeMap<usize, Parameters>;

/// The default costs of the histograms that state none. `None` if no default applies to one.
fn default_costs(analysis: &Analysis, catalog: &Catalog) -> Option<Costs> {
    let mut costs = Costs::new();
    for part in analysis.parts() {
        let shares = DefaultShares::of(analysis.parts(), part.subject().unit_domain(), catalog);
        for measure in part.measures().iter().filter(|measure| is_bare(measure)) {
            let Some(Finding::Histogram { bound, .. }) = measure.clause.finding else { continue };
            let (epsilon, rho) = match shares.share_of(measure)? {
                DefaultShare::Epsilon(epsilon) => (Some(epsilon), None),
                DefaultShare::Rho(rho) => (None, Some(rho)),
            };
            costs.insert(bound, Parameters { epsilon, rho, ..Parameters::default() });
        }
    }
    Some(costs)
}

/// Analyzes a query after the bounds of its releases are found, with the default costs of the
/// histograms, if they are known.
fn found(
    bound: &Bound,
    missing: NoRange,
    costs: &Costs,
    analyze: &dyn Fn(&Bound) -> Result<Analysis, NotAnalyzed>,
) -> Result<Analysis, NotAnalyzed> {
    let first = missing.clone();
    let (mut missing, mut found) = (missing, None);
    for _ in 0..MOST_ROUNDS {
        let current = found.as_ref().unwrap_or(bound);
        let Some(next) = rewritten(current, &missing, costs, analyze) else { break };
        match analyze(&next) {
            Ok(analysis) if !may_find(&analysis) => return Err(NotAnalyzed::NoRange(first)),
            Err(NotAnalyzed::NoRange(another)) => missing = another,
            analyzed => return analyzed,
        }
        found = Some(next);
    }
    Err(NotAnalyzed::NoRange(missing))
}

/// The query in which the bounds of one release, and of the releases that share them, are found
/// first; `None` if they cannot be found.
///
/// # Guarantee
/// The releases cost no more than before: each pays half of its price, rounded down, for itself,
/// and the other half for the histogram, or a quarter for each of two. The rewritten query needs no
/// privacy proof of its own: it is analyzed like a query that a user wrote.
fn rewritten(
    bound: &Bound,
    missing: &NoRange,
    costs: &Costs,
    analyze: &dyn Fn(&Bound) -> Result<Analysis, NotAnalyzed>,
) -> Option<Bound> {
    let marked;
    let (bound, release) = match missing.call.as_ref()? {
        CallPlace::Release(release) => (bound, *release),
        CallPlace::Bare(bare) => {
            marked = with_marks(bound, bare)?;
            (&marked.0, marked.1)
        }
    };
    let aggregate = first_with(bound.plan(), release)?;
    let sharing = sharing(bound, &aggregate, release)?;
    let found =
        |places: &[usize]| in_found_units(bound, &aggregate, &sharing, places, costs, analyze);
    if number_of_columns(bound.releases().get(release)?) == 1 {
        return found(&[0]);
    }
    // The refusal does not say which of the two columns has no range: the first bounds with which
    // the release has one are those that it lacks.
    [&[0][..], &[1], &[0, 1]].into_iter().find_map(|places| {
        let next = found(places)?;
        let is_missing = |call: &Option<CallPlace>| {
            matches!(call, Some(CallPlace::Release(own)) if sharing.contains(own))
        };
        match analyze(&next) {
            Err(NotAnalyzed::NoRange(another)) if is_missing(&another.call) => None,
            Ok(_)
            | Err(
                NotAnalyzed::NoRange(_)
                | NotAnalyzed::Refused(_)
                | NotAnalyzed::ManyUnits(_)
                | NotAnalyzed::Fault(_),
            ) => Some(next),
        }
    })
}

/// The query in which releases are in units of the bounds of some of their arguments, by their
/// places. Each bound has a histogram.
fn in_found_units(
    bound: &Bound,
    aggregate: &Aggregate,
    sharing: &[usize],
    places: &[usize],
    costs: &Costs,
    analyze: &dyn Fn(&Bound) -> Result<Analysis, NotAnalyzed>,
) -> Option<Bound> {
    let mut releases = bound.releases().to_vec();
    let first = releases.len();
    let call = call_of(aggregate, sharing)?;
    // All histograms have the same cost.
    let default = costs.get(&first);
    let mut paying = Vec::new();
    for release in sharing {
        let clause = releases.get_mut(*release)?;
        let half = share_of(&clause.parameters, 1, 2)?;
        paying.push(ReleaseClause {
            parameters: share_of(&half, 1, places.len())?,
            ..clause.clone()
        });
        let own = default.and_then(|one| share_of(one, places.len(), sharing.len()));
        *clause = in_units(clause, half, own, places, first);
    }
    let mut arguments = Vec::new();
    for (counter, place) in (first..).zip(places) {
        let argument = call.params.args.get(*place)?;
        releases.push(histogram_for(&paying, argument, default)?);
        arguments.push(ArgumentBound { place: *place, counter, least: 0 });
    }
    let mut rewriting = Rewriting { sharing: sharing.to_vec(), arguments, releases };
    for i in 0..places.len() {
        let least = rewriting.threshold(i, aggregate, default, analyze)?;
        let argument = rewriting.arguments.get_mut(i)?;
        argument.least = least;
        let (bound, payers, shared_by) = (argument.counter, sharing.len(), places.len());
        rewriting.releases.get_mut(bound)?.finding =
            Some(Finding::Histogram { bound, least, payers, shared_by });
    }
    let plan = rewriting.plan(bound.plan()).ok()?;
    Some(Bound::from_plan(plan, rewriting.releases))
}

/// The query in which a bare aggregate without a range, and all bare ones of the same argument
/// beside it, are releases without a cost. They mean the same. Also the number of the first.
fn with_marks(bound: &Bound, bare: &BareCall) -> Option<(Bound, usize)> {
    let node = &bare.node;
    let mut releases = bound.releases().to_vec();
    let first = releases.len();
    let own = node.aggr_expr.get(bare.place)?;
    let own = arguments_and_filter(CallOf::function(own)?, &bare_clause_at(own)?)?;
    let mut calls = node.aggr_expr.clone();
    for expr in &mut calls {
        let Some(call) = CallOf::function(expr) else { continue };
        if CallOf::marker(expr).is_some() || call.params.distinct {
            continue;
        }
        let Some(clause) = bare_clause_at(expr).filter(is_eligible) else { continue };
        let Some(read) = arguments_and_filter(call, &clause).filter(|read| *read == own) else {
            continue;
        };
        // The fraction of a quantile is in its clause.
        let argument = read.0.to_vec();
        *expr = Expr::AggregateFunction(AggregateFunction::new_udf(
            marker_function(releases.len(), &clause),
            argument,
            false,
            call.params.filter.clone(),
            Vec::new(),
            None,
        ));
        releases.push(clause);
    }
    if releases.len() == first {
        return None;
    }
    let marked = marked_node(node, calls).ok()?;
    let replaced = bound.plan().clone().transform_up_with_subqueries(|plan| {
        if let LogicalPlan::Aggregate(own) = &plan
            && own == node
        {
            return Ok(Transformed::yes(marked.clone()));
        }
        Ok(Transformed::no(plan))
    });
    let replaced = replaced.ok().filter(|replaced| replaced.transformed)?;
    Some((Bound::from_plan(replaced.data, releases), first))
}

/// The release that an aggregate without a mechanism is.
fn bare_clause_at(expr: &Expr) -> Option<ReleaseClause> {
    bare_clause_of(CallOf::function(expr)?, expr).ok()
}

/// The number of columns that a release reads: those whose ranges it needs.
fn number_of_columns(clause: &ReleaseClause) -> usize {
    match clause.joint() {
        Some(_) => 2,
        None => 1,
    }
}

/// What an aggregate reads: its columns, and the condition of its rows.
fn arguments_and_filter<'a>(
    call: &'a AggregateFunction,
    clause: &ReleaseClause,
) -> Option<(&'a [Expr], Option<&'a Expr>)> {
    let columns = call.params.args.get(..number_of_columns(clause))?;
    Some((columns, call.params.filter.as_deref()))
}

/// The aggregate with these calls, in the columns and types that it had.
fn marked_node(node: &Aggregate, calls: Vec<Expr>) -> Result<LogicalPlan> {
    let marked = Aggregate::try_new(Arc::clone(&node.input), node.group_expr.clone(), calls)?;
    let columns = marked.schema.columns().into_iter().zip(marked.schema.fields());
    let expressions = columns.zip(node.schema.iter()).map(|((column, has), (qualifier, field))| {
        let column = Expr::Column(column);
        let expr = match has.data_type() == field.data_type() {
            true => column,
            false => Expr::TryCast(TryCast::new(Box::new(column), field.data_type().clone())),
        };
        aliased(expr, qualifier, field.name())
    });
    let expressions: Vec<Expr> = expressions.collect();
    LogicalPlanBuilder::from(LogicalPlan::Aggregate(marked)).project(expressions)?.build()
}

/// The releases of an aggregate that find their bounds together with one of them: they read the
/// same arguments of the same rows. `None` if that release may not find bounds.
fn sharing(bound: &Bound, aggregate: &Aggregate, release: usize) -> Option<Vec<usize>> {
    let own = CallOf::function(aggregate.aggr_expr.get(place_of(aggregate, release)?)?)?;
    let clause =
        |release: usize| bound.releases().get(release).filter(|clause| is_eligible(clause));
    let first = clause(release)?;
    let own = arguments_and_filter(own, first)?;
    let ReleaseClause { unit_column: unit, parameters, .. } = first;
    let priced = |own: &Parameters| (own.epsilon.is_some(), own.rho.is_some());
    let alike = aggregate.aggr_expr.iter().filter_map(|expr| {
        let release = CallOf::marker(expr)?;
        let clause = clause(release).filter(|clause| clause.unit_column == *unit)?;
        let is_alike = priced(&clause.parameters) == priced(parameters);
        let read = arguments_and_filter(CallOf::function(expr)?, clause)?;
        (is_alike && read == own).then_some(release)
    });
    Some(alike.collect())
}

/// True if the analysis supports every aggregate whose bounds are found. With unknown partitions,
/// OPTIONS pay for a threshold out of the same ε. That combination is not supported.
fn may_find(analysis: &Analysis) -> bool {
    analysis.parts().iter().all(|part| {
        let by_options = |clause: &ReleaseClause| clause.grouping.is_some();
        let found =
            part.measures().iter().any(|m| m.clause.finding.is_some() && by_options(&m.clause));
        part.unknown_partitions().is_none() || !found
    })
}

/// A part of a cost: so many of so many equal shares, each rounded down. Other parameters stay.
fn share_of(whole: &Parameters, own: usize, of: usize) -> Option<Parameters> {
    let times = |share: &Rational| share * Rational::from_integer(own.into());
    let epsilon = |whole: &Epsilon| Epsilon::new(times(whole.share(of)?.value()));
    let rho = |whole: &Rho| Rho::new(times(whole.share(of)?.value()));
    Some(Parameters {
        epsilon: whole.epsilon.as_ref().map(epsilon).transpose().ok()?,
        rho: whole.rho.as_ref().map(rho).transpose().ok()?,
        ..whole.clone()
    })
}

/// The release at half of its cost, with a reference to its bounds, of which the first is given.
/// `default` is half of its share of a default cost, as far as that is known.
fn in_units(
    clause: &ReleaseClause,
    half: Parameters,
    default: Option<Parameters>,
    places: &[usize],
    first: usize,
) -> ReleaseClause {
    let bound_at = |place: usize| {
        let at = places.iter().position(|own| *own == place)?;
        Some(first + at)
    };
    let squared = matches!(
        &clause.operand,
        Operand::Aggregate(AggregateCall { function: AggregateName::Spread(of), .. }) if !of.is_root()
    );
    let finding = match clause.joint() {
        Some(_) => Finding::InUnitsOfTwo { bounds: [0, 1].map(bound_at) },
        None => Finding::InUnits { bound: first, squared },
    };
    let price = price(&half).or_else(|| price(&default?));
    let price = price.unwrap_or_else(|| "half of a share".to_owned());
    let text = finding.in_units(&clause.text, &price);
    ReleaseClause { parameters: half, text, finding: Some(finding), ..clause.clone() }
}

/// The release of the histogram, for which these releases pay together. If they state no cost, it
/// states none either; `default` is then its default cost, as far as that is known.
fn histogram_for(
    paying: &[ReleaseClause],
    argument: &Expr,
    default: Option<&Parameters>,
) -> Option<ReleaseClause> {
    let first = paying.first()?;
    let all = paying.iter().map(|clause| &clause.parameters);
    let epsilon = all.clone().map(|own| own.epsilon.as_ref().map(Epsilon::value));
    let rho = all.map(|own| own.rho.as_ref().map(Rho::value));
    let parameters = Parameters {
        epsilon: epsilon.sum::<Option<Rational>>().map(Epsilon::new).transpose().ok()?,
        rho: rho.sum::<Option<Rational>>().map(Rho::new).transpose().ok()?,
        delta: None,
        monotonic: None,
        ..first.parameters.clone()
    };
    let of: Vec<&str> = paying.iter().map(|clause| clause.text.as_str()).collect();
    let of = of.join(" and ");
    let price = price(&parameters).or_else(|| price(default?));
    let price = price.unwrap_or_else(|| "half of a share".to_owned());
    let column = first.joint().map(|_| match argument {
        Expr::Cast(cast) => readable(&cast.expr),
        other => readable(other),
    });
    Some(ReleaseClause {
        mechanism: MechanismName::Laplace,
        parameters,
        operand: Operand::Aggregate(AggregateCall::count_star()),
        keys: Vec::new(),
        unit_column: first.unit_column.clone(),
        grouping: None,
        text: Finding::bounds_text(column.as_deref(), &of, &price),
        finding: None,
        consistent: None,
        set: None,
        fresh: paying.iter().any(|clause| clause.fresh),
    })
}

fn price(parameters: &Parameters) -> Option<String> {
    match (&parameters.epsilon, &parameters.rho) {
        (Some(epsilon), _) => Some(format!("eps={epsilon}")),
        (None, Some(rho)) => Some(format!("rho={rho}")),
        (None, None) => None,
    }
}

/// The first aggregate node that contains the release.
fn first_with(plan: &LogicalPlan, release: usize) -> Option<Aggregate> {
    let mut found = None;
    let outcome = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node
            && place_of(aggregate, release).is_some()
        {
            found = Some(aggregate.clone());
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    outcome.ok().and(found)
}
