//! Stage 2: [`QueryStatement`] → [`Bound`].
//!
//! In: a query whose releases are markers, and the tables that it may name. Out: DataFusion's
//! logical plan after type coercion, in which every release is a separate aggregate function. Names
//! and types are resolved; this stage makes no decision about privacy.
//!
//! A release becomes an *aggregate*. So the planner carries it through HAVING, ORDER BY, aliases,
//! CTEs and subqueries like any other aggregate, and copies of one release stay one column. The
//! analyzer's type coercion runs here, before the analysis, because it inserts casts that can fail:
//! it turns `status = 5` into `CAST(status AS BIGINT) = 5`. No optimizer rule runs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{
    Column, DataFusionError, Result as DataFusionResult, TableReference, not_impl_err, plan_err,
};
use datafusion::config::ConfigOptions;
use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::planner::{
    ContextProvider, ExprPlanner, RelationPlanner, TypePlanner,
};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ExprSchemable, HigherOrderUDF, LogicalPlan,
    ScalarUDF, Signature, TableSource, Volatility, WindowUDF,
};
use datafusion::optimizer::Analyzer;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::sql::planner::{ParserOptions, SqlToRel};
use sqlparser::ast as sql;

use crate::catalog::RESERVED;
use crate::dialect::{
    Operand, QueryStatement, ReleaseClause, candidate_marker, magnitude_name, marker,
    moved_times_name, parameter_marker, time_between_name,
};
use crate::functions::{
    capped, clamp_function, date_bin_function, date_diff_function, date_label_functions,
    date_trunc_function, gathered, histogram_function, interval_end_functions, magnitude_function,
    moved_times_function, ordered_list_function, width_bucket_function,
};
use candidate_function::candidate_function;
use comparisons::Strict;
use decimals::with_decimals;
use distinct_keys::{with_keys_apart, with_keys_once};
use error::{UNKNOWN_TABLE, place, unbound};
use functional_dependencies::Forgetful;
use grouping_sets::one_by_one;
use marker::Marker;
use merged::Joins;
pub(crate) use moment_quantiles::is_moment_quantile;
use moment_quantiles::{of_numbers, with_moments};
use one_type::with_one_type;
use percentile_disc::DiscreteQuantile;
pub(crate) use percentile_disc::PERCENTILE_DISC;
use quantiles::ListAggregate;
pub(crate) use quantiles::{CDF, QUANTILES};
use struct_fields::with_fields;
use time_between::TimeBetween;
pub use truth_texts::truth_of;
use truth_texts::{TruthTexts, with_truth_literals};
use unvalued::unvalued;
use using::Numbered;

mod allowed;
mod candidate_function;
mod chosen_values;
mod comparisons;
mod decimals;
mod derived_spans;
mod distinct_keys;
mod error;
pub(crate) mod functional_dependencies;
pub(crate) mod grouping_sets;
mod marker;
mod merged;
mod moment;
mod moment_quantiles;
mod moved_days;
pub(crate) mod names;
mod not_computed;
mod one_type;
mod percentile_disc;
mod placeholder;
mod planner_messages;
mod points;
mod quantiles;
pub(crate) mod quoting;
mod repeated_stars;
mod rounded_types;
mod scaled_spans;
pub(crate) mod sources;
mod spans;
mod struct_fields;
mod temporal;
mod time_between;
mod time_zones;
mod truth_texts;
mod union_names;
mod unvalued;
mod using;
mod value_kind;
mod wide_types;
mod written_types;

pub use error::{BindError, Unbound};
pub(crate) use marker::marker_function;
pub(crate) use planner_messages::of_a_constant;
pub(crate) use sources::is_ledger;
pub use sources::{LEDGER, Sources};
pub(crate) use temporal::compares;

/// A query with its names and types resolved.
#[derive(Debug)]
pub struct Bound {
    plan: LogicalPlan,
    releases: Vec<ReleaseClause>,
    is_timeless: bool,
}

impl Bound {
    /// A query that the engine itself has built, with resolved names.
    pub(crate) fn from_plan(plan: LogicalPlan, releases: Vec<ReleaseClause>) -> Self {
        Self { plan, releases, is_timeless: false }
    }

