//! The one place that admits a release about people whose presence is public.
//!
//! In: an aggregate over private rows, and its measures. Out: `None` where neighbours add or remove
//! a person. Where they replace what a person's row says, every measure gets the sensitivity for
//! these neighbours, or the query is refused: nothing is admitted that is not derived.
//!
//! ```text
//! SELECT LAPLACE(eps=1) SUM(income) FROM survey WHERE region = 'Oslo'      region public: one row stays, Δ₁ = max(hi, 0) − min(lo, 0)
//! SELECT ARGMAX EXPONENTIAL(eps=1) job FROM survey GROUP BY job            refused
//! ```

use datafusion::logical_expr::Aggregate;

use crate::analysis::below::public_reads::PublicReads;
use crate::analysis::below::refusals::replaced;
use crate::analysis::below::relation::PrivateRelation;
use crate::analysis::call::Call;
use crate::analysis::expr::total;
use crate::analysis::measure::Measure;
use crate::analysis::measure::replaced_values::{ReadPublic, replace};
use crate::analysis::not_analyzed::NotAnalyzed;
use crate::catalog::{Catalog, Unit};
use crate::refusal::Refusal;

/// An aggregate over people whose presence is public.
pub(super) struct Replacement {
    reads: PublicReads,
    /// Whether the group keys are functions of public columns alone.
    keys: bool,
}

/// True if the presence of these people is public, so that neighbours replace what one says.
pub(crate) fn is_present(unit_domain: &str, catalog: &Catalog) -> bool {
    let unit = catalog.table(unit_domain).and_then(|table| table.unit());
    unit.and_then(Unit::present).is_some()
}

/// The refusal of groups whose keys are not declared.
pub(super) fn groups_of_the_data() -> Refusal {
    replaced(
        "groups whose keys are not declared",
        "LAPLACE(eps=1) COUNT(*) KEYS ('a', 'b'), or a domain for the key: ALTER TABLE … ALTER COLUMN … SET PRIVACY DOMAIN IN (…)",
    )
}

/// Refuses rows of people whose presence is public, where only adding and removing is derived.
///
/// # Errors
/// A refusal, if neighbours replace what a person's row says.
pub(super) fn refuse_present(
    flow: &PrivateRelation,
    catalog: &Catalog,
    what: &str,
    write: &str,
) -> Result<(), Refusal> {
    match is_present(flow.subject.unit_domain(), catalog) {
        true => Err(replaced(what, write)),
        false => Ok(()),
    }
}

impl Replacement {
    /// What an aggregate reads of people whose presence is public. `None` for all other people.
    ///
    /// # Guarantee
    /// `None` only where the unit of the rows' people is declared without PRESENCE PUBLIC.
    ///
    /// # Errors
    /// Refuses operators, floors and cells for which replacement is not derived.
    pub(super) fn of(
        aggregate: &Aggregate,
        flow: &PrivateRelation,
        catalog: &Catalog,
    ) -> Result<Option<Self>, Refusal> {
        let unit_domain = flow.subject.unit_domain();
        if !is_present(unit_domain, catalog) {
            return Ok(None);
        }
        let tables = flow.subject.tables().iter().map(String::as_str);
        if !catalog.floors_of(unit_domain, tables).is_empty() {
            return Err(replaced(
                "a floor of people",
                "a question after the owner wrote ALTER TABLE … DROP PRIVACY FLOOR",
            ));
        }
        if catalog.is_partitioned(unit_domain) {
            return Err(replaced(
                "a budget with cells",
                "a question after the owner wrote ALTER PRIVACY BUDGET … DROP PARTITION",
            ));
        }
        let reads = PublicReads::of(&aggregate.input, catalog)?;
        let keys = aggregate.group_expr.iter().map(|key| reads.reads_public(key));
        let keys = keys.collect::<Result<Vec<_>, _>>()?.into_iter().all(|is_public| is_public);
        Ok(Some(Self { reads, keys }))
    }

    /// Gives the measure of a call the sensitivity for replacement.
    ///
    /// # Guarantee
    /// As that of [`replace`].
    ///
    /// # Errors
    /// Refuses what is not derived.
    pub(super) fn derive(
        &self,
        call: &Call,
        measure: &mut Measure,
        flow: &PrivateRelation,
    ) -> Result<(), NotAnalyzed> {
        let filter = match call.params.filter.as_deref() {
            Some(filter) => self.reads.reads_public(filter)?,
            None => true,
        };
        let mut argument = true;
        for one in &call.params.args {
            argument &= self.reads.reads_public(one)?;
        }
        let nullable = match call.params.args.first() {
            Some(one) => total(one, &flow.scope).map_or(true, |total| total.facts.nullable),
            None => false,
        };
        let conditions = self.reads.are_rows_public() && filter;
        Ok(replace(measure, ReadPublic { keys: self.keys, conditions, argument, nullable })?)
    }
}
