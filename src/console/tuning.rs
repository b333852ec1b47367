//! The page on which one tries ε and bounds side by side, before anything is paid.
//!
//! In: a statement with `{eps}` and, where one likes, `{bound}`, and the values for each. Out: one
//! cell for each pair of values. On the visitor's own tables a cell holds the prediction alone, as
//! EXPLAIN has it: no row is read and nothing is charged. On the built-in tables, which are made
//! up, the statement is also run several times in an engine of its own that is thrown away, and the
//! cell holds how far off the answers were.
//!
//! ```text
//! SELECT LAPLACE(eps={eps}, rows={bound}) SUM(price) FROM orders      {eps}: 0.1 1      {bound}: 2 20
//!   →   ε 0.1, bound 2 │ costs ε = 0.1 │ predicted ± 5990 │ noise 2004 │ bias -51200 │ lost groups 0
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use arrow::util::display::array_value_to_string;
use http::StatusCode;
use hushql::{AccuracyKind, Answer, Engine, Error, Output, Resources, Session};
use hushql_engine::visible::rounded;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::form::FormFields;
use super::frame::{framed, token};
use super::html::Html;
use super::responses::{Answered, page};
use super::visitors::Visitor;

/// How often a statement runs for one cell.
const RUNS: usize = 20;

/// The most values of ε, and of the bound.
const MOST: usize = 5;

/// What the engine of a trial may take: roles choose what it runs, and the server's own limits do
/// not reach it.
const MEMORY: usize = 128 << 20;
const OF_A_STATEMENT: Duration = Duration::from_secs(5);
const OF_A_TRIAL: Duration = Duration::from_secs(60);

/// One trial runs at a time, whoever asks.
static TRIALS: Semaphore = Semaphore::const_new(1);

/// What stands for no noise: the largest ε of a statement that the trial's budget pays.
const EXACT: &str = "5000";

const EXAMPLE: &str = "SELECT LAPLACE(eps={eps}, rows={bound}) SUM(price) AS revenue\nFROM orders";

/// A statement to try.
struct Tried {
    sql: String,
    epsilons: Vec<String>,
    bounds: Vec<String>,
    /// Whether it runs on the built-in tables.
    is_trial: bool,
}

/// One pair of values.
struct Outcome {
    epsilon: String,
    bound: String,
    /// Cost, predicted error of the first number; or the sentence of a refusal.
    predicted: Result<(String, String), String>,
    measured: Option<TrialError>,
}

/// What the runs of one pair of values showed.
struct TrialError {
    noise: f64,
    bias: f64,
    lost: f64,
}

/// The page before anything is tried.
pub(super) fn empty(visitor: &Visitor) -> Answered {
    let tried = Tried {
        sql: EXAMPLE.to_owned(),
        epsilons: ["0.1", "0.5", "2"].map(str::to_owned).to_vec(),
        bounds: ["2", "5", "20"].map(str::to_owned).to_vec(),
        is_trial: true,
    };
    page(StatusCode::OK, tuning_page(visitor, &tried, &Html::default()))
}

