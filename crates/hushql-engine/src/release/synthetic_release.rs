//! Synthetic tables: from rows with public codes to a plan of measurements, with its cost.
//!
//! In: [`PrivateRows`], the method and its options, and the budgets of the tables. Out: a
//! [`SyntheticRelease`]: the whole budget of the statement, how much one unit can change, and how
//! its rows are bounded. All of it is public.
//!
//! ```text
//! AIM(eps=1)                  pure: Laplace noise, ε = 1
//! AIM(eps=1, delta=1e-9)      ρ = 0.014973057, the largest that implies (1, 10⁻⁹): Gaussian noise
//! AUTO(eps=1, delta=1e-9)     whichever of these two is better for so many columns
//! ```

use std::time::Duration;

use num_traits::ToPrimitive;

use crate::analysis::private_rows::PrivateRows;
use crate::catalog::{Catalog, quoted};
use crate::dialect::{SyntheticMethod, SyntheticOptions};
use crate::mechanism::largest_rho;
use crate::privacy::{Delta, Epsilon, Loss, Notion, Rational, Rho, Selecting, Spend, decimal_text};
use crate::refusal::{Reason, Refusal};
use crate::synthetic::{
    ColumnSet, DEFAULT_BYTES, MOST_HELD, Method, Sensitivity, SyntheticBudget, SyntheticPlan,
    SyntheticTask, Unfit,
};

/// Billionths in one.
const NANO: i64 = 1_000_000_000;

/// If nothing bounds the rows of a unit, at most this many of them count. With a larger bound, each
/// row would weigh nothing.
const MOST_WEIGHED: u64 = 1 << 20;

/// The number of rounds of MWEM, unless the statement gives one.
const ROUNDS: u32 = 8;

/// A planned synthetic table: what it measures at most, and what that costs.
#[derive(Debug)]
pub(crate) struct SyntheticRelease {
    rows: PrivateRows,
    method: SyntheticMethod,
    parameters: String,
    plan: SyntheticPlan,
    task: SyntheticTask,
    loss: Loss,
    /// The number of rows of a unit that count. `None` if every row is a unit.
    most: Option<u64>,
}

impl SyntheticRelease {
    /// The rows that it measures.
    pub(crate) fn rows(&self) -> &PrivateRows {
        &self.rows
    }

    /// The method that makes the rows; never AUTO.
    pub(crate) fn method(&self) -> SyntheticMethod {
        self.method
    }

    /// The parameters as they are written.
    pub(crate) fn parameters(&self) -> &str {
        &self.parameters
    }

    /// The plan that is run.
    pub(crate) fn plan(&self) -> &SyntheticPlan {
        &self.plan
    }

    /// The task that was planned.
    pub(crate) fn task(&self) -> &SyntheticTask {
        &self.task
    }

    /// The exact cost of the whole statement.
    pub(crate) fn loss(&self) -> &Loss {
        &self.loss
    }

    /// The number of rows of a unit that count, which must be enforced. `None` if every row is a
    /// unit.
    pub(crate) fn most(&self) -> Option<u64> {
        self.most
    }

    /// How much one unit changes, in words.
    pub(crate) fn sensitivity_text(&self) -> String {
        match (self.rows.is_weighed(), self.task.sensitivity.l1()) {
            (true, _) => "1 person in each marginal".to_owned(),
            (false, 1) => "1 row in each marginal".to_owned(),
            (false, rows) => format!("{rows} rows in each marginal"),
        }
    }

    /// The kind of noise: Laplace, Gaussian, or no noise.
    pub(crate) fn noise_text(&self) -> &'static str {
        match (self.task.method, self.is_gaussian()) {
            (Method::SmallDatabase { .. }, _) => "no",
            (Method::Aim | Method::Mwem { .. }, true) => "Gaussian",
            (Method::Aim | Method::Mwem { .. }, false) => "Laplace",
        }
    }

    /// True if the noise is Gaussian.
    pub(crate) fn is_gaussian(&self) -> bool {
        matches!(self.task.budget, SyntheticBudget::Concentrated { .. })
    }

    /// The plan, as the text whose hash the ledger records.
    pub(crate) fn plan_text(&self) -> String {
        let codes = self.rows.columns().iter();
        let codes: Vec<String> =
            codes.map(|column| format!("{}: {:?}", column.name, column.codes)).collect();
        format!(
            "{}({})\n{}\n{:?}\n{}",
            self.method,
            self.parameters,
            self.rows.steps().join("\n"),
            self.task,
            codes.join("\n")
        )
    }
}

