//! Computes the sets of ROLLUP, CUBE and GROUPING SETS one by one, and evaluates GROUPING.
//!
//! In: a plan as the planner made it, in which an aggregate may have several sets of keys, and the
//! releases. Out: the plan, in which each such aggregate is a union of one aggregate for each set;
//! keys that a set leaves out are NULL, and each GROUPING is a literal. Also the releases: one for
//! each set, with an equal share of the cost that was written.
//!
//! ```text
//!                                              Projection a, n
//!                                                Union
//! Aggregate ((a), ()): LAPLACE(eps=1) count  ⇒     Projection a, n     Aggregate a: LAPLACE(eps=0.5) count
//!                                                  Projection NULL, n  Aggregate  : LAPLACE(eps=0.5) count
//! ```
//!
//! A set that is written twice is computed once, and its rows come out twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{
    Aggregate, EmptyRelation, Expr, GroupingSet, LogicalPlan, Projection, Union, lit,
};

use super::marker::marker_function;
use crate::catalog::RESERVED;
use crate::dialect::{Consistent, KeysClause, MOST_SETS, ReleaseClause, ReleaseInSet, marked};
use crate::privacy::ParameterError;

/// The most tables that the sets of a statement may read together, counted at each use.
const MOST_SCANS: usize = 400;

/// The name of the column that marks the rows of a set. It holds how many sets share the cost of
/// the releases. No query can name it.
pub(crate) fn set_column() -> String {
    format!("{RESERVED}_sets")
}

/// The plan with one aggregate for each set of keys, and the releases of these aggregates.
///
/// # Guarantee
/// A release is replaced by one release for each set of its aggregate. Together, these cost no more
/// than it does: each has an equal share, rounded down. All other parts of the plan keep their
/// meaning.
///
/// # Errors
/// An error of the planner for GROUPING of an expression that is not a key, for too many sets, for
/// KEYS that contradict each other, and for a share below the smallest cost.
pub(super) fn one_by_one(
    plan: LogicalPlan,
    releases: Vec<ReleaseClause>,
) -> Result<(LogicalPlan, Vec<ReleaseClause>)> {
    let mut sets = Sets { releases, shares: BTreeMap::new() };
    let mut changed = false;
    let plan = plan.transform_up_with_subqueries(|node| {
        if let LogicalPlan::Aggregate(aggregate) = &node {
            let one = if is_set(aggregate) {
                Some(sets.united(aggregate)?)
            } else if aggregate.aggr_expr.iter().any(is_grouping) {
                Some(without_grouping(aggregate)?)
            } else {
                None
            };
            if let Some(one) = one {
                changed = true;
                return Ok(Transformed::yes(one));
            }
        }
        // Nodes above an aggregate with sets know one of its columns that no longer exists.
        if changed {
            return Ok(Transformed::yes(node.recompute_schema()?));
        }
        Ok(Transformed::no(node))
    })?;
    let (branches, _) = size(&plan.data)?;
    if branches > MOST_SETS {
        return too_many(branches);
    }
    Ok((plan.data, sets.releases))
}

fn is_set(aggregate: &Aggregate) -> bool {
    aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)))
}

fn too_many<T>(sets: usize) -> Result<T> {
    plan_err!(
        "this statement has {sets} sets of keys, counted at each use, and it may have {MOST_SETS}: write GROUPING SETS with the sets that you need"
    )
}

/// The number of sets that a plan computes, and the number of table scans.
fn size(plan: &LogicalPlan) -> Result<(usize, usize)> {
    let (mut sets, mut scans) = (0_usize, 0_usize);
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Projection(projection) = node {
            sets += usize::from(set_of(projection).is_some());
        }
        scans += usize::from(matches!(node, LogicalPlan::TableScan(_)));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok((sets, scans))
}

