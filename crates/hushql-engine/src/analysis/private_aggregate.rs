//! One private aggregate: an aggregate across privacy units, cut out of its query.
//!
//! In: an aggregate node over private rows. Out: a [`PrivateAggregate`]: the enforced plan of the
//! unit, the group keys and the arguments of every measure; the public key space; the measures.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan};

use super::below::column_origin::Clamped;
use super::below::relation::PrivateRelation;
use super::below::unit::UnitScope;
use super::below::walk::Walk;
use super::keys::coverage::{Coverage, coverage};
use super::keys::default_delta::{DefaultDelta, lacks_delta, offers_keys, take_default_delta};
use super::keys::group_keys::{group_keys, refuse_never};
use super::keys::joined_keys::refuse_unmatched;
use super::keys::key_combinations::{keys_that_occur, leave_out_keys};
use super::keys::public_keys::Keys;
use super::measure::choice::CandidateSource;
use super::measure::unknown_partitions::UnknownPartitions;
use super::measure::{InputShape, Measure, ReleaseKind, same_rows};
use super::selection::by_group::named;
use super::selection::cdf::cdf;
use super::selection::of_keys;
use super::selection::quantile::quantile;
use super::selection::randomized_response::{check_roster, responds, response};
use crate::analysis::below::refusals::not_private;
use crate::analysis::call::Call;
use crate::analysis::call::input_columns::{
    Group, InputColumns, KeyRequest, key_heading, key_text,
};
use crate::analysis::call::read_calls::{distinct_values, releases};
use crate::analysis::call::unit_counts::{filter_units, padded_unit};
use crate::analysis::context::Context;
use crate::analysis::expr::aggregate_call::CallOf;
use crate::analysis::expr::date_arithmetic::{is_column_of_seconds, is_difference, is_span};
use crate::analysis::expr::facts::Scope;
use crate::analysis::expr::shape::readable;
use crate::analysis::measure::block_values::{blocks_of, combine, one_of_each_block, or_by_blocks};
use crate::analysis::measure::grid::no_range;
use crate::analysis::measure::joint::read_joint;
use crate::analysis::measure::measure_frame::{MeasureFrame, argument, check_unit_column, sum_raw};
use crate::analysis::measure::people_behind::{PeopleFloor, floors_of, with_counts};
use crate::analysis::measure::public_ranges::with_public_ranges;
use crate::analysis::measure::read::read_number;
use crate::analysis::measure::row_bound_ladder;
use crate::analysis::not_analyzed::{NotAnalyzed, internal, lost};
use crate::analysis::public_presence::{Replacement, groups_of_the_data};
use crate::dialect::{AggregateCall, AggregateName, MechanismName, Operand, Selector};
use crate::privacy::Delta;

/// An aggregate across privacy units: its input, the keys that are shown, and its measures.
#[derive(Debug)]
pub struct PrivateAggregate {
    subject: UnitScope,
    public: BTreeSet<String>,
    input: LogicalPlan,
    has_unit: bool,
    computed_keys: bool,
    key_names: Vec<String>,
    keys: Keys,
    measures: Vec<Measure>,
    released: SchemaRef,
    late: Vec<Option<Clamped>>,
    unknown_partitions: Option<UnknownPartitions>,
    people_floor: Option<PeopleFloor>,
    default_delta: Option<Delta>,
    pub(super) aggregate: Aggregate,
    /// For each key, the rows that have a listed value of it.
    pub(super) coverage: Vec<Coverage>,
    /// The aggregate as it is read: with values in place of what was released before it.
    pub(super) read: Aggregate,
    pub(super) plain: Option<Selector>,
    steps: Vec<String>,
    aggregated_above: Option<String>,
    sets: Option<u64>,
}

impl PrivateAggregate {
    /// The steps of the analysis that led to this aggregate.
    pub fn steps(&self) -> &[String] {
        &self.steps
    }