    /// The plan; each release in it is a call of its marker function.
    pub fn plan(&self) -> &LogicalPlan {
        &self.plan
    }

    /// True if the query means the same at every time, because each function that it names is
    /// immutable.
    pub(crate) fn is_timeless(&self) -> bool {
        self.is_timeless
    }

    /// The types that the query expects of its parameters, by position from 1 on.
    ///
    /// # Errors
    /// Those of the walk, which has none of its own.
    pub(crate) fn expected_types(&self) -> DataFusionResult<BTreeMap<usize, DataType>> {
        unvalued::expected_types(&self.plan)
    }

    /// The releases. The number of a marker is the position of its release in this list.
    pub fn releases(&self) -> &[ReleaseClause] {
        &self.releases
    }
}

/// Resolves a query against tables.
///
/// # Errors
/// [`BindError`] for an unknown name, or for types that do not fit together; a refusal of
/// comparisons that would not mean what they say.
pub fn bind(query: QueryStatement, sources: &Sources) -> Result<Bound, Unbound> {
    bind_unvalued(query, sources, &[])
}

/// Resolves a query whose parameters have these types and no values. Its plan never runs.
///
/// # Errors
/// Those of [`bind`].
pub(crate) fn bind_unvalued(
    query: QueryStatement,
    sources: &Sources,
    parameters: &[DataType],
) -> Result<Bound, Unbound> {
    let QueryStatement { mut tree, releases, null_values, .. } = query;
    with_fields(&mut tree, sources);
    with_decimals(&mut tree);
    if let Some(every) = repeated_stars::every_column(&tree) {
        let numbered = Numbered::new(every);
        let context = Context::new(sources, &releases, null_values, numbered.joins());
        let planner = SqlToRel::new(&context);
        let plan = numbered.plan(|tree| planner.sql_statement_to_plan(sql::Statement::Query(tree)));
        // A mistake is reported when the query itself is planned.
        if let Ok(plan) = plan {
            repeated_stars::write_out(&mut tree, &repeated_stars::columns_of(&plan));
        }
    }
    let numbered = Numbered::new(tree);
    let context =
        Context::new(sources, &releases, null_values, numbered.joins()).with_parameters(parameters);
    let options = ParserOptions::new().with_collect_spans(true);
    let explained = |error, releases: &[ReleaseClause]| {
        unbound(error, sources, context.known.names(), releases)
    };
    let mut is_timeless = false;
    let planner = SqlToRel::new_with_options(&context, options);
    let (plan, releases) = numbered
        .plan(|tree| planner.sql_statement_to_plan(sql::Statement::Query(tree)))
        .and_then(with_truth_literals)
        .and_then(not_computed::check)
        .and_then(|plan| chosen_values::check(plan, null_values))
        .and_then(|plan| {
            is_timeless = moment::is_timeless(&plan)?;
            moment::at_one_moment(plan)
        })
        .and_then(with_keys_apart)
        .and_then(|plan| one_by_one(plan, releases.clone()))
        .map_err(|error| explained(error, &releases))?;
    let plan = with_one_type(plan)
        .and_then(|plan| coerce(plan, &context.options))
        .and_then(of_numbers)
        .and_then(with_keys_once)
        .and_then(union_names::with_named_branches)
        .and_then(typed)
        .map_err(|error| explained(error, &releases))?;
    match unknown_column(&plan) {
        Some(column) => {
            let unknown = BindError::UnknownColumn { name: column.flat_name(), suggestion: None };
            Err(unknown.placed(place(column.spans().first())).into())
        }
        None => Ok(Bound { plan, releases, is_timeless }),
    }
}

/// A column that no input has. The planner accepts such a column in ORDER BY if its qualifier is a
/// table that does not exist.
fn unknown_column(plan: &LogicalPlan) -> Option<Column> {
    let mut unknown = None;
    let walked = plan.apply_with_subqueries(|node| {
        let inputs = node.inputs();
        if inputs.is_empty() {
            return Ok(TreeNodeRecursion::Continue);
        }
        node.apply_expressions(|expr| {
            let columns = expr.column_refs().into_iter().cloned();
            let missing = |c: &Column| !inputs.iter().any(|input| input.schema().has_column(c));
            unknown = unknown.take().or_else(|| columns.filter(missing).min());
            Ok(TreeNodeRecursion::Continue)
        })
    });
    walked.ok()?;
    unknown
}

