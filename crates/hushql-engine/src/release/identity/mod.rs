//! The identity of draws, by which a release is recognised when it is asked again.
//!
//! In: a calibrated [`Release`]. Out: its [`DrawSet`]s. The draws of a set are replayed together or
//! not at all. Each set has bytes that are equal only for equal draws, whichever aliases, views and
//! orders of conditions a query uses, and the tables whose versions belong to it. A release that is
//! not understood has no draw set and is drawn each time. Nothing here depends on private rows.
//!
//! ```text
//! SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t WHERE a > 1 AND b = 2           one draw set
//! SELECT LAPLACE(eps=1) COUNT(*) AS m FROM t x WHERE x.b = 2 AND x.a > 1     the same
//! SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t WHERE a > 2 AND b = 2           another
//! SELECT LAPLACE(eps=1) COUNT(*), LAPLACE(eps=1) COUNT(*) FROM t …           two: the first one, and its second occurrence
//! ```
//!
//! Each release has a draw set of its own, with three exceptions. All releases of a GROUP BY with a
//! threshold share one, because one draw decides which groups come out. So do releases that are
//! read from one vector, or under one chosen bound. A release that reads a released value shares
//! the set of the releases from which the value is computed.
//!
//! A wrong match would reveal nothing about anyone, because stored answers are public. But the
//! answer would be wrong. So the encoding lists the plans that it understands; any other plan has
//! no identity.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::analysis::outcome::released_parts;
use crate::analysis::{
    CandidateSource, KeySpace, PrivateAggregate, ReleaseKind, UnknownPartitions,
};
use crate::functions::is_late_value;
use crate::privacy::Epsilon;
use crate::release::draw_set::{DrawSet, Draws, Of, Question};
use crate::release::mechanism::Vector;
use crate::release::people_limits::PeopleLimit;
use crate::release::refined::refinable;
use crate::release::{PartitionSelection, Release};
use encoded::EncodedFields;
use measure_bytes::{of_measure, of_question};
use source_rows::IdentityWalk;

mod encoded;
mod expr_bytes;
mod measure_bytes;
mod source_rows;

/// The version of the rules by which releases are drawn. If the rules change, the same statement
/// makes another draw.
const RULES: &str = concat!("hushql ", env!("CARGO_PKG_VERSION"), " rules 4");

/// The draw sets of a release. A release outside all of them is drawn each time. That holds for a
/// release with FRESH and for all releases that would be recognised together with it.
pub(crate) fn units(release: &Release) -> Vec<DrawSet> {
    let mut occurrences: BTreeMap<EncodedFields, u64> = BTreeMap::new();
    // A release that is written twice makes two draws.
    let mut numbered = |body: &EncodedFields| {
        let occurrence = occurrences.entry(body.clone()).or_default();
        *occurrence += 1;
        let mut all = EncodedFields::of(RULES).with(body);
        all.debug(occurrence);
        all.into_bytes()
    };
    let mut units = Vec::new();
    for group in groups(release) {
        if group.iter().any(|draws| is_fresh(release, draws)) {
            continue;
        }
        let Some(Written { body, tables, draws, question }) = written(release, group) else {
            continue;
        };
        let question = question.map(|(body, epsilon)| Question { body: numbered(&body), epsilon });
        let body = numbered(&body);
        let mut unit_domains: Vec<String> = draws
            .iter()
            .filter_map(|draws| release.analysis().parts().get(draws.part))
            .map(|part| part.subject().unit_domain().to_owned())
            .collect();
        unit_domains.sort();
        unit_domains.dedup();
        let tables = tables.into_iter().collect();
        units.push(DrawSet { body, tables, unit_domains, draws, question });
    }
    units
}

/// True if FRESH is written for one of these draws.
fn is_fresh(release: &Release, draws: &Draws) -> bool {
    let Some(part) = release.analysis().parts().get(draws.part) else { return true };
    match &draws.of {
        Of::All => part.measures().iter().any(|measure| measure.clause.fresh),
        Of::Measures { measures, .. } => measures
            .iter()
            .any(|at| part.measures().get(*at).is_none_or(|measure| measure.clause.fresh)),
    }
}

