//! The δ that a budget states for keys that only the data contain.
//!
//! In: the releases of a GROUP BY of which none states δ, and the budgets of its table. Out: the
//! same releases, one of which states the budget's default δ. From there on, everything is as if
//! the analyst had written it. The choice of that release follows from the statement alone.
//!
//! ```text
//! PER QUERY (default=0.5, default_delta=1e-7)
//! GROUP BY zip, COUNT(*)                 as AUTO(eps=0.5, delta=1e-7) COUNT(*)
//! GROUP BY zip, LAPLACE(eps=1) SUM(x)    as LAPLACE(eps=1, delta=1e-7) SUM(x)
//! ```

use num_traits::ToPrimitive;

use crate::analysis::below::unit::UnitScope;
use crate::analysis::call::Call;
use crate::analysis::not_analyzed::NotAnalyzed;
use crate::catalog::Catalog;
use crate::dialect::{AggregateName, MechanismName, Operand};
use crate::privacy::{Delta, Spend};
use crate::refusal::Reason;

/// The default δ of a GROUP BY.
#[derive(Debug)]
pub(crate) struct DefaultDelta {
    /// The δ of the threshold, or of the choice.
    pub(crate) delta: Delta,
    /// True if a default cost pays for keys that are shown alone.
    pub(crate) selects_keys: bool,
}

impl DefaultDelta {
    /// The least default δ among the budgets of these units, for an analyst who takes defaults.
    ///
    /// # Guarantee
    /// A GROUP BY takes at most the default δ: the sets of ROLLUP and the like share it equally,
    /// rounded down. Follows from the declarations alone.
    pub(crate) fn of(subject: &UnitScope, sets: Option<u64>, catalog: &Catalog) -> Option<Self> {
        let unit_domain = subject.unit_domain();
        let atto = catalog.default_of(unit_domain, |per_query| per_query.default_delta)?;
        let whole = Delta::new(Spend::of_epsilon(0, atto).delta()).ok()?;
        let sets = sets.unwrap_or(1).to_usize()?;
        let cost = catalog.default_of(unit_domain, |per_query| per_query.default);
        let cost = cost.or(catalog.default_of(unit_domain, |per_query| per_query.default_rho));
        Some(Self { delta: whole.share(sets).ok()?, selects_keys: cost.is_some() })
    }
}

/// True if an analyst takes defaults and some budget has a default δ. Otherwise keys that are shown
/// alone are refused as rows are.
pub(crate) fn offers_keys(catalog: &Catalog) -> bool {
    catalog.has_defaults()
        && catalog.budgets().any(|budget| budget.per_query.default_delta.is_some())
}

/// True if a release with δ may be answered where this one is refused: its keys or candidates are
/// not declared, or not few.
pub(crate) fn lacks_delta(error: &NotAnalyzed) -> bool {
    match error {
        NotAnalyzed::Refused(refusal) => matches!(
            refusal.reason(),
            Reason::UnknownKeys | Reason::TooManyKeys | Reason::UnknownCandidates | Reason::NoDelta
        ),
        NotAnalyzed::NoRange(_) | NotAnalyzed::ManyUnits(_) | NotAnalyzed::Fault(_) => false,
    }
}

/// Lets one release state the δ: OPTIONS if they imply releases, otherwise the first number of
/// distinct values, or the first number of rows, or the first release. Returns the δ, or `None` if
/// a release states δ already, or none can take it.
///
/// # Guarantee
/// One clause states the δ, as [`UnknownPartitions`] requires. A release with Gaussian noise at an
/// ε needs a δ of its own for its noise, so it never takes the default.
///
/// [`UnknownPartitions`]: crate::analysis::UnknownPartitions
pub(crate) fn take_default_delta(calls: &mut [Call], delta: Delta) -> Option<Delta> {
    if calls.iter().any(|call| call.clause.parameters.delta.is_some()) {
        return None;
    }
    let is_implied = |call: &&mut Call| {
        call.clause.mechanism == MechanismName::Default && call.clause.grouping.is_some()
    };
    let mut implied = false;
    for call in calls.iter_mut().filter(is_implied) {
        call.clause.parameters.delta = Some(delta.clone());
        if let Some(grouping) = &mut call.clause.grouping {
            grouping.delta = Some(delta.clone());
        }
        implied = true;
    }
    if implied {
        return Some(delta);
    }
    let payer = calls.iter_mut().filter(|call| may_pay(call)).min_by_key(|call| place(call))?;
    payer.clause.parameters.delta = Some(delta.clone());
    Some(delta)
}

fn may_pay(call: &Call) -> bool {
    call.clause.mechanism != MechanismName::Gaussian || call.clause.parameters.rho.is_some()
}

/// The order in which releases are asked to state the δ. A number of units is compared with the
/// threshold as it is released, and a number of rows may be.
fn place(call: &Call) -> u8 {
    match &call.clause.operand {
        Operand::Aggregate(aggregate) if aggregate.function == AggregateName::Count => {
            match (aggregate.distinct, aggregate.star) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => 2,
            }
        }
        Operand::Aggregate(_) | Operand::Selection(_) | Operand::Response => 3,
    }
}