    /// The aggregates that the query writes as if they were private, and that are computed from
    /// what this one releases.
    pub fn aggregated_above(&self) -> Option<&str> {
        self.aggregated_above.as_deref()
    }

    /// The number of sets of ROLLUP, CUBE or GROUPING SETS that share the cost, if this is one of
    /// them.
    pub fn sets(&self) -> Option<u64> {
        self.sets
    }

    /// True if some keys were computed. A δ then asks for the keys in the data instead.
    pub(crate) fn has_computed_keys(&self) -> bool {
        self.computed_keys
    }

    /// The argument of a measure, if it is the difference of columns.
    pub(crate) fn difference_in(&self, measure: &Measure) -> Option<String> {
        self.argument_of(measure).filter(|own| is_difference(own)).map(readable)
    }

    /// The argument of a measure.
    pub(crate) fn argument_of(&self, measure: &Measure) -> Option<&Expr> {
        let index = self.measures.iter().position(|other| other.column == measure.column)?;
        CallOf::function(self.aggregate.aggr_expr.get(index)?)?.params.args.first()
    }

    pub(crate) fn aggregate_above(&mut self, aggregates: String) {
        self.aggregated_above = Some(aggregates);
    }

    /// The privacy unit, and the tables that it is protected in.
    pub fn subject(&self) -> &UnitScope {
        &self.subject
    }

    /// The public tables that are read below it.
    pub fn public(&self) -> &BTreeSet<String> {
        &self.public
    }

    /// The enforced rows: the unit first (unless each row is a unit), then the keys, then the
    /// arguments.
    pub fn input(&self) -> &LogicalPlan {
        &self.input
    }

    /// True if the input's first column is the unit.
    pub fn has_unit(&self) -> bool {
        self.has_unit
    }

    /// For each key column, the ends to which its keys are clamped after the groups are added up.
    pub(crate) fn late_clamps(&self) -> &[Option<Clamped>] {
        &self.late
    }

    /// The group keys as written.
    pub fn key_names(&self) -> &[String] {
        &self.key_names
    }

    /// The public keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// How groups of few units are hidden, if the keys are unknown.
    pub fn unknown_partitions(&self) -> Option<&UnknownPartitions> {
        self.unknown_partitions.as_ref()
    }

    /// The same, for a caller that sets the number that is compared with the threshold.
    pub(crate) fn unknown_partitions_mut(&mut self) -> Option<&mut UnknownPartitions> {
        self.unknown_partitions.as_mut()
    }

    /// The floors of people that bind it, and what decides which numbers are shown.
    pub fn people_floor(&self) -> Option<&PeopleFloor> {
        self.people_floor.as_ref()
    }

    /// The δ that a budget's PER QUERY default states for keys that only the data contain. `None`
    /// if all keys are public, or a release states δ itself.
    pub(crate) fn default_delta(&self) -> Option<&Delta> {
        self.default_delta.as_ref()
    }

    /// True if the query shows the keys alone. The only measure is the count that selects them.
    pub(crate) fn shows_keys_alone(&self) -> bool {
        self.aggregate.aggr_expr.is_empty()
    }

    /// The measures, one per released column.
    pub fn measures(&self) -> &[Measure] {
        &self.measures
    }

    pub(super) fn measures_mut(&mut self) -> &mut [Measure] {
        &mut self.measures
    }

    /// The released table: key columns, then one column per measure.
    pub fn released_schema(&self) -> SchemaRef {
        Arc::clone(&self.released)
    }

    /// How many rows are released; `None` if the mechanism decides.
    pub(crate) fn rows(&self) -> Option<u64> {
        if self.unknown_partitions.is_some() {
            return None;
        }
        let per_group = match &self.measures.first()?.release_kind {
            ReleaseKind::Number(_) => 1,
            ReleaseKind::Choice(choice)
                if matches!(choice.source, CandidateSource::Unknown { .. }) =>
            {
                return None;
            }
            ReleaseKind::Choice(choice) => choice.rounds,
        };
        u64::try_from(self.keys.outer().len()).ok()?.checked_mul(per_group)
    }