/// Checks that each expression has a type, and returns the plan. No other code checks the types in
/// ORDER BY before execution.
fn typed(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            let known = expr.column_refs().iter().all(|column| schema.has_column(column));
            if known {
                expr.get_type(&schema)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(plan)
}

/// The plan of a query without releases, as the planner builds it.
///
/// # Errors
/// Those of [`bind`].
pub(crate) fn planned(
    mut tree: Box<sql::Query>,
    sources: &Sources,
) -> Result<LogicalPlan, Unbound> {
    with_fields(&mut tree, sources);
    with_decimals(&mut tree);
    let numbered = Numbered::new(tree);
    let context = Context::new(sources, &[], false, numbered.joins());
    let planner = SqlToRel::new(&context);
    numbered
        .plan(|tree| planner.sql_statement_to_plan(sql::Statement::Query(tree)))
        .and_then(with_truth_literals)
        .and_then(not_computed::check)
        .and_then(|plan| chosen_values::check(plan, false))
        .and_then(|plan| Ok(one_by_one(plan, Vec::new())?.0))
        .and_then(with_one_type)
        .map_err(|error| match unbound(error, sources, context.known.names(), &[]) {
            // The position is relative to the view's text, so it is dropped.
            Unbound::Mistake(BindError::At { source, .. }) => Unbound::Mistake(*source),
            Unbound::Mistake(mistake) => Unbound::Mistake(mistake),
            Unbound::Refused(refusal) => Unbound::Refused(refusal),
        })
}

/// Runs type coercion, the only rewrite between the planner and the analysis: our own for dates and
/// moments, then DataFusion's.
fn coerce(plan: LogicalPlan, options: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
    let plan = time_between::without_calls(derived_spans::read_in_seconds(plan))?;
    let plan = spans::in_durations(plan)?;
    let plan = temporal::in_microseconds(plan)?;
    Analyzer::with_rules(vec![Arc::new(TypeCoercion::new())]).execute_and_check(
        plan,
        options,
        |_, _| {},
    )
}

/// The tables, allowed functions and markers that the planner can see.
struct Context<'a> {
    sources: &'a Sources,
    known: &'static Functions,
    /// The markers of the query's releases.
    scalars: HashMap<String, Arc<ScalarUDF>>,
    aggregates: HashMap<String, Arc<AggregateUDF>>,
    planners: Vec<Arc<dyn ExprPlanner>>,
    relations: Vec<Arc<dyn RelationPlanner>>,
    options: ConfigOptions,
}

/// The functions that every query may call.
struct Functions {
    scalars: HashMap<String, Arc<ScalarUDF>>,
    aggregates: HashMap<String, Arc<AggregateUDF>>,
    windows: HashMap<String, Arc<WindowUDF>>,
}

static FUNCTIONS: LazyLock<Functions> = LazyLock::new(Functions::new);

impl Functions {
    /// Their names, in order.
    fn names(&self) -> impl Iterator<Item = &str> {
        let all = self.scalars.keys().chain(self.aggregates.keys()).chain(self.windows.keys());
        let names: BTreeSet<&str> = all.map(String::as_str).collect();
        names.into_iter().filter(|name| !name.starts_with(RESERVED))
    }