/// The cost as stated, before the mode of the budget is known.
enum Stated {
    Pure(Epsilon),
    Approximate(Epsilon, Delta),
    Concentrated(Rho),
}

/// The limits on one statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The most time for all of it.
    pub(crate) time: Option<Duration>,
    /// Bytes of memory for all statements together.
    pub(crate) memory: Option<usize>,
    /// The most rows that come out.
    pub(crate) most_rows: usize,
}

impl Limits {
    /// How many counts are held at once, if a marginal has at most `largest` cells: those of a
    /// sixty-fourth of the memory, and at least one marginal.
    fn most_held(&self, largest: usize) -> usize {
        let most = self.memory.map_or(MOST_HELD, |bytes| (bytes / 64).min(MOST_HELD));
        most.max(largest)
    }
}

/// Plans a synthetic table within these limits.
///
/// # Guarantee
/// The loss covers everything that the plan can release, if rows are bounded as
/// [`SyntheticRelease::most`] says.
///
/// # Errors
/// A refusal: a missing cost, options that do not go together, too many codes, or a budget that is
/// too small to share.
pub(crate) fn synthetic(
    rows: PrivateRows,
    method: SyntheticMethod,
    options: &SyntheticOptions,
    catalog: &Catalog,
    limits: Limits,
) -> Result<SyntheticRelease, Refusal> {
    let steps = rows.steps().to_vec();
    chosen(rows, method, options, catalog, limits).map_err(|refusal| refusal.after(&steps))
}

fn chosen(
    rows: PrivateRows,
    method: SyntheticMethod,
    options: &SyntheticOptions,
    catalog: &Catalog,
    limits: Limits,
) -> Result<SyntheticRelease, Refusal> {
    check(method, options)?;
    let stated = stated(&rows, method, options, catalog)?;
    let sizes: Vec<usize> = rows.columns().iter().map(|column| column.codes.len()).collect();
    let in_rho = catalog
        .budgets_of(rows.subject().unit_domain())
        .any(|budget| budget.limit.notion == Notion::Concentrated);
    let (budget, loss) = budget(method, &stated, sizes.len(), in_rho)?;
    let (sensitivity, most) = sensitivity(&rows, method, options)?;
    let workload = workload(&rows, &sizes, &stated, options)?;
    let made = match method {
        SyntheticMethod::Auto | SyntheticMethod::Aim => Method::Aim,
        SyntheticMethod::Mwem => {
            let rounds = options.rounds.and_then(|rounds| u32::try_from(rounds).ok());
            Method::Mwem { cells: false, rounds: rounds.unwrap_or(ROUNDS) }
        }
        SyntheticMethod::SmallDatabase => {
            let rows = options.bound.unwrap_or(0);
            Method::SmallDatabase { rows: u32::try_from(rows).unwrap_or(u32::MAX) }
        }
    };
    let size = options.size.and_then(|bytes| usize::try_from(bytes).ok());
    let largest = workload.iter().map(|(set, _)| set.cells(&sizes)).fold(0, usize::max);
    let task = SyntheticTask {
        sizes,
        workload,
        method: made,
        budget,
        sensitivity,
        most_bytes: size.unwrap_or(DEFAULT_BYTES),
        most_held: limits.most_held(largest),
        rows: options.rows,
        most_rows: limits.most_rows,
        // The other half is left for reading and planning.
        most_time: limits.time.map(|time| time / 2),
    };
    let plan = SyntheticPlan::new(task.clone())
        .map_err(|unfit| unfit_refusal(&unfit, method, &stated, &rows))?;
    let method = match method {
        SyntheticMethod::Auto => SyntheticMethod::Aim,
        named => named,
    };
    let (parameters, with) = (cost_text(options, &stated, budget), options.with());
    let parameters = if with.is_empty() { parameters } else { format!("{parameters}; {with}") };
    Ok(SyntheticRelease { rows, method, parameters, plan, task, loss, most })
}

/// The parameters as written, with the cost that a budget's default adds, and without a δ that is
/// not charged.
fn cost_text(options: &SyntheticOptions, stated: &Stated, budget: SyntheticBudget) -> String {
    let mut options = options.clone();
    match stated {
        Stated::Pure(epsilon) => options.epsilon = Some(epsilon.clone()),
        Stated::Approximate(epsilon, delta) => {
            options.epsilon = Some(epsilon.clone());
            options.delta = match budget {
                SyntheticBudget::Concentrated { .. } => Some(delta.clone()),
                SyntheticBudget::Pure { .. } => None,
            };
        }
        Stated::Concentrated(rho) => options.rho = Some(rho.clone()),
    }
    options.parameters()
}