/// The number of sets that share the cost of the releases below, if a projection shows the rows of
/// a set.
pub(crate) fn set_of(projection: &Projection) -> Option<u64> {
    let name = set_column();
    projection.expr.iter().find_map(|expr| {
        let Expr::Alias(alias) = expr else { return None };
        let Expr::Literal(ScalarValue::UInt64(sets), _) = alias.expr.as_ref() else { return None };
        sets.filter(|_| alias.name == name)
    })
}

/// The releases of a query, and the releases of each set.
struct Sets {
    releases: Vec<ReleaseClause>,
    /// For a written release, a set's number and the number of sets: the release that replaces it.
    shares: BTreeMap<(usize, usize, usize), usize>,
}

impl Sets {
    /// The union of one aggregate for each set.
    fn united(&mut self, aggregate: &Aggregate) -> Result<LogicalPlan> {
        let WrittenSets { keys, sets } = WrittenSets::from_aggregate(aggregate)?;
        let listed = self.listed(aggregate, &keys, &sets)?;
        // Two sets are the same if they have the same keys in any order.
        let own: Vec<Vec<usize>> = sets.iter().map(|set| once(set)).collect();
        let sorted = |set: &[usize]| {
            let mut set = set.to_vec();
            set.sort_unstable();
            set
        };
        let mut different: Vec<&[usize]> = Vec::new();
        let places: Vec<usize> = own
            .iter()
            .map(|set| {
                let known = different.iter().position(|other| sorted(other) == sorted(set));
                known.unwrap_or_else(|| {
                    different.push(set);
                    different.len() - 1
                })
            })
            .collect();
        let (inner, scans) = size(&aggregate.input)?;
        let count = different.len();
        if count.saturating_mul(inner.saturating_add(1)) > MOST_SETS {
            return too_many(count.saturating_mul(inner.saturating_add(1)));
        }
        if count.saturating_mul(scans) > MOST_SCANS {
            return plan_err!(
                "each of {count} sets of keys reads {scans} tables, and all together may read {MOST_SCANS}: write GROUPING SETS with the sets that you need"
            );
        }
        let mut branches = Vec::with_capacity(count);
        for (number, set) in different.iter().enumerate() {
            let keys = Branch { aggregate, keys: &keys, set, listed: &listed };
            branches.push(Arc::new(self.branch(&keys, number, count)?));
        }
        let inputs: Vec<_> =
            places.into_iter().filter_map(|place| branches.get(place).cloned()).collect();
        let below = match inputs.as_slice() {
            [only] => Arc::clone(only),
            _ => Arc::new(LogicalPlan::Union(Union::try_new(inputs)?)),
        };
        as_before(below, aggregate, keys.len())
    }