    /// The number of columns before the arguments.
    pub fn arguments_start(&self) -> usize {
        usize::from(self.has_unit) + self.key_names.len()
    }

    /// The same private aggregate, identified by the aggregate as it was written.
    pub(crate) fn cut_from(self, aggregate: &Aggregate) -> Self {
        Self { aggregate: aggregate.clone(), ..self }
    }

    /// True if this was cut from an equal aggregate, in the same way.
    pub(crate) fn is_of(&self, aggregate: &Aggregate, plain: Option<Selector>) -> bool {
        self.aggregate == *aggregate && self.plain == plain
    }
}

/// Cuts an aggregate over private rows out of its query.
///
/// # Guarantee
/// The input carries the unit of every row. The keys are public. Each measure's sensitivity holds
/// for the bounds that the plan's operators enforce.
///
/// # Errors
/// A refusal, see [`Reason`].
pub(crate) fn cut(
    aggregate: &Aggregate,
    plain: Option<Selector>,
    sets: Option<u64>,
    sources: &Context<'_>,
    steps: &mut Vec<String>,
) -> Result<PrivateAggregate, NotAnalyzed> {
    let before = steps.len();
    // Keys that are shown alone are selected by a count of units.
    let alone = aggregate.aggr_expr.is_empty();
    if alone && !offers_keys(sources.catalog) {
        return Err(distinct_values(aggregate).into());
    }
    let mut calls = releases(aggregate, sources.bound)?;
    if sets.is_some() && aggregate.group_expr.is_empty() {
        calls.iter_mut().for_each(Call::without_threshold);
    }
    let blocks = blocks_of(&calls)?;
    if let Some(selector) = plain {
        steps.push(format!("plain SQL that shows keys only, planned as {selector}"));
    }
    let (flow, valued) = {
        let plan = LogicalPlan::Aggregate(aggregate.clone());
        let walk = Walk::new(sources.catalog, sources.tables, steps, &plan);
        let mut walk = walk.in_blocks_of(blocks);
        let flow = walk.below(aggregate).map_err(|e| or_by_blocks(e, &calls, blocks))?;
        let (flow, valued) = walk.valued_aggregate(flow, aggregate)?;
        (walk.resolved(flow)?, valued)
    };
    over_columns(&mut calls, &valued, aggregate, plain)?;
    filter_units(&mut calls, &flow);
    if flow.is_public() {
        return Err(not_private("the rows", true).into());
    }
    one_of_each_block(aggregate, &flow, sources.catalog)?;
    let replacement = Replacement::of(aggregate, &flow, sources.catalog)?;
    let (keyed, default_delta) = match Keyed::of(&calls, &valued, aggregate, &flow, sources) {
        Err(error) if lacks_delta(&error) => {
            let default = DefaultDelta::of(&flow.subject, sets, sources.catalog);
            let delta = default.filter(|default| !alone || default.selects_keys);
            let delta = delta.and_then(|own| take_default_delta(&mut calls, own.delta));
            let Some(delta) = delta else {
                return Err(if alone { distinct_values(aggregate).into() } else { error });
            };
            let keyed = Keyed::of(&calls, &valued, aggregate, &flow, sources)?;
            (keyed, Some(delta))
        }
        keyed => (keyed?, None),
    };
    let Keyed { mut columns, groups, keys } = keyed;
    if replacement.is_some() && keys.are_unknown() {
        return Err(groups_of_the_data().into());
    }
    if alone && !keys.are_unknown() {
        return Err(distinct_values(aggregate).into());
    }
    for (i, group) in groups.iter().enumerate() {
        columns.drop_strangers_late(group, keys.of_column(i));
    }
    let covered = valued.group_expr.iter().zip(&groups).enumerate();
    let covered = covered
        .map(|(i, (key, group))| coverage(key, group, keys.of_column(i), &flow, sources))
        .collect();
    let one_group = valued.group_expr.iter().all(|key| flow.is_one_group(key));
    let flow = with_public_ranges(flow, &calls, sources.tables);
    let floors = floors_of(&flow, sources.catalog);
    let (mut measures, people_floor) = {
        let mut frame = MeasureFrame {
            flow: &flow,
            columns: &mut columns,
            lookups: sources.lookups,
            outer: keys.most_groups(),
            one_group,
            tables: sources.tables,
            finds_spans: sources.finds_spans,
            chooses_rows: sources.chooses_rows,
            catalog: sources.catalog,
        };
        let measures = calls.iter().enumerate().map(|(i, call)| {
            // How a replaced row moves bounds that are found is not derived.
            let finds = replacement.is_none();
            let measured = measure(call, &mut frame, &keys);
            measured.map_err(|e| if finds { e.in_call(call.release, aggregate, i) } else { e })
        });
        let mut measures = measures.collect::<Result<Vec<_>, _>>()?;
        let are_unknown = keys.are_unknown();
        let floor = with_counts(floors, &calls, &mut measures, &mut frame, are_unknown)?;
        (measures, floor)
    };
    if sets.is_some() && !keys.are_unknown() {
        // This δ is for unknown groups, which only other sets have.
        measures.iter_mut().for_each(Measure::without_idle_delta);
    }
    for (call, measure) in calls.iter().zip(&mut measures) {
        replacement.iter().try_for_each(|own| own.derive(call, measure, &flow))?;
        combine(measure, blocks)?;
    }
    same_rows(&measures)?;
    let unknown_partitions = match keys.are_unknown() {
        true => {
            let floors = people_floor.as_ref().map_or(&[][..], |own| &own.floors);
            let unknown = UnknownPartitions::for_measures(&measures, &flow.subject, floors)?;
            people_floor.iter().try_for_each(|own| own.check_threshold(&measures, &unknown))?;
            Some(unknown)
        }
        false => None,
    };
    // Beside keys from the data, the known keys are compared with rows before anything is added up.
    let only_adds = flow.subject.is_row()
        && unknown_partitions.is_none()
        && measures.iter().all(|m| m.input_shape() == InputShape::Sums);
    let late = groups.iter().map(|g| if only_adds { columns.clamp_late(g) } else { None });
    let late: Vec<Option<Clamped>> = late.collect();
    let moved = columns.dedup();
    measures.iter_mut().for_each(|measure| measure.renumber(&moved));
    let input = columns.build(&flow)?;
    row_bound_ladder::share_choices(&mut measures, input.schema());
    steps.push(format!(
        "Aggregate{}{}{}: {}",
        if groups.is_empty() { "" } else { " by " },
        groups.iter().map(|g| g.name.as_str()).collect::<Vec<_>>().join(", "),
        if unknown_partitions.is_some() { " (keys of the data)" } else { "" },
        measures.iter().map(Measure::described).collect::<Vec<_>>().join(", "),
    ));
    // In plain SQL the aggregate has its own type, but the release is the key.
    let chosen = plain.and_then(|_| calls.first()).map(|call| &call.data_type);
    let counted = calls.first().filter(|_| alone).map(|call| &call.data_type);
    let counts = people_floor.as_ref().map_or(0, |floor| floor.counts.len());
    let released = Arc::new(released_columns(aggregate, chosen, counted, counts));
    Ok(PrivateAggregate {
        subject: flow.subject.clone(),
        public: flow.public.clone(),
        has_unit: !flow.subject.is_row(),
        input,
        computed_keys: groups.iter().any(|group| group.computed),
        key_names: groups.into_iter().map(|g| g.name).collect(),
        keys,
        measures,
        released,
        late,
        unknown_partitions,
        people_floor,
        default_delta,
        aggregate: aggregate.clone(),
        read: aggregate.clone(),
        coverage: covered,
        plain,
        steps: steps.get(before..).unwrap_or_default().to_vec(),
        aggregated_above: None,
        sets,
    })
}