/// Refuses options that a method does not have.
fn check(method: SyntheticMethod, options: &SyntheticOptions) -> Result<(), Refusal> {
    let refused = |clause: &str, why: String, instead: &str| {
        Err(Refusal::new(Reason::Parameter, clause, why, instead))
    };
    if options.rounds.is_some() && method != SyntheticMethod::Mwem {
        return refused(
            "rounds",
            format!("{method} decides by itself how many rounds it has"),
            "MWEM(eps=1, rounds=8), or leave rounds out",
        );
    }
    if options.marginals.is_some() && !options.workload.is_empty() {
        return refused(
            "workload",
            "marginals and workload both say which sets of columns matter".to_owned(),
            "marginals=2, or WITH (workload=((a, b), (c)))",
        );
    }
    if method != SyntheticMethod::SmallDatabase {
        return Ok(());
    }
    if options.bound.is_none() {
        return refused(
            "SMALL_DATABASE",
            "SMALL_DATABASE chooses among all tables of so many rows, and the number is missing"
                .to_owned(),
            "SMALL_DATABASE(eps=1, rows=5)",
        );
    }
    if options.delta.is_some() {
        return refused(
            "delta",
            "SMALL_DATABASE draws by the exponential mechanism, which needs no delta".to_owned(),
            "SMALL_DATABASE(eps=1, rows=5)",
        );
    }
    if options.per_person || options.rows.is_some() || options.size.is_some() {
        return refused(
            "WITH",
            "SMALL_DATABASE takes workload and buckets behind WITH, and no other option".to_owned(),
            "SMALL_DATABASE(eps=1, rows=5), where rows says how many rows come out",
        );
    }
    Ok(())
}

/// The cost that the statement writes, or the default cost of a query.
fn stated(
    rows: &PrivateRows,
    method: SyntheticMethod,
    options: &SyntheticOptions,
    catalog: &Catalog,
) -> Result<Stated, Refusal> {
    let domain = rows.subject().unit_domain();
    let in_epsilon = catalog.budgets_of(domain).find(|budget| match budget.limit.notion {
        Notion::Approximate | Notion::Coupons => true,
        Notion::Concentrated => false,
    });
    let stated = match (&options.epsilon, &options.delta, &options.rho) {
        (Some(epsilon), Some(delta), _) => Stated::Approximate(epsilon.clone(), delta.clone()),
        (Some(epsilon), None, _) => Stated::Pure(epsilon.clone()),
        (None, _, Some(rho)) => Stated::Concentrated(rho.clone()),
        (None, _, None) => {
            let epsilon = catalog
                .default_of(domain, |p| p.default)
                .and_then(|nano| Epsilon::new(Spend::of_epsilon(nano, 0).loss()).ok());
            let rho = catalog
                .default_of(domain, |p| p.default_rho)
                .and_then(|nano| Rho::new(Spend::of_rho(nano, 0).loss()).ok());
            match (epsilon, rho) {
                (Some(epsilon), _) => Stated::Pure(epsilon),
                (None, Some(rho)) => Stated::Concentrated(rho),
                (None, None) => {
                    return Err(Refusal::new(
                        Reason::NoEpsilon,
                        method,
                        "the cost of the synthetic table is not stated, and no PER QUERY default of a budget applies to it",
                        format!("{method}(eps=1) or {method}(rho=0.015) after AS"),
                    ));
                }
            }
        }
    };
    if let (Stated::Concentrated(rho), Some(budget)) = (&stated, in_epsilon) {
        return Err(Refusal::new(
            Reason::Parameter,
            "rho",
            format!(
                "the budget {} counts in epsilon, and a cost of rho={rho} has no epsilon",
                budget.name
            ),
            format!(
                "{method}(eps=1), or {method}(eps=1, delta=1e-9), which allows less noise for many columns"
            ),
        ));
    }
    Ok(stated)
}