    fn new() -> Self {
        let mut scalars = HashMap::new();
        let known = SessionStateDefaults::default_scalar_functions().into_iter();
        for function in known.filter(|known| allowed::is_scalar(known.name())).map(capped) {
            for alias in function.aliases() {
                scalars.insert(alias.clone(), Arc::clone(&function));
            }
            scalars.insert(function.name().to_owned(), function);
        }
        scalars.insert("clamp".to_owned(), clamp_function());
        scalars.insert(magnitude_name(), magnitude_function());
        scalars.insert(moved_times_name(), moved_times_function());
        let between = ScalarUDF::from(TimeBetween::default());
        scalars.insert(time_between_name(), Arc::new(between));
        scalars.insert("ordered_list".to_owned(), ordered_list_function());
        scalars.insert("date_diff".to_owned(), date_diff_function());
        scalars.insert("datediff".to_owned(), date_diff_function());
        scalars.insert("width_bucket".to_owned(), width_bucket_function());
        scalars.insert("date_bin".to_owned(), date_bin_function());
        scalars.insert("date_trunc".to_owned(), date_trunc_function());
        scalars.insert("datetrunc".to_owned(), date_trunc_function());
        scalars.insert("histogram".to_owned(), histogram_function());
        for function in date_label_functions() {
            scalars.insert(function.name().to_owned(), Arc::clone(function));
        }
        for function in interval_end_functions() {
            scalars.insert(function.name().to_owned(), Arc::clone(function));
        }
        let mut aggregates = HashMap::new();
        let known = SessionStateDefaults::default_aggregate_functions().into_iter();
        let known = known.filter(|known| allowed::is_aggregate(known.name()));
        for function in known.map(gathered).map(with_moments) {
            for alias in function.aliases() {
                aggregates.insert(alias.clone(), Arc::clone(&function));
            }
            aggregates.insert(function.name().to_owned(), function);
        }
        aggregates.insert(
            RR_COUNT.to_owned(),
            Arc::new(AggregateUDF::from(RrCountPlaceholder::default())),
        );
        let discrete = AggregateUDF::from(DiscreteQuantile::default());
        aggregates.insert(PERCENTILE_DISC.to_owned(), Arc::new(discrete));
        for list in [ListAggregate::quantiles(), ListAggregate::cdf()] {
            let list = AggregateUDF::from(list);
            aggregates.insert(list.name().to_owned(), Arc::new(list));
        }
        // Names of the dialect for these aggregates. They can be called with or without a
        // mechanism.
        if let Some(quantile) = aggregates.get("percentile_cont").cloned() {
            aggregates.insert("quantile".to_owned(), Arc::clone(&quantile));
            aggregates.insert("approx_percentile_cont".to_owned(), quantile);
        }
        if let Some(median) = aggregates.get("median").cloned() {
            aggregates.insert("approx_median".to_owned(), median);
        }
        if let Some(variance) = aggregates.get("var_samp").cloned() {
            aggregates.insert("variance".to_owned(), variance);
        }
        let windows = SessionStateDefaults::default_window_functions()
            .into_iter()
            .filter(|known| allowed::is_window(known.name()))
            .map(|function| (function.name().to_owned(), function))
            .collect();
        Self { scalars, aggregates, windows }
    }
}

impl<'a> Context<'a> {
    fn new(
        sources: &'a Sources,
        releases: &[ReleaseClause],
        null_values: bool,
        joins: Arc<Joins>,
    ) -> Self {
        let (mut scalars, mut aggregates) = (HashMap::new(), HashMap::new());
        for (n, release) in releases.iter().enumerate() {
            let function = AggregateUDF::from(Marker::new(n, release));
            aggregates.insert(marker(n), Arc::new(function));
            if let Operand::Selection(selection) = &release.operand
                && selection.named
                && let Some(candidates) = &selection.candidates
            {
                let function = ScalarUDF::from(candidate_function(n, candidates));
                scalars.insert(candidate_marker(n), Arc::new(function));
            }
        }
        let mut planners: Vec<Arc<dyn ExprPlanner>> =
            vec![Arc::new(TruthTexts), Arc::new(Strict { null_values })];
        planners.extend(SessionStateDefaults::default_expr_planners());
        let relations: Vec<Arc<dyn RelationPlanner>> = vec![Arc::new(Forgetful::new(joins))];
        let options = ConfigOptions::default();
        let known = &*FUNCTIONS;
        Self { sources, known, scalars, aggregates, planners, relations, options }
    }

    /// The same for a query whose parameters have these types, and no values yet.
    fn with_parameters(mut self, types: &[DataType]) -> Self {
        for (n, data_type) in (1..).zip(types) {
            let function = ScalarUDF::from(unvalued(n, data_type.clone()));
            self.scalars.insert(parameter_marker(n), Arc::new(function));
        }
        self
    }
}

/// The names of the functions that a query may call, in order. Below a release, each call is
/// checked separately.
pub fn function_names() -> Vec<String> {
    FUNCTIONS.names().map(str::to_owned).collect()
}