/// Groups of draws that are recognised together.
fn groups(release: &Release) -> Vec<Vec<Draws>> {
    let analysis = release.analysis();
    let parts = analysis.parts();
    // For each private aggregate, the first one that released values tie it to.
    let mut first: Vec<usize> = (0..parts.len()).collect();
    let mut is_tied = vec![false; parts.len()];
    for value in analysis.values() {
        let name = value.late.name();
        let mut tied: BTreeSet<usize> = released_parts(value.plan()).into_iter().collect();
        tied.extend((0..parts.len()).filter(|at| late_values(parts[*at].input()).contains(name)));
        // A value from which others are computed ties those, too.
        for other in analysis.values() {
            if late_values(other.plan()).contains(name) {
                tied.extend(released_parts(other.plan()));
            }
        }
        let least = tied.iter().filter_map(|at| first.get(*at)).min().copied();
        let firsts: BTreeSet<usize> =
            tied.iter().filter_map(|at| first.get(*at)).copied().collect();
        for at in 0..parts.len() {
            if tied.contains(&at) {
                is_tied[at] = true;
            }
            if firsts.contains(&first[at]) {
                first[at] = least.unwrap_or(at);
            }
        }
    }
    let mut groups: Vec<Vec<Draws>> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        if is_tied[at] {
            let own = Draws { part: at, of: Of::All };
            let tied = groups.iter_mut().find(|group| {
                let other = group.first().map(|draws| draws.part);
                other.is_some_and(|other| is_tied[other] && first[other] == first[at])
            });
            match tied {
                Some(group) => group.push(own),
                None => groups.push(vec![own]),
            }
        } else if is_whole(release, at, part) {
            groups.push(vec![Draws { part: at, of: Of::All }]);
        } else {
            for measures in vectors(release, at, part) {
                let of = Of::Measures { measures, groups: Vec::new() };
                groups.push(vec![Draws { part: at, of }]);
            }
        }
    }
    groups
}

/// True if all draws of a private aggregate are recognised together. They are if a draw decides
/// which rows or numbers come out.
fn is_whole(release: &Release, at: usize, part: &PrivateAggregate) -> bool {
    let is_unknown = |measure: &crate::analysis::Measure| match &measure.release_kind {
        ReleaseKind::Number(_) => false,
        ReleaseKind::Choice(choice) => match choice.source {
            CandidateSource::Keys(_) | CandidateSource::Unknown { .. } => true,
            CandidateSource::Each(_) | CandidateSource::Line { .. } => false,
        },
    };
    release.partition_selection(at).is_some()
        || part.unknown_partitions().is_some()
        || part.people_floor().is_some()
        || part.keys().are_unknown()
        || part.keys().target_position().is_some()
        || part.measures().iter().any(is_unknown)
}

/// The measures of a private aggregate, grouped: those that are read from one vector or under one
/// chosen bound are together, and every other measure is alone.
fn vectors(release: &Release, at: usize, part: &PrivateAggregate) -> Vec<Vec<usize>> {
    let mut known: BTreeMap<Vector, usize> = BTreeMap::new();
    let mut under_one_bound: BTreeMap<usize, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for measure in 0..part.measures().len() {
        // What is exact is never kept: it is computed each time, and costs nothing.
        if part.measures()[measure].is_exact() {
            continue;
        }
        let one = release.mechanisms(at).get(measure);
        if let Some(leader) =
            part.measures()[measure].ladder.as_ref().map(|ladder| ladder.follows.unwrap_or(measure))
        {
            match under_one_bound.get(&leader) {
                Some(group) => groups[*group].push(measure),
                None => {
                    under_one_bound.insert(leader, groups.len());
                    groups.push(vec![measure]);
                }
            }
            continue;
        }
        match one.and_then(|one| one.together.as_ref()) {
            None => groups.push(vec![measure]),
            Some(together) => match known.get(&together.vector) {
                Some(group) => groups[*group].push(measure),
                None => {
                    known.insert(together.vector, groups.len());
                    groups.push(vec![measure]);
                }
            },
        }
    }
    groups
}

/// The names of the released values that a plan uses.
fn late_values(plan: &LogicalPlan) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    // The walk cannot fail, because its closures return no error.
    let _ = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(call) = expr
                    && is_late_value(&call.func)
                {
                    names.insert(call.func.name().to_owned());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    names
}

