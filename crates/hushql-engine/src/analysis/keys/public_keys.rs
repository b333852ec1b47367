//! The public keys of a private aggregate: the keys of its groups, and the keys that are
//! candidates.
//!
//! In: the releases of an aggregate, and the facts about its GROUP BY. Out: [`Keys`]: every
//! combination once, in the order of GROUP BY. If one key is the target of selections, also the
//! outer group of each combination.
//!
//! ```text
//! SELECT sex, ARGMAX … status … GROUP BY sex, status      outer: sex (2)   candidates: status (7)   keys: 14
//! ```

use std::collections::HashMap;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Aggregate;

use super::candidate_keys::of_key;
use super::group_keys::keys_of;
use super::public_row_keys::Together;
use super::unknown::{accept_unknown, no_choice_in_unknown, refuse_idle_options};
use super::{KeySpace, key_list};
use crate::analysis::call::Call;
use crate::analysis::call::input_columns::Group;
use crate::analysis::call::lookup::Lookups;
use crate::analysis::keys::choice_target::ChoiceTarget;
use crate::dialect::SelectionClause;
use crate::refusal::{Reason, Refusal};

/// The public keys of a private aggregate.
#[derive(Debug, Clone)]
pub struct Keys {
    all: KeySpace,
    outer: KeySpace,
    values: Vec<Vec<ScalarValue>>,
    target: Option<TargetKey>,
    from_data: bool,
}

/// The group key whose values are candidates.
#[derive(Debug, Clone)]
struct TargetKey {
    position: usize,
    group: Group,
    known: bool,
    /// The number of combinations of the keys after it.
    inner: usize,
}

impl Keys {
    /// Every combination, in the order of GROUP BY.
    pub fn all(&self) -> &KeySpace {
        &self.all
    }

    /// The combinations of all keys except the target. Each has one selection or one row of
    /// numbers.
    pub fn outer(&self) -> &KeySpace {
        &self.outer
    }

    /// True if the groups are unknown. Then no key is listed here.
    pub fn are_unknown(&self) -> bool {
        self.from_data
    }

    /// The largest number of groups that a unit can be in, as far as the keys tell.
    pub(crate) fn most_groups(&self) -> usize {
        if self.from_data { usize::MAX } else { self.outer.len() }
    }

    /// The position of the target among the GROUP BY keys.
    pub fn target_position(&self) -> Option<usize> {
        self.target.as_ref().map(|target| target.position)
    }

    /// The row of [`Keys::all`] at which outer group `group` has candidate `candidate`.
    pub fn row(&self, group: usize, candidate: usize) -> usize {
        match &self.target {
            None => group,
            Some(TargetKey { position, inner, .. }) => {
                let candidates = self.of_column(*position).len();
                (group / inner * candidates + candidate) * inner + group % inner
            }
        }
    }