    /// The rows of one set: its keys, NULL for the other keys, and its aggregates.
    fn branch(&mut self, branch: &Branch<'_>, number: usize, count: usize) -> Result<LogicalPlan> {
        let Branch { aggregate, keys, set, listed } = branch;
        let own: Vec<Expr> = set.iter().filter_map(|i| keys.get(*i).cloned()).collect();
        let mut aggregates = Vec::with_capacity(aggregate.aggr_expr.len());
        for expr in aggregate.aggr_expr.iter().filter(|expr| !is_grouping(expr)) {
            aggregates.push(self.shared(expr, number, count, &|| {
                set.iter().map(|i| listed.get(i).cloned()).collect()
            })?);
        }
        let rows = match own.is_empty() && aggregates.is_empty() {
            // One group, even without rows.
            true => LogicalPlan::EmptyRelation(EmptyRelation {
                produce_one_row: true,
                schema: Arc::new(DFSchema::empty()),
            }),
            false => LogicalPlan::Aggregate(Aggregate::try_new(
                Arc::clone(&aggregate.input),
                own,
                aggregates,
            )?),
        };
        let mut columns = rows.schema().columns().into_iter().map(Expr::Column);
        let computed: Vec<Expr> = columns.by_ref().take(set.len()).collect();
        let mut all = Vec::with_capacity(aggregate.schema.fields().len() + 1);
        for (i, field) in aggregate.schema.fields().iter().take(keys.len()).enumerate() {
            let place = set.iter().position(|own| *own == i);
            all.push(match place.and_then(|place| computed.get(place).cloned()) {
                Some(column) => column,
                None => Expr::Literal(ScalarValue::try_new_null(field.data_type())?, None),
            });
        }
        for expr in &aggregate.aggr_expr {
            match grouping(expr) {
                Some(call) => all.push(lit(bits(call, keys, set)?)),
                None => all.extend(columns.next()),
            }
        }
        let all = all.into_iter().enumerate().map(|(i, expr)| expr.alias(column(i)));
        let sets = lit(u64::try_from(count).unwrap_or(u64::MAX)).alias(set_column());
        let all = all.chain([sets]).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(all, Arc::new(rows))?))
    }

    /// An aggregate of one set. Its release has an equal share of the written release's cost.
    fn shared(
        &mut self,
        expr: &Expr,
        number: usize,
        count: usize,
        keys: &dyn Fn() -> Vec<Option<KeysClause>>,
    ) -> Result<Expr> {
        let shared = expr.clone().transform_up(|expr| {
            let Expr::AggregateFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
            let Some(written) = marked(call.func.name()) else {
                return Ok(Transformed::no(Expr::AggregateFunction(call)));
            };
            let Some(clause) = self.releases.get(written) else {
                return plan_err!("a release has its clause");
            };
            let place = (written, number, count);
            let own = match self.shares.get(&place) {
                Some(own) => *own,
                None => {
                    let mut share = share_of(clause, count)?;
                    // Consistent releases of all sets belong together.
                    share.consistent =
                        share.consistent.map(|one| Consistent { of: written, ..one });
                    share.set = Some(ReleaseInSet { of: written, number });
                    let keys = keys();
                    share.keys = if keys.iter().any(Option::is_some) { keys } else { Vec::new() };
                    self.releases.push(share);
                    self.shares.insert(place, self.releases.len() - 1);
                    self.releases.len() - 1
                }
            };
            let Some(clause) = self.releases.get(own) else {
                return plan_err!("a share has its clause");
            };
            call.func = marker_function(own, clause);
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        })?;
        Ok(shared.data)
    }

    /// The KEYS of each key. A key with KEYS in one set has the same KEYS in every set.
    fn listed(
        &self,
        aggregate: &Aggregate,
        keys: &[Expr],
        sets: &[Vec<usize>],
    ) -> Result<BTreeMap<usize, KeysClause>> {
        let mut listed: BTreeMap<usize, KeysClause> = BTreeMap::new();
        let markers = aggregate.aggr_expr.iter().filter_map(function);
        let clauses = markers.filter_map(|call| self.releases.get(marked(call.func.name())?));
        for clause in clauses {
            for (key, keys_clause) in sets.iter().flatten().zip(&clause.keys) {
                let Some(written) = keys_clause else { continue };
                if listed.get(key).is_some_and(|known| known != written) {
                    let name =
                        keys.get(*key).map_or_else(String::new, |key| key.qualified_name().1);
                    return plan_err!(
                        "{name} has different KEYS in two sets of GROUP BY: write the same KEYS, or KEYS in one of the sets"
                    );
                }
                listed.insert(*key, written.clone());
            }
        }
        Ok(listed)
    }
}

/// One set of an aggregate.
struct Branch<'a> {
    aggregate: &'a Aggregate,
    keys: &'a [Expr],
    set: &'a [usize],
    listed: &'a BTreeMap<usize, KeysClause>,
}

/// The keys of an aggregate, each once and in the order of its columns, and for each set the
/// positions of its keys.
struct WrittenSets {
    keys: Vec<Expr>,
    sets: Vec<Vec<usize>>,
}