/// Answers the form.
pub(super) async fn sent(
    visitor: &Arc<Visitor>,
    fields: &FormFields,
    place: OwnedSemaphorePermit,
) -> Answered {
    let values = |name: &str| {
        let typed = fields.get(name);
        let words = typed.split(|c: char| c.is_whitespace() || c == ',');
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let tried = Tried {
        sql: fields.get("sql"),
        epsilons: values("eps"),
        bounds: values("bound"),
        is_trial: fields.get("do") == "try",
    };
    let asking = Arc::clone(visitor);
    let trying = async move {
        let _place = place;
        let outcomes = match unusable(&tried) {
            Some(why) => Err(why),
            None if tried.is_trial => in_its_turn(outcomes(&asking, &tried)).await,
            None => outcomes(&asking, &tried).await,
        };
        (tried, outcomes)
    };
    let Ok((tried, outcomes)) = tokio::spawn(trying).await else {
        return super::responses::sentence(
            StatusCode::INTERNAL_SERVER_ERROR,
            "this page cannot be written",
        );
    };
    let mut below = Html::default();
    let status = match outcomes {
        Ok(outcomes) => {
            below.add(&table(&outcomes, tried.is_trial));
            StatusCode::OK
        }
        Err(why) => {
            below.element("p", &[("id", "answer"), ("class", "refusal"), ("role", "alert")], &why);
            StatusCode::UNPROCESSABLE_ENTITY
        }
    };
    page(status, tuning_page(visitor, &tried, &below))
}

/// Waits until no other trial runs. Both together take a minute at most.
async fn in_its_turn(
    trial: impl Future<Output = Result<Vec<Outcome>, String>>,
) -> Result<Vec<Outcome>, String> {
    let whole = async {
        let turn = TRIALS.acquire().await;
        let _turn = turn.map_err(|_| "the server is stopping".to_owned())?;
        trial.await
    };
    tokio::time::timeout(OF_A_TRIAL, whole).await.unwrap_or_else(|_| {
        Err("this takes more than a minute, or others are trying: fewer values, or a smaller question".to_owned())
    })
}

/// Why a form cannot be tried.
fn unusable(tried: &Tried) -> Option<String> {
    let Tried { sql, epsilons, bounds, .. } = tried;
    if !sql.contains("{eps}") {
        return Some(format!("write {{eps}} where the ε stands, as in: {EXAMPLE}"));
    }
    for (name, values) in [("ε", epsilons), ("the bound", bounds)] {
        if values.len() > MOST {
            return Some(format!("write at most {MOST} values of {name}"));
        }
        // Words such as `auto` are values of a bound.
        let is_value = |value: &String| {
            value.len() <= 20
                && value.chars().all(|c| c.is_ascii_alphanumeric() || "._-+".contains(c))
        };
        if let Some(wrong) = values.iter().find(|value| !is_value(value)) {
            return Some(format!(
                "`{wrong}` is no value of {name}: write numbers, such as 0.1 0.5 2"
            ));
        }
    }
    if epsilons.is_empty() {
        return Some("write at least one value of ε, such as 0.1 0.5 2".to_owned());
    }
    (sql.contains("{bound}") && bounds.is_empty())
        .then(|| "write at least one value of the bound, such as 2 5 20".to_owned())
}

/// The statement with values.
fn filled(sql: &str, epsilon: &str, bound: &str) -> String {
    sql.replace("{eps}", epsilon).replace("{bound}", bound)
}

async fn outcomes(visitor: &Arc<Visitor>, tried: &Tried) -> Result<Vec<Outcome>, String> {
    let trial = match tried.is_trial {
        true => Some(throwaway().await.map_err(|error| refusal(&error))?),
        false => None,
    };
    let session = trial.clone().unwrap_or_else(|| visitor.session.clone());
    let none = [String::new()];
    let bounds = match tried.sql.contains("{bound}") {
        true => tried.bounds.as_slice(),
        false => &none,
    };
    let truth = match &trial {
        Some(trial) => Some(truth(trial, &tried.sql, bounds).await?),
        None => None,
    };
    let mut outcomes = Vec::new();
    for bound in bounds {
        for epsilon in &tried.epsilons {
            let sql = filled(&tried.sql, epsilon, bound);
            let predicted = predicted(&session, &sql).await;
            let measured = match (&truth, &trial, &predicted) {
                (Some(truth), Some(trial), Ok(_)) => Some(measured(trial, &sql, truth).await?),
                _ => None,
            };
            let (epsilon, bound) = (epsilon.clone(), bound.clone());
            outcomes.push(Outcome { epsilon, bound, predicted, measured });
        }
    }
    Ok(outcomes)
}

/// A session of an engine with the built-in tables alone, whose budgets pay for trials.
async fn throwaway() -> Result<Session, Error> {
    let limits = Resources::default().with_memory(Some(MEMORY)).with_time(Some(OF_A_STATEMENT));
    let made = move || Engine::builder().resources(limits).demo();
    let engine = tokio::task::spawn_blocking(made).await.map_err(|_| Error::Internal)??;
    let owner: Session = engine.owner().into();
    for budget in ["adult", "bids", "orders"] {
        for change in [
            "SET LIMIT (epsilon=1000000, delta=0.1)",
            "SET PER QUERY (default=0.1)",
            "SET REPLAY (OFF)",
        ] {
            owner.execute(&format!("ALTER PRIVACY BUDGET {budget} {change}")).await?;
        }
    }
    Ok(engine.analyst("trial")?.into())
}

/// What a statement costs and how far off its first number is predicted to be.
async fn predicted(session: &Session, sql: &str) -> Result<(String, String), String> {
    let (session, sql) = (session.clone(), sql.to_owned());
    let planned = tokio::task::spawn_blocking(move || {
        session.prepare(&sql).map(|prepared| {
            let within = |kind| matches!(kind, AccuracyKind::Within | AccuracyKind::Drawn);
            let first = prepared.accuracy().iter().find(|one| within(one.kind));
            let error = first.map_or_else(String::new, |one| format!("± {}", rounded(one.value)));
            (prepared.cost().neat().to_string(), error)
        })
    });
    match planned.await {
        Ok(planned) => planned.map_err(|error| refusal(&error)),
        Err(_) => Err("this statement cannot be planned".to_owned()),
    }
}

fn refusal(error: &Error) -> String {
    match error.hint() {
        Some(hint) => format!("{}; write: {hint}", error.message()),
        None => error.message(),
    }
}

/// The numbers of an answer by the texts of its other columns. The number is the first column that
/// has a ±.
type NumberByKey = BTreeMap<Vec<String>, f64>;

async fn run(session: &Session, sql: &str) -> Result<NumberByKey, String> {
    match session.execute(sql).await {
        Ok(Output::Answer(answer)) => {
            groups(&answer).ok_or_else(|| "this answer has no number with a ±".to_owned())
        }
        Ok(_) => Err("a trial takes a question, such as the one below".to_owned()),
        Err(error) => Err(refusal(&error)),
    }
}

fn groups(answer: &Answer) -> Option<NumberByKey> {
    let within = |kind| matches!(kind, AccuracyKind::Within | AccuracyKind::Drawn);
    let number = answer.accuracy().iter().find(|one| within(one.kind))?.column.clone();
    let mut groups = NumberByKey::new();
    let drawn: Vec<&str> = answer.accuracy().iter().map(|one| one.column.as_str()).collect();
    for batch in answer.batches() {
        add(&mut groups, batch, &number, &drawn)?;
    }
    Some(groups)
}

/// Adds the rows of a batch. What is drawn is no part of a key.
fn add(groups: &mut NumberByKey, batch: &RecordBatch, number: &str, drawn: &[&str]) -> Option<()> {
    let at = batch.schema().fields().iter().position(|field| field.name() == number)?;
    let numbers = cast(batch.column(at), &DataType::Float64).ok()?;
    let numbers = numbers.as_primitive_opt::<Float64Type>()?;
    for row in 0..batch.num_rows() {
        if numbers.is_null(row) {
            continue;
        }
        let mut key = Vec::new();
        for (column, field) in batch.schema().fields().iter().enumerate() {
            if column != at && !drawn.contains(&field.name().as_str()) {
                key.push(array_value_to_string(batch.column(column), row).ok()?);
            }
        }
        groups.insert(key, numbers.value(row));
    }
    Some(())
}

/// What the statement says without noise, at the last bound that it takes.
async fn truth(session: &Session, sql: &str, bounds: &[String]) -> Result<NumberByKey, String> {
    let mut last = Err("there is no bound to compare with".to_owned());
    for bound in bounds.iter().rev() {
        last = run(session, &filled(sql, EXACT, bound)).await;
        if last.is_ok() {
            break;
        }
    }
    last
}

/// Runs a statement several times, and compares.
async fn measured(session: &Session, sql: &str, truth: &NumberByKey) -> Result<TrialError, String> {
    let mut errors: BTreeMap<&[String], Vec<f64>> = BTreeMap::new();
    let mut lost = 0;
    for _ in 0..RUNS {
        let found = run(session, sql).await?;
        for (key, value) in truth {
            match found.get(key) {
                Some(found) => errors.entry(key).or_default().push(found - value),
                None => lost += 1,
            }
        }
    }
    Ok(summed(&errors.into_values().collect::<Vec<_>>(), lost))
}

/// The mean of the errors of all groups, and how far they lie from the mean of their group: the
/// bound's share of the error, and the noise's.
fn summed(errors: &[Vec<f64>], lost: usize) -> TrialError {
    let count = |n: usize| f64::from(u32::try_from(n.max(1)).unwrap_or(u32::MAX));
    let mean = |of: &[f64]| of.iter().sum::<f64>() / count(of.len());
    let means: Vec<f64> = errors.iter().map(|of| mean(of)).collect();
    let spread = errors
        .iter()
        .zip(&means)
        .flat_map(|(of, mean)| of.iter().map(move |error| (error - mean) * (error - mean)));
    let spread: Vec<f64> = spread.collect();
    TrialError {
        noise: mean(&spread).sqrt(),
        bias: mean(&means),
        lost: if lost == 0 { 0.0 } else { count(lost) / count(RUNS) },
    }
}

fn table(outcomes: &[Outcome], is_trial: bool) -> Html {
    let mut part = Html::default();
    part.markup(
        "<section id=\"answer\" aria-labelledby=\"side\"><h2 id=\"side\">Side by side</h2>",
    );
    part.markup("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Rows\"><table><thead><tr><th scope=\"col\">ε</th><th scope=\"col\">bound</th><th scope=\"col\">costs</th><th scope=\"col\">predicted ± (95 %)</th>");
    if is_trial {
        part.markup("<th scope=\"col\">noise</th><th scope=\"col\">bias</th><th scope=\"col\">lost groups</th>");
    }
    part.markup("</tr></thead><tbody>");
    for one in outcomes {
        part.markup("<tr>").element("td", &[("class", "number")], &one.epsilon);
        part.element("td", &[("class", "number")], &one.bound);
        match &one.predicted {
            Ok((cost, error)) => {
                part.element("td", &[("class", "short")], cost);
                part.element("td", &[("class", "number")], error);
            }
            Err(why) => {
                part.element("td", &[("class", "long"), ("colspan", "2")], why);
            }
        }
        if is_trial {
            let told = one.measured.as_ref();
            for value in [
                told.map(|told| told.noise),
                told.map(|told| told.bias),
                told.map(|told| told.lost),
            ] {
                part.element("td", &[("class", "number")], &value.map_or_else(String::new, signed));
            }
        }
        part.markup("</tr>");
    }
    part.markup("</tbody></table></div>");
    if is_trial {
        part.markup("<p class=\"note\">Of 20 runs on the built-in tables: noise is the standard deviation of an answer, bias how far the answers are off in the mean, beside the answer at ε = 5000 and the last bound, and lost groups how many of its groups were missing in a run.</p>");
    } else {
        part.markup("<p class=\"note\">A prediction knows the noise, and not what a bound cuts away: no row is read for it.</p>");
    }
    part.markup("</section>");
    part
}

/// A number in the digits that its size calls for, with its sign.
fn signed(value: f64) -> String {
    if value < 0.0 { format!("-{}", rounded(-value)) } else { rounded(value) }
}

fn tuning_page(visitor: &Visitor, tried: &Tried, below: &Html) -> Html {
    let mut main = Html::default();
    main.markup("<h1>Tune</h1><p>Try ε and bounds side by side before anything is paid. Nothing here is charged: on your tables it shows predictions alone, and it runs on the built-in tables, which are made up or public.</p><form method=\"post\" action=\"/tune\">");
    token(&mut main, visitor);
    main.markup("<label for=\"tuned\">Statement, with {eps} where the ε stands, and {bound} where a bound stands</label><textarea id=\"tuned\" name=\"sql\" rows=\"5\" spellcheck=\"false\" autocapitalize=\"none\" autocomplete=\"off\">\n");
    main.text(&tried.sql);
    main.markup("</textarea><p><label for=\"eps\">Values of ε</label>");
    let (epsilons, bounds) = (tried.epsilons.join(" "), tried.bounds.join(" "));
    main.open("input", &[("id", "eps"), ("name", "eps"), ("value", &epsilons)]);
    main.markup("</p><p><label for=\"bound\">Values of the bound</label>");
    main.open("input", &[("id", "bound"), ("name", "bound"), ("value", &bounds)]);
    main.markup("</p><p class=\"buttons\"><button name=\"do\" value=\"predict\">Predict on my tables</button> <button name=\"do\" value=\"try\" class=\"quiet\">Try on the built-in tables</button></p></form>");
    main.add(below);
    framed(visitor, "Tune", "/tune", &main)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(sql: &str, epsilons: &str, bounds: &str) -> Tried {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Tried {
            sql: sql.to_owned(),
            epsilons: words(epsilons),
            bounds: words(bounds),
            is_trial: true,
        }
    }

    #[test]
    fn a_bias_keeps_its_sign() {
        assert_eq!((signed(-1234.5), signed(0.25)), ("-1230".to_owned(), "0.250".to_owned()));
    }

    #[test]
    fn noise_and_bias_are_told_apart() {
        // Two groups: the first is off by 10 each time, the second by 1 in both directions.
        let told = summed(&[vec![10.0, 10.0], vec![1.0, -1.0]], 30);
        assert_eq!((told.bias, told.noise, told.lost), (5.0, 0.5_f64.sqrt(), 1.5));
    }

    #[test]
    fn only_numbers_and_words_are_put_in() {
        assert!(
            unusable(&tried("SELECT LAPLACE(eps={eps}) COUNT(*) FROM adult", "1 2", "")).is_none()
        );
        for (sql, epsilons, bounds) in [
            ("SELECT 1", "1", ""),
            ("SELECT {eps}", "", ""),
            ("SELECT {eps}", "1);DROP", ""),
            ("SELECT {eps} {bound}", "1", ""),
            ("SELECT {eps}", "1 2 3 4 5 6", ""),
        ] {
            assert!(unusable(&tried(sql, epsilons, bounds)).is_some(), "{sql}");
        }
    }
}