/// The keys of an aggregate, as columns of its input.
struct Keyed {
    columns: InputColumns,
    groups: Vec<Group>,
    keys: Keys,
}

impl Keyed {
    /// The keys that the calls allow: public ones, or those of the data if a call states δ.
    fn of(
        calls: &[Call],
        valued: &Aggregate,
        written: &Aggregate,
        flow: &PrivateRelation,
        sources: &Context<'_>,
    ) -> Result<Self, NotAnalyzed> {
        let mut columns = InputColumns::new(flow);
        let states_delta = |call: &Call| call.clause.parameters.delta.is_some();
        let of_the_data =
            |call: &Call| call.clause.mechanism == MechanismName::Laplace && states_delta(call);
        let asked = KeyRequest {
            roster: calls.iter().any(responds),
            states_delta: calls.iter().any(states_delta),
            of_the_data: calls.iter().any(of_the_data),
            names: written.group_expr.iter().map(key_text).collect(),
        };
        let mut groups = group_keys(valued, &asked, flow, &mut columns, sources.tables)?;
        refuse_never(flow, sources.tables)?;
        refuse_unmatched(flow, sources.tables)?;
        check_roster(calls, &groups)?;
        let together = keys_that_occur(valued, &groups, &asked, flow, sources);
        leave_out_keys(&mut groups, &together, sources.lookups);
        let keys = Keys::for_calls(calls, valued, &groups, &together, sources.lookups)?;
        Ok(Self { columns, groups, keys })
    }
}