/// Draws that are recognised together.
struct Written {
    body: EncodedFields,
    /// The tables that they read.
    tables: BTreeSet<String>,
    /// The draws in the order in which they are kept.
    draws: Vec<Draws>,
    /// What is asked, and the ε, of one draw that can be built on another one.
    question: Option<(EncodedFields, Epsilon)>,
}

/// The bytes of draws that are recognised together.
fn written(release: &Release, group: Vec<Draws>) -> Option<Written> {
    let members: Vec<usize> = group.iter().map(|draws| draws.part).collect();
    let place = |part: usize| members.iter().position(|member| *member == part);
    let mut late = BTreeMap::new();
    let mut tables = BTreeSet::new();
    for value in release.analysis().values() {
        let name = value.late.name();
        if !released_parts(value.plan()).iter().all(|part| members.contains(part)) {
            // Other draws use this value, and they are recognised without these.
            continue;
        }
        let mut walk = IdentityWalk::new(&late, &place);
        let rows = walk.rows(value.plan())?;
        tables.extend(walk.tables);
        let [column] = rows.columns.as_slice() else { return None };
        let mut written = EncodedFields::of("released value").with(&rows.body()).with(column);
        written.debug(value.late.data_type());
        late.insert(name.to_owned(), written);
    }
    let mut all = EncodedFields::default();
    let mut kept = Vec::with_capacity(group.len());
    let mut questions = Vec::new();
    for draws in group {
        let part = release.analysis().parts().get(draws.part)?;
        let mut walk = IdentityWalk::new(&late, &place);
        let rows = walk.rows(part.input())?;
        tables.extend(walk.tables);
        tables.extend(part.subject().tables().iter().cloned());
        let written = WrittenAggregate { release, at: draws.part, part, rows: &rows };
        match draws.of {
            Of::All => {
                all.nested(&written.whole()?);
                kept.push(Draws { part: draws.part, of: Of::All });
            }
            Of::Measures { measures, .. } => {
                questions.push(written.question(&measures));
                let (own, of) = written.measures(measures)?;
                all.nested(&own);
                kept.push(Draws { part: draws.part, of });
            }
        }
    }
    let question = match questions.as_mut_slice() {
        [one] if kept.len() == 1 => one.take(),
        _ => None,
    };
    Some(Written { body: all, tables, draws: kept, question })
}

/// A private aggregate with the encoding of its rows.
struct WrittenAggregate<'a> {
    release: &'a Release,
    at: usize,
    part: &'a PrivateAggregate,
    rows: &'a source_rows::SourceRows,
}