    /// The keys of one GROUP BY column; empty if they are unknown.
    pub fn of_column(&self, column: usize) -> &[ScalarValue] {
        self.values.get(column).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn for_calls(
        calls: &[Call],
        aggregate: &Aggregate,
        groups: &[Group],
        together: &[Together],
        lookups: &Lookups,
    ) -> Result<Self, Refusal> {
        let clauses = calls.iter().map(|c| &c.clause.keys).find(|keys| !keys.is_empty());
        let target = target(calls, aggregate)?;
        let mut values = Vec::with_capacity(groups.len());
        let (mut known, mut from_data) = (true, false);
        for (i, group) in groups.iter().enumerate() {
            let clause = clauses.and_then(|k| k.get(i)).and_then(Option::as_ref);
            if target == Some(i) {
                if clause.is_some() {
                    return Err(Refusal::new(
                        Reason::Place,
                        "KEYS",
                        "the candidates of a selection follow its target",
                        format!("{} IN ('a', 'b')", group.name),
                    ));
                }
                let candidates = candidates(calls, group, lookups)?;
                known = candidates.is_some();
                if !known && groups.len() > 1 {
                    return Err(Refusal::new(
                        Reason::UnknownCandidates,
                        &group.name,
                        "undeclared candidates are chosen from one group so far",
                        format!(
                            "GROUP BY {0} alone, or {0} IN ('a', 'b') without delta",
                            group.name
                        ),
                    ));
                }
                values.push(candidates.unwrap_or_default());
            } else {
                values.push(match keys_of(group, clause, lookups) {
                    Err(unknown) if clause.is_none() && target.is_none() => {
                        accept_unknown(calls, unknown)?;
                        from_data = true;
                        Vec::new()
                    }
                    Err(unknown) if clause.is_none() => {
                        return Err(no_choice_in_unknown(calls, unknown));
                    }
                    keys => keys?,
                });
            }
        }
        if from_data {
            // If the keys of one column are unknown, so are the combinations.
            let (all, outer) = (KeySpace::none(), KeySpace::none());
            return Ok(Self { all, outer, values, target: None, from_data });
        }
        refuse_idle_options(calls, known, !groups.is_empty())?;
        let mut outer = values.clone();
        if let Some(position) = target {
            outer.remove(position);
        }
        // Keys that the query lists are combined with all other keys. Candidates are combined with
        // all groups.
        let is_listed = |i: &usize| clauses.and_then(|k| k.get(*i)).is_some_and(Option::is_some);
        // If the target is the last key, each group has all candidates.
        let is_whole = |one: &Together| {
            target.is_none_or(|at| at + 1 == groups.len() && !one.columns.contains(&at))
        };
        let together: Vec<Together> = together
            .iter()
            .filter(|one| is_whole(one) && !one.columns.iter().any(is_listed))
            .cloned()
            .collect();
        let outer = KeySpace::occurring(&outer, &together, "GROUP BY")?;
        let all = match known {
            true => KeySpace::occurring(&values, &together, "GROUP BY")?,
            false => KeySpace::none(),
        };
        let target = target.and_then(|position| {
            let inner = values.iter().skip(position + 1).map(Vec::len).product();
            Some(TargetKey { position, group: groups.get(position)?.clone(), known, inner })
        });
        Ok(Self { all, outer, values, target, from_data })
    }

    /// The target, with the candidates of one selection.
    pub(crate) fn target(
        &self,
        clause: &SelectionClause,
        lookups: &Lookups,
    ) -> Result<ChoiceTarget<'_>, Refusal> {
        let Some(target) = &self.target else {
            return Err(Refusal::new(Reason::Target, "", "a selection has a target", ""));
        };
        let values = self.of_column(target.position);
        let places: HashMap<&ScalarValue, usize> =
            values.iter().enumerate().map(|(i, v)| (v, i)).collect();
        let own = match target.known {
            true => of_key(clause, &target.group, lookups, false)?.unwrap_or_default(),
            false => Vec::new(),
        };
        Ok(ChoiceTarget {
            values: target.known.then_some(values),
            own: own.iter().filter_map(|v| places.get(v).copied()).collect(),
            data_type: &target.group.data_type,
        })
    }
}

/// The GROUP BY key whose values are the candidates of the selections.
fn target(calls: &[Call], aggregate: &Aggregate) -> Result<Option<usize>, Refusal> {
    let selections: Vec<_> = calls.iter().filter(|c| c.key_selection().is_some()).collect();
    let Some(first) = selections.first() else { return Ok(None) };
    if selections.len() != calls.len() {
        return Err(Refusal::new(
            Reason::Place,
            &first.clause.text,
            "a selection returns one row, an aggregate one per group",
            "two statements",
        ));
    }
    let mut found = None;
    for call in selections {
        let text = &call.clause.text;
        let target = call.params.args.first();
        let position = aggregate.group_expr.iter().position(|key| Some(key) == target);
        let Some(position) = position else {
            return Err(Refusal::new(
                Reason::Target,
                text,
                format!("{text} is not a key of GROUP BY, so it has no candidates"),
                format!("… FROM t GROUP BY {text}"),
            ));
        };
        if found.is_some_and(|other| other != position) {
            return Err(Refusal::new(
                Reason::Target,
                text,
                "the selections of one SELECT choose among the values of one key",
                "two statements",
            ));
        }
        found = Some(position);
    }
    Ok(found)
}

/// The distinct candidates of all selections of one SELECT; `None` if they are unknown.
fn candidates(
    calls: &[Call],
    group: &Group,
    lookups: &Lookups,
) -> Result<Option<Vec<ScalarValue>>, Refusal> {
    let mut all = Vec::new();
    let mut unknown = false;
    for call in calls {
        let Some(clause) = call.key_selection() else { continue };
        let may_be_unknown = call.clause.parameters.delta.is_some() && clause.prior.is_none();
        match of_key(clause, group, lookups, may_be_unknown)? {
            Some(values) => all.extend(values),
            None => unknown = true,
        }
    }
    if unknown && !(all.is_empty() && calls.len() == 1) {
        return Err(Refusal::new(
            Reason::Place,
            &group.name,
            "a selection among undeclared candidates must be alone in its SELECT",
            "two statements",
        ));
    }
    Ok((!unknown).then(|| key_list(all)))
}