/// Gives each call its arguments with columns in place of subqueries. In plain SQL that shows keys
/// only, the calls choose a key.
fn over_columns(
    calls: &mut [Call],
    valued: &Aggregate,
    written: &Aggregate,
    plain: Option<Selector>,
) -> Result<(), NotAnalyzed> {
    for (call, expr) in calls.iter_mut().zip(&valued.aggr_expr) {
        call.params = CallOf::function(expr).ok_or_else(lost)?.params.clone();
    }
    if let (Some(selector), Some(target), Some(key)) =
        (plain, valued.group_expr.first(), written.group_expr.first())
    {
        let data_type = key.get_type(written.input.schema()).map_err(|e| internal(&e))?;
        for call in calls {
            call.choose(selector, target, &data_type);
            call.clause.text = key_heading(key);
        }
    }
    Ok(())
}

/// The columns of the released table: the aggregate's columns. If a key is chosen, all have its
/// type. If the keys are shown alone, the number that selects them is last. Counts of people that
/// decide which numbers are shown follow.
fn released_columns(
    aggregate: &Aggregate,
    chosen: Option<&DataType>,
    counted: Option<&DataType>,
    counts: usize,
) -> Schema {
    let fields = aggregate.schema.fields().iter();
    let types = fields.map(|field| chosen.unwrap_or_else(|| field.data_type())).chain(counted);
    let types = types.chain(std::iter::repeat_n(&DataType::Int64, counts));
    let columns = types.enumerate().map(|(i, of)| Field::new(format!("c{i}"), of.clone(), true));
    Schema::new(columns.collect::<Vec<_>>())
}

/// The measure of a release. Its argument and FILTER become columns of the input.
fn measure(call: &Call, frame: &mut MeasureFrame<'_>, keys: &Keys) -> Result<Measure, NotAnalyzed> {
    let bounded = |refusal| row_bound_ladder::with_a_bound(refusal, &call.clause);
    measured(call, frame, keys).map_err(|refused| refused.said(bounded))
}