/// What may be spent, and what is charged for it. If a budget counts ρ, a pure ε costs more ρ than
/// (ε, δ) does, so AUTO takes Gaussian noise.
fn budget(
    method: SyntheticMethod,
    stated: &Stated,
    columns: usize,
    in_rho: bool,
) -> Result<(SyntheticBudget, Loss), Refusal> {
    let too_small = |what: &str| {
        Refusal::new(
            Reason::TooNoisy,
            what,
            format!(
                "the budget is too small: {what} is counted in billionths, and this is less than one"
            ),
            format!("{method}(eps=1)"),
        )
    };
    let nano = |value: &Rational, what: &str| {
        let nano = (value * Rational::from_integer(NANO.into())).floor().to_integer().to_u64();
        nano.filter(|nano| *nano > 0).ok_or_else(|| too_small(what))
    };
    Ok(match stated {
        Stated::Pure(epsilon) => {
            let epsilon_nano = nano(epsilon.value(), "eps")?;
            let loss = match method {
                // One draw of the exponential mechanism and nothing else: ε²/8 in ρ.
                SyntheticMethod::SmallDatabase => {
                    Loss::choice(epsilon, None, 1, Selecting::BoundedRange)
                }
                SyntheticMethod::Auto | SyntheticMethod::Aim | SyntheticMethod::Mwem => {
                    Loss::pure(epsilon)
                }
            };
            (SyntheticBudget::Pure { epsilon_nano }, loss)
        }
        Stated::Concentrated(rho) => {
            let rho_nano = nano(rho.value(), "rho")?;
            (SyntheticBudget::Concentrated { rho_nano }, Loss::concentrated(rho))
        }
        Stated::Approximate(epsilon, delta) => {
            let rho = largest_rho(epsilon, delta).map_err(|_| too_small("eps"))?;
            let (epsilon_nano, rho_nano) = (nano(epsilon.value(), "eps")?, nano(&rho, "rho")?);
            let chosen = match method {
                SyntheticMethod::Auto if !in_rho => {
                    SyntheticBudget::auto(columns, epsilon_nano, rho_nano)
                }
                SyntheticMethod::Auto
                | SyntheticMethod::Aim
                | SyntheticMethod::Mwem
                | SyntheticMethod::SmallDatabase => SyntheticBudget::Concentrated { rho_nano },
            };
            let loss = match chosen {
                SyntheticBudget::Pure { .. } => Loss::pure(epsilon),
                SyntheticBudget::Concentrated { rho_nano } => {
                    // The ρ that is used; it is at most the largest ρ that meets both ε and δ.
                    let used = Rational::new(rho_nano.into(), NANO.into());
                    Loss::gaussian(epsilon, delta, &used)
                }
            };
            (chosen, loss)
        }
    })
}

/// How much one unit can change, and how many of its rows count if they must be bounded.
fn sensitivity(
    rows: &PrivateRows,
    method: SyntheticMethod,
    options: &SyntheticOptions,
) -> Result<(Sensitivity, Option<u64>), Refusal> {
    let subject = rows.subject();
    // The `rows` of SMALL_DATABASE are the rows that come out, not a bound.
    let asked = options.bound.filter(|_| method != SyntheticMethod::SmallDatabase);
    if subject.is_row() {
        if asked.is_some() {
            return Err(Refusal::new(
                Reason::Parameter,
                "rows",
                "every row is a privacy unit of its own, so there is no number of rows to bound",
                format!("{method}(eps=1); WITH (rows=1000) before AS says how many rows come out"),
            ));
        }
        let Some(rows) = subject.max_rows() else {
            return Err(Refusal::new(
                Reason::NoContributionBound,
                "",
                "nothing bounds how often the joins repeat a row",
                "joins that find each row once",
            ));
        };
        return Ok((Sensitivity::rows(rows), None));
    }
    let least = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    };
    if rows.is_weighed() {
        let most = least(asked, subject.max_rows()).map(|most| most.min(MOST_WEIGHED));
        return Ok((Sensitivity::person(most), Some(most.unwrap_or(MOST_WEIGHED))));
    }
    let most = least(Some(asked.unwrap_or(1)), subject.max_rows()).unwrap_or(1).max(1);
    Ok((Sensitivity::rows(most), Some(most)))
}