impl WrittenSets {
    fn from_aggregate(aggregate: &Aggregate) -> Result<Self> {
        let keys: Vec<Expr> =
            grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned().collect();
        let [Expr::GroupingSet(GroupingSet::GroupingSets(written))] =
            aggregate.group_expr.as_slice()
        else {
            return plan_err!("ROLLUP and CUBE are spelled out as GROUPING SETS");
        };
        let number = |key: &Expr| keys.iter().position(|known| known == key);
        let sets = written.iter().map(|set| set.iter().map(number).collect::<Option<Vec<_>>>());
        match sets.collect::<Option<Vec<_>>>() {
            Some(sets) => Ok(Self { keys, sets }),
            None => plan_err!("a key of GROUPING SETS has its column"),
        }
    }
}

/// A release with one of `count` equal shares of its cost.
///
/// # Guarantee
/// The shares' ε, ρ and δ add up to no more than the release's own, even if OPTIONS states them.
fn share_of(clause: &ReleaseClause, count: usize) -> Result<ReleaseClause> {
    let share = || -> Result<ReleaseClause, ParameterError> {
        let mut share = clause.clone();
        let own = &mut share.parameters;
        own.epsilon = own.epsilon.take().map(|epsilon| epsilon.share(count)).transpose()?;
        own.rho = own.rho.take().map(|rho| rho.share(count)).transpose()?;
        own.delta = own.delta.take().map(|delta| delta.share(count)).transpose()?;
        if let Some(all) = &mut share.grouping {
            all.epsilon = all.epsilon.take().map(|epsilon| epsilon.share(count)).transpose()?;
            all.threshold = all.threshold.take().map(|epsilon| epsilon.share(count)).transpose()?;
            all.delta = all.delta.take().map(|delta| delta.share(count)).transpose()?;
        }
        Ok(share)
    };
    share().or_else(|_| {
        plan_err!(
            "{}: one of {count} equal shares of its cost is smaller than the least cost that the engine can count: state a larger cost, or fewer sets",
            clause.text
        )
    })
}

/// The positions of a set, each once.
fn once(set: &[usize]) -> Vec<usize> {
    let mut own: Vec<usize> = Vec::with_capacity(set.len());
    for key in set {
        if !own.contains(key) {
            own.push(*key);
        }
    }
    own
}

/// Renames the columns of a plan to the keys and aggregates of an aggregate with several sets.
fn as_before(below: Arc<LogicalPlan>, aggregate: &Aggregate, keys: usize) -> Result<LogicalPlan> {
    // After the keys, the planner has a column with the number of the set.
    let fields = aggregate.schema.iter().enumerate().filter(|(i, _)| *i != keys);
    let columns = below.schema().columns().into_iter().map(Expr::Column);
    let named = columns
        .zip(fields)
        .map(|(column, (_, (qualifier, field)))| {
            column.alias_qualified(qualifier.cloned(), field.name())
        })
        .collect();
    Ok(LogicalPlan::Projection(Projection::try_new(named, below)?))
}

/// An aggregate with one set of keys. GROUPING is 0, because that set leaves out no key.
fn without_grouping(aggregate: &Aggregate) -> Result<LogicalPlan> {
    let keys: Vec<Expr> =
        grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned().collect();
    let all: Vec<usize> = (0..keys.len()).collect();
    let kept = aggregate.aggr_expr.iter().filter(|expr| !is_grouping(expr)).cloned().collect();
    let input = Arc::clone(&aggregate.input);
    let mut literals = Vec::new();
    for call in aggregate.aggr_expr.iter().filter_map(grouping) {
        literals.push(bits(call, &keys, &all)?);
    }
    let rows =
        LogicalPlan::Aggregate(Aggregate::try_new(input, aggregate.group_expr.clone(), kept)?);
    let mut columns = rows.schema().columns().into_iter().map(Expr::Column);
    let mut expressions: Vec<Expr> = columns.by_ref().take(keys.len()).collect();
    let mut literals = literals.into_iter();
    for expr in &aggregate.aggr_expr {
        match is_grouping(expr) {
            true => expressions.extend(literals.next().map(lit)),
            false => expressions.extend(columns.next()),
        }
    }
    let named = expressions.into_iter().zip(aggregate.schema.iter());
    let named = named
        .map(|(expr, (qualifier, field))| expr.alias_qualified(qualifier.cloned(), field.name()))
        .collect();
    Ok(LogicalPlan::Projection(Projection::try_new(named, Arc::new(rows))?))
}