fn measured(
    call: &Call,
    frame: &mut MeasureFrame<'_>,
    keys: &Keys,
) -> Result<Measure, NotAnalyzed> {
    check_unit_column(&call.clause, &frame.flow.subject)?;
    row_bound_ladder::check(&call.clause, &frame.flow.subject, keys.are_unknown())?;
    match &call.clause.operand {
        Operand::Selection(clause) if clause.named => named(call, clause, frame),
        Operand::Selection(clause) => {
            let target = keys.target(clause, frame.lookups)?;
            of_keys(call, clause, &target, frame)
        }
        Operand::Aggregate(aggregate) => match aggregate.function {
            AggregateName::Min
            | AggregateName::Max
            | AggregateName::Median
            | AggregateName::Quantile
            | AggregateName::Quantiles => quantile(call, aggregate, frame),
            AggregateName::Cdf => cdf(call, aggregate, frame, keys.are_unknown()),
            AggregateName::Count
            | AggregateName::Sum
            | AggregateName::Avg
            | AggregateName::Revenue
            | AggregateName::Spread(_)
            | AggregateName::Joint(_)
            | AggregateName::Unsupported(_) => numeric(call, aggregate, frame, keys.are_unknown()),
        },
        Operand::Response => response(call, frame),
    }
}

/// True if a sum, mean or variance is one of the time between two columns, and finds its bounds:
/// the range that follows from both whole ranges is far wider than that of most rows.
///
/// # Guarantee
/// It follows from the statement and the types alone.
fn finds_span(
    call: &Call,
    aggregate: &AggregateCall,
    frame: &MeasureFrame<'_>,
    scope: &Scope,
) -> bool {
    let is_summed = matches!(
        aggregate.function,
        AggregateName::Sum | AggregateName::Avg | AggregateName::Spread(_)
    );
    let is_bounded = aggregate.bounds_per_group.is_some() || aggregate.bounds_per_row.is_some();
    let argument = call.params.args.first();
    frame.finds_spans
        && is_summed
        && !is_bounded
        && call.clause.finding.is_none()
        && argument.is_some_and(|argument| {
            is_span(argument, scope) || is_column_of_seconds(argument, &frame.flow.plan)
        })
}

/// A number that a mechanism perturbs.
fn numeric(
    call: &Call,
    aggregate: &AggregateCall,
    frame: &mut MeasureFrame<'_>,
    are_unknown: bool,
) -> Result<Measure, NotAnalyzed> {
    let text = call.clause.text.as_str();
    let mut clause = call.clause.clone();
    // FILTER restricts the rows of its aggregate.
    let padded = padded_unit(call, aggregate, frame.flow);
    let present = padded.cloned().map(Expr::is_not_null);
    let filter = present.into_iter().chain(call.params.filter.as_deref().cloned());
    let (filter, scope) = frame.filter(filter.reduce(Expr::and).as_ref())?;
    let read = match aggregate.function {
        AggregateName::Joint(joint) => read_joint(call, aggregate, joint, frame, &scope)?,
        AggregateName::Count
        | AggregateName::Sum
        | AggregateName::Avg
        | AggregateName::Min
        | AggregateName::Max
        | AggregateName::Median
        | AggregateName::Quantile
        | AggregateName::Quantiles
        | AggregateName::Cdf
        | AggregateName::Revenue
        | AggregateName::Spread(_)
        | AggregateName::Unsupported(_) => {
            let mut argument = argument(call, aggregate, frame, &scope)?;
            argument.is_unit |= padded.is_some();
            if finds_span(call, aggregate, frame, &scope) {
                return Err(no_range(text, &argument.remedy));
            }
            let subject = &frame.flow.subject;
            let read = read_number(aggregate, &argument, subject, &mut clause.parameters, text)?;
            sum_raw(&read.input, aggregate, call.params.args.first(), frame);
            read
        }
    };
    // Under a floor of people, no release chooses a bound.
    let may_choose = !are_unknown && floors_of(frame.flow, frame.catalog).is_empty();
    let (limits, release_kind, ladder) =
        row_bound_ladder::contributions(call, aggregate, &mut clause, &read, frame, may_choose)?;
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
        release_kind,
        ladder,
        replaced: None,
    })
}