/// The sets of columns whose marginals matter.
fn workload(
    rows: &PrivateRows,
    sizes: &[usize],
    stated: &Stated,
    options: &SyntheticOptions,
) -> Result<Vec<(ColumnSet, u64)>, Refusal> {
    if options.workload.is_empty() {
        let size = options.marginals.unwrap_or(2);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let sets = SyntheticTask::all_sets(sizes, size)
            .map_err(|unfit| unfit_refusal(&unfit, SyntheticMethod::Aim, stated, rows))?;
        // If no set of that many columns is small enough, single columns are used.
        return match sets.is_empty() {
            true => SyntheticTask::all_sets(sizes, 1)
                .map_err(|unfit| unfit_refusal(&unfit, SyntheticMethod::Aim, stated, rows)),
            false => Ok(sets),
        };
    }
    let mut sets = Vec::new();
    for set in &options.workload {
        let mut columns = Vec::new();
        for name in set {
            let Some(at) = rows.columns().iter().position(|column| column.name == *name) else {
                return Err(Refusal::new(
                    Reason::BadValue,
                    name,
                    format!("the workload names {name}, which is not a column of the query"),
                    "workload=((a, b), (c)) with columns of the query",
                ));
            };
            columns.push(at);
        }
        sets.push((ColumnSet::new(columns), 1));
    }
    Ok(sets)
}

/// The refusal of a synthetic table that cannot be made.
fn unfit_refusal(
    unfit: &Unfit,
    method: SyntheticMethod,
    stated: &Stated,
    rows: &PrivateRows,
) -> Refusal {
    let name = |column: usize| {
        rows.columns().get(column).map_or("?".to_owned(), |column| quoted(&column.name))
    };
    let all = |columns: &ColumnSet| {
        columns.as_slice().iter().map(|column| name(*column)).collect::<Vec<_>>().join(", ")
    };
    let large = |clause: String, message: String, hint: &str| {
        Refusal::new(Reason::TooManyKeys, clause, message, hint)
    };
    match unfit {
        Unfit::NoColumns | Unfit::Zero => {
            Refusal::new(Reason::BadValue, "", unfit.to_string(), "AIM(eps=1) SELECT a, b FROM t")
        }
        Unfit::NoSuchColumn { column } => Refusal::new(
            Reason::BadValue,
            name(*column),
            "the workload names a column that the query does not have",
            "workload=((a, b), (c)) with columns of the query",
        ),
        Unfit::TooManyColumns { most } => large(
            "columns".to_owned(),
            format!("a synthetic table has at most {most} columns"),
            "fewer columns in the query",
        ),
        Unfit::Codes { column, codes, most } => large(
            name(*column),
            format!("{} has {codes} codes; 1 to {most} are possible", name(*column)),
            "a coarser column, or WITH (buckets=(column (0, 10, 20))) before AS",
        ),
        Unfit::TooManyCells { columns, most } => large(
            all(columns),
            format!(
                "the columns {} have too many combinations of codes: at most {most} are possible",
                all(columns)
            ),
            match method {
                SyntheticMethod::Mwem | SyntheticMethod::SmallDatabase => {
                    "fewer columns, coarser ones, or AIM, which needs no table of all combinations"
                }
                SyntheticMethod::Auto | SyntheticMethod::Aim => {
                    "smaller sets of columns in marginals or workload, or WITH (buckets=(column (0, 10, 20))) before AS"
                }
            },
        ),
        Unfit::TooManyCandidates { most } => large(
            "marginals".to_owned(),
            format!("too many sets of columns matter: at most {most} can compete"),
            "a smaller number in marginals, or WITH (workload=((a, b), (c))) before AS",
        ),
        Unfit::TooManyDatabases { rows, most } => large(
            "SMALL_DATABASE".to_owned(),
            format!(
                "there are too many tables of {rows} rows over these columns: at most {most} can compete"
            ),
            "fewer rows, fewer or coarser columns, or AIM(eps=1)",
        ),
        Unfit::TooLarge { needed, most } => large(
            "size".to_owned(),
            format!(
                "the model needs {needed} bytes for the single columns alone, and may have {most}"
            ),
            "a larger size, as in WITH (size='1MB')",
        ),
        Unfit::BudgetTooSmall { least_nano } => {
            let least = decimal_text(&Rational::new((*least_nano).into(), NANO.into()), 9);
            let instead = match stated {
                Stated::Pure(_) => format!("eps={least} or more, or fewer columns"),
                Stated::Concentrated(_) => format!("rho={least} or more, or fewer columns"),
                Stated::Approximate(..) => {
                    format!(
                        "a larger eps or delta (both together mean a rho, of which {least} are needed), or fewer columns"
                    )
                }
            };
            Refusal::new(
                Reason::TooNoisy,
                method,
                "the budget is too small to be shared by these columns",
                instead,
            )
        }
        Unfit::NoiseTooLarge => Refusal::new(
            Reason::TooNoisy,
            method,
            "the noise would be larger than what can be drawn",
            "a larger eps or rho, or fewer rows of a unit: rows=1, WITH (weights=PERSON)",
        ),
    }
}