/// The names in order. The planner suggests the first of the nearest names, and an error must be
/// the same each time.
fn names<T>(map: &HashMap<String, T>) -> Vec<String> {
    let mut names: Vec<_> =
        map.keys().filter(|name| !name.starts_with(RESERVED)).cloned().collect();
    names.sort_unstable();
    names
}

impl ContextProvider for Context<'_> {
    fn get_table_source(&self, name: TableReference) -> DataFusionResult<Arc<dyn TableSource>> {
        // A qualified name never refers to the catalog: a table named "a.b" is not the table b of
        // the schema a.
        let found = match &name {
            TableReference::Bare { table } => self.sources.get(table.as_ref()),
            TableReference::Partial { .. } | TableReference::Full { .. } => {
                self.sources.get(LEDGER).filter(|_| is_ledger(&name))
            }
        };
        match found {
            Some(source) => Ok(Arc::clone(source)),
            None => Err(DataFusionError::Plan(format!("{UNKNOWN_TABLE}{name}"))),
        }
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.relations
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(written_types::Types))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.known.scalars.get(name).or_else(|| self.scalars.get(name)).cloned()
    }

    fn get_higher_order_meta(&self, _name: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.known.aggregates.get(name).or_else(|| self.aggregates.get(name)).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.known.windows.get(name).cloned()
    }

    fn get_variable_type(&self, _variable_names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &self.options
    }

    fn udf_names(&self) -> Vec<String> {
        names(&self.known.scalars)
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        names(&self.known.aggregates)
    }

    fn udwf_names(&self) -> Vec<String> {
        names(&self.known.windows)
    }
}

/// The name of the function that estimates counts from randomized responses.
pub(crate) const RR_COUNT: &str = "rr_count";

/// `RR_COUNT(column, value, eps)` while the query is planned; the analysis replaces it by a sum.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RrCountPlaceholder {
    signature: Signature,
}

impl Default for RrCountPlaceholder {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for RrCountPlaceholder {
    fn name(&self) -> &str {
        RR_COUNT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        match arg_types {
            [column, _, _] => Ok(vec![column.clone(), column.clone(), DataType::Float64]),
            _ => plan_err!("RR_COUNT takes a column, a value and an epsilon"),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, _: AccumulatorArgs) -> DataFusionResult<Box<dyn Accumulator>> {
        not_impl_err!("RR_COUNT counts the answers of RANDOMIZED_RESPONSE")
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::Engine;

    /// The planner's messages were once displayed unchanged, with markers in them.
    #[test]
    fn mistakes_are_reported_in_the_dialect() {
        let session = Engine::demo().unwrap().analyst("lab").unwrap();
        let explained = |sql: &str| session.explain(sql);
        let message = |sql: &str| explained(sql).unwrap_err().to_string();
        let refused =
            explained("SELECT LAPLACE(eps=1) AVG(income) FROM adult").unwrap().to_string();
        assert!(refused.contains("HQ014 SUM and AVG take numbers, not VARCHAR"), "{refused}");
        assert!(refused.contains("avg(income)"), "{refused}");
        assert_eq!(
            message("SELECT status, LAPLACE(eps=1) COUNT(*) FROM adult"),
            "at line 1, column 8: `adult.status` appears beside an aggregate: add GROUP BY adult.status, or remove it"
        );
        assert_eq!(
            message("SELECT ARGMAX status FROM adult GROUP BY status"),
            "at line 1, column 8: `ARGMAX` needs a mechanism, as in ARGMAX EXPONENTIAL(eps=1) column … GROUP BY column"
        );
        assert_eq!(
            message(
                "SELECT LAPLACE(eps=1) COUNT(*) FROM (SELECT age AS years, sex FROM adult) WHERE age > 3"
            ),
            "at line 1, column 81: there is no column `age` among years, sex; a text is written in single quotes: 'age'"
        );
        assert_eq!(
            message("SELECT LAPLACE(eps=1) COUNT(*) FROM adult WHERE sex = maile"),
            "at line 1, column 55: there is no column `maile`; a text is written in single quotes: 'maile'"
        );
    }
}