impl WrittenAggregate<'_> {
    /// The units that its rows belong to, and the keys by which they are grouped.
    fn rows(&self) -> Option<EncodedFields> {
        let part = self.part;
        let mut all = EncodedFields::of("rows");
        let subject = part.subject();
        all.text(subject.unit_domain());
        let mut tables: Vec<&String> = subject.tables().iter().collect();
        tables.sort();
        tables.into_iter().for_each(|table| all.text(table));
        all.debug(&(part.has_unit(), subject.max_rows(), part.key_names().len()));
        all.nested(&self.rows.body());
        for column in 0..part.arguments_start() {
            all.nested(self.rows.columns.get(column)?);
        }
        // If another key is not declared, the values of a known key are encoded here only.
        for at in 0..part.key_names().len() {
            let mut values = Vec::new();
            for value in part.keys().of_column(at) {
                let mut one = EncodedFields::default();
                one.scalar(value)?;
                values.push(one);
            }
            let mut all_of_key = EncodedFields::default();
            all_of_key.set(&values);
            all.nested(&all_of_key.short());
        }
        for late in part.late_clamps() {
            let mut ends = EncodedFields::default();
            if let Some((lo, hi)) = late {
                ends.scalar(lo)?;
                ends.scalar(hi)?;
            }
            all.nested(&ends);
        }
        Some(all)
    }

    fn measure(&self, at: usize) -> Option<EncodedFields> {
        let column = |at: usize| self.rows.columns.get(at).cloned();
        let measure = self.part.measures().get(at)?;
        let mut all = of_measure(measure, self.release.mechanisms(self.at).get(at)?, &column)?;
        let fields = self.part.released_schema();
        all.debug(fields.fields().get(self.part.key_names().len() + at)?.data_type());
        Some(all)
    }

    /// All draws of a private aggregate, in their order.
    fn whole(&self) -> Option<EncodedFields> {
        let part = self.part;
        let mut all = EncodedFields::of("whole").with(&self.rows()?);
        let keys = part.keys();
        all.debug(&(keys.are_unknown(), keys.target_position()));
        for space in [keys.all(), keys.outer()] {
            all.debug(&space.len());
            space.columns().iter().try_for_each(|column| all.column(column))?;
        }
        for field in part.released_schema().fields() {
            all.debug(field.data_type());
        }
        all.nested(&of_threshold(
            part.unknown_partitions(),
            self.release.partition_selection(self.at),
        ));
        for at in 0..part.measures().len() {
            all.nested(&self.measure(at)?);
        }
        // The names of those who set a floor are not part of the draw.
        for PeopleLimit { count, of, at_least, .. } in self.release.people_limits(self.at) {
            all.debug(&(count, of, at_least));
        }
        Some(all)
    }

    /// What one measure of public groups asks, and its ε, if its draw can be built on another one.
    /// The numbers of a draw are in the order of the sorted groups, which belongs to the question.
    fn question(&self, measures: &[usize]) -> Option<(EncodedFields, Epsilon)> {
        let [at] = measures else { return None };
        let (measure, one) =
            (self.part.measures().get(*at)?, self.release.mechanisms(self.at).get(*at)?);
        let epsilon = refinable(self.part, measure, one)?;
        let column = |at: usize| self.rows.columns.get(at).cloned();
        let mut all = EncodedFields::of("question").with(&self.rows()?);
        all.nested(&in_order(self.part.keys().outer())?.0);
        all.nested(&of_question(measure, &column)?);
        let fields = self.part.released_schema();
        all.debug(fields.fields().get(self.part.key_names().len() + at)?.data_type());
        Some((all, epsilon))
    }

    /// Some measures of public groups.
    fn measures(&self, measures: Vec<usize>) -> Option<(EncodedFields, Of)> {
        let mut all = EncodedFields::of("measures").with(&self.rows()?);
        let (keys, groups) = in_order(self.part.keys().outer())?;
        all.nested(&keys);
        let of = |at: usize| Some((self.measure(at)?, at));
        let mut written = measures.into_iter().map(of).collect::<Option<Vec<_>>>()?;
        written.sort();
        all.list(written.iter().map(|(written, _)| written));
        let measures = written.into_iter().map(|(_, at)| at).collect();
        Some((all, Of::Measures { measures, groups }))
    }
}

/// Public keys as a set, and the positions of its members.
fn in_order(keys: &KeySpace) -> Option<(EncodedFields, Vec<usize>)> {
    let mut all = EncodedFields::of("keys");
    keys.columns().iter().for_each(|column| all.debug(column.data_type()));
    let mut rows = Vec::with_capacity(keys.len());
    for row in 0..keys.len() {
        let mut written = EncodedFields::default();
        for column in keys.columns() {
            written.scalar(&datafusion::common::ScalarValue::try_from_array(column, row).ok()?)?;
        }
        rows.push((written, row));
    }
    rows.sort();
    all.list(rows.iter().map(|(written, _)| written));
    Some((all, rows.into_iter().map(|(_, row)| row).collect()))
}

/// The threshold that hides groups with undeclared keys.
fn of_threshold(
    groups: Option<&UnknownPartitions>,
    selection: Option<&PartitionSelection>,
) -> EncodedFields {
    let mut all = EncodedFields::of("threshold");
    if let Some(UnknownPartitions {
        limits,
        groups,
        counter,
        payer: _,
        least,
        covers,
        compares,
        released: _,
        // The selection has what follows from them.
        floors: _,
    }) = groups
    {
        all.debug(&(limits, groups, counter, least, covers, compares));
    }
    if let Some(PartitionSelection {
        threshold,
        least,
        floor,
        by_beta,
        groups,
        epsilon,
        delta,
        counter,
        noise,
        loss,
        compared: _,
        compares,
        others: _,
    }) = selection
    {
        all.debug(&(threshold, least, floor, by_beta, groups, epsilon, delta, counter));
        all.debug(&(noise, loss, compares));
    }
    all
}