/// The name of a column of a set's rows.
fn column(i: usize) -> String {
    format!("{RESERVED}_set_{i}")
}

fn function(mut expr: &Expr) -> Option<&AggregateFunction> {
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    if let Expr::AggregateFunction(call) = expr { Some(call) } else { None }
}

fn grouping(expr: &Expr) -> Option<&AggregateFunction> {
    function(expr).filter(|call| call.func.name() == "grouping")
}

fn is_grouping(expr: &Expr) -> bool {
    grouping(expr).is_some()
}

/// GROUPING of a set as a binary number: one digit for each argument, 1 if the set leaves the
/// argument out.
fn bits(call: &AggregateFunction, keys: &[Expr], set: &[usize]) -> Result<i32> {
    let params = &call.params;
    let plain = !params.distinct
        && params.filter.is_none()
        && params.order_by.is_empty()
        && params.null_treatment.is_none();
    if !plain || params.args.is_empty() || params.args.len() > 31 {
        return plan_err!("GROUPING takes 1 to 31 keys of GROUP BY, without DISTINCT and FILTER");
    }
    params.args.iter().try_fold(0_i32, |bits, argument| {
        let Some(key) = keys.iter().position(|key| key == argument) else {
            return plan_err!(
                "{} is not a key of GROUP BY, and GROUPING tells whether a key is left out: GROUPING(key)",
                argument.qualified_name().1
            );
        };
        Ok(bits << 1 | i32::from(!set.contains(&key)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Statement, parse};
    use crate::privacy::Rational;

    /// All costs that a clause states, including those in OPTIONS.
    fn costs(clause: &ReleaseClause) -> Vec<Option<Rational>> {
        let own = &clause.parameters;
        let all = clause.grouping.as_ref();
        let epsilons = [own.epsilon.as_ref(), all.and_then(|all| all.epsilon.as_ref())];
        let deltas = [own.delta.as_ref(), all.and_then(|all| all.delta.as_ref())];
        let epsilons = epsilons.map(|one| one.map(|epsilon| epsilon.value().clone()));
        let deltas = deltas.map(|one| one.map(|delta| delta.value().clone()));
        let rho = own.rho.as_ref().map(|rho| rho.value().clone());
        epsilons.into_iter().chain(deltas).chain([rho]).collect()
    }

    #[test]
    fn shares_add_up_to_no_more_than_the_whole() {
        for sql in [
            "SELECT LAPLACE(eps=1) COUNT(*) FROM t",
            "SELECT GAUSSIAN(eps=0.7, delta=1e-6) COUNT(*) FROM t",
            "SELECT GAUSSIAN(rho=0.1) COUNT(*) FROM t",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-5) COUNT(*), SUM(x) FROM t",
        ] {
            let Ok(Statement::Query(query)) = parse(sql) else { panic!("{sql}") };
            for (clause, count) in query.releases.iter().zip([3, 7]) {
                let share = share_of(clause, count).unwrap();
                for (own, all) in costs(&share).into_iter().zip(costs(clause)) {
                    assert_eq!(own.is_some(), all.is_some(), "{sql}");
                    let (Some(own), Some(all)) = (own, all) else { continue };
                    let sum = own * Rational::from_integer(count.into());
                    assert!(sum <= all, "{sql}: {count} shares are {sum}");
                    // Rounding loses little.
                    assert!(sum * Rational::new(1001.into(), 1000.into()) > all, "{sql}");
                }
            }
        }
    }
}
