//! The pages that show: budgets, the history of what was asked, tables, and stored answers. Each
//! shows what SHOW shows to the same role, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::StatusCode;
use hushql::{Answer, BudgetState, Error, Output, Session};
use hushql_engine::visible::rounded;
use hushql_privacy::privacy::Notion;
use hushql_vault::catalog::quoted;

use super::answer_page::rows;
use super::form::encoded;
use super::frame::{framed, token};
use super::html::Html;
use super::links::{self, LinkedTable};
use super::presentation::{PageCell, PageTable, Presentation};
use super::responses::{Answered, body, page, sentence};
use super::state::Console;
use super::visitors::Visitor;

/// The answer of a statement that costs nothing.
async fn shown(session: &Session, statement: &str) -> Result<Option<Answer>, Error> {
    Ok(match session.execute(statement).await? {
        Output::Answer(answer) => Some(answer),
        _ => None,
    })
}

/// The answer of a statement as a table.
pub(super) async fn table_of(
    session: &Session,
    presentation: Presentation,
    statement: &str,
) -> Option<PageTable> {
    let answer = shown(session, statement).await.ok().flatten()?;
    (presentation.table)(&answer)
}

/// The text in a column of a row.
pub(super) fn cell<'a>(table: &PageTable, row: &'a [PageCell], column: &str) -> &'a str {
    let at = table.columns.iter().position(|one| one.name == column);
    let cell = at.and_then(|at| row.get(at)).filter(|cell| !cell.is_null);
    cell.map_or("", |cell| cell.text.as_str())
}

/// A part of a page that one statement answers, under a heading; nothing if it has no rows, or is
/// not for this role.
async fn part(main: &mut Html, title: &'static str, of: (&Visitor, Presentation), statement: &str) {
    let (visitor, presentation) = of;
    let Some(table) = table_of(&visitor.session, presentation, statement).await else { return };
    if !table.rows.is_empty() {
        main.markup("<section>").element("h2", &[], title).add(&rows(&table)).markup("</section>");
    }
}

/// What budgets have spent and left.
pub(super) async fn budgets(console: &Arc<Console>, visitor: &Arc<Visitor>) -> Answered {
    let mut main = Html::default();
    main.markup("<h1>Budgets</h1>");
    let states = visitor.session.budgets().unwrap_or_default();
    if states.is_empty() {
        main.markup(
            "<p class=\"note\">No budget is declared, so nothing private can be asked.</p>",
        );
    }
    main.markup("<div class=\"cards\">");
    let fitting = fitting(visitor, console.presentation, &states).await;
    for (state, fitting) in states.iter().zip(fitting) {
        // A role with a share of its own sees the limit of the share.
        let limit = match state.slices.as_slice() {
            [share] => share.limit,
            _ => state.budget.limit,
        };
        let name = &state.budget.name;
        main.markup("<div class=\"card\">").element("h2", &[], name);
        main.element("p", &[("class", "cost")], &format!("{} left", state.left.neat_down()));
        let (spent, all) = (state.spent.loss_text(), limit.loss_text());
        let label = format!("{name}: {} spent of {limit}", state.spent.neat_up());
        main.open("progress", &[("value", &spent), ("max", &all), ("aria-label", &label)]);
        main.close("progress");
        main.element(
            "p",
            &[("class", "note")],
            &format!("{} spent of {limit}", state.spent.neat_up()),
        );
        if let Some(fitting) = fitting {
            main.element("p", &[("class", "note")], &fitting);
        }
        main.markup("</div>");
    }
    main.markup("</div>");
    let presentation = console.presentation;
    let days = visitor.session.spending().unwrap_or_default();
    if (presentation.spending)(&states, &days).is_some() {
        main.markup("<section><h2>Day by day</h2><figure tabindex=\"0\"><img class=\"chart\" src=\"/budgets.svg\" alt=\"Chart of what was spent, day by day: the tables have its numbers\"></figure></section>");
    }
    let of = (visitor.as_ref(), presentation);
    part(&mut main, "Limits and forecast", of, "SHOW PRIVACY BUDGET").await;
    part(&mut main, "By analyst", of, "SHOW PRIVACY BUDGET BY ANALYST").await;
    part(&mut main, "By day", of, "SHOW PRIVACY BUDGET BY DAY").await;
    page(StatusCode::OK, framed(visitor, "Budgets", "/budgets", &main))
}

/// The picture of what was spent.
pub(super) fn spending(console: &Console, visitor: &Visitor) -> Answered {
    let states = visitor.session.budgets().unwrap_or_default();
    let days = visitor.session.spending().unwrap_or_default();
    match (console.presentation.spending)(&states, &days) {
        Some(chart) => body(StatusCode::OK, "image/svg+xml", chart),
        None => sentence(StatusCode::NOT_FOUND, "there is nothing to draw"),
    }
}

/// What was asked and charged, and the answers of this session.
pub(super) async fn history(console: &Arc<Console>, visitor: &Arc<Visitor>) -> Answered {
    let mut main = Html::default();
    main.markup("<h1>History</h1>");
    let seen = visitor.all_seen();
    if !seen.is_empty() {
        main.markup("<section><h2>Answers of this session</h2><ul class=\"plain\">");
        for one in &seen {
            let to = format!("/answers/{}#answer", one.number);
            let cost = one.answer.receipt().map(|receipt| receipt.spent.neat().to_string());
            main.markup("<li>").open("a", &[("href", &to)]);
            main.element("code", &[], &one.sql).close("a").markup(" ");
            main.text(cost.as_deref().unwrap_or("for nothing")).markup("</li>");
        }
        main.markup("</ul></section>");
    }
    let of = (visitor.as_ref(), console.presentation);
    // Its own charges, also where the ledger shows a role those of others.
    let own = visitor
        .role
        .as_ref()
        .map_or_else(String::new, |role| format!(" AND analyst = '{}'", role.replace('\'', "''")));
    let charges = format!(
        "SELECT charge, MIN(time) AS time, MIN(analyst) AS analyst, MIN(cost) AS cost, MIN(statement) AS statement FROM hushql.ledger WHERE kind <> 'kept'{own} GROUP BY charge ORDER BY charge DESC LIMIT 200"
    );
    if let Some(found) = table_of(&visitor.session, console.presentation, &charges).await
        && !found.rows.is_empty()
    {
        main.markup("<section><h2>Charges</h2><p class=\"note\">Asked again in the same words, a question whose answer is kept shows it for nothing.</p>");
        main.add(&charged(visitor, &found)).markup("</section>");
    }
    part(&mut main, "Declarations", of, "SHOW PRIVACY HISTORY").await;
    main.markup("<p class=\"note\">Roles see their own charges here, the owner sees all.</p>");
    page(StatusCode::OK, framed(visitor, "History", "/history", &main))
}

/// Charges, each with a button that puts its statement into the editor.
fn charged(visitor: &Visitor, found: &PageTable) -> Html {
    let mut part = Html::default();
    part.markup("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Charges\"><table><thead><tr><th scope=\"col\">charge</th><th scope=\"col\">time</th><th scope=\"col\">analyst</th><th scope=\"col\">cost</th><th scope=\"col\">statement</th><th scope=\"col\">again</th></tr></thead><tbody>");
    for row in &found.rows {
        part.markup("<tr>");
        for column in ["charge", "time", "analyst", "cost"] {
            part.element("td", &[("class", "short")], cell(found, row, column));
        }
        let statement = cell(found, row, "statement");
        part.element("td", &[("class", "long")], statement).markup("<td>");
        if !statement.is_empty() {
            part.markup("<form method=\"post\" action=\"/ask\"><input type=\"hidden\" name=\"do\" value=\"edit\">");
            token(&mut part, visitor);
            part.open("input", &[("type", "hidden"), ("name", "sql"), ("value", statement)]);
            let label = format!("Ask again: charge {}", cell(found, row, "charge"));
            part.element("button", &[("class", "quiet"), ("aria-label", &label)], "Ask again");
            part.markup("</form>");
        }
        part.markup("</td></tr>");
    }
    part.markup("</tbody></table></div>");
    part
}

/// For each budget, how many questions of today's median price still fit, by what the ledger shows
/// this visitor.
async fn fitting(
    visitor: &Visitor,
    presentation: Presentation,
    states: &[BudgetState],
) -> Vec<Option<String>> {
    let today = "SELECT charge, budgets, epsilon, rho FROM hushql.ledger WHERE kind = 'paid' AND time >= CURRENT_DATE";
    let found = table_of(&visitor.session, presentation, today).await;
    let of = |state: &BudgetState| {
        let found = found.as_ref()?;
        let column = match state.budget.limit.notion {
            Notion::Approximate => "epsilon",
            Notion::Concentrated => "rho",
            Notion::Coupons => return None,
        };
        let mut prices: BTreeMap<&str, f64> = BTreeMap::new();
        for row in &found.rows {
            let mut budgets = cell(found, row, "budgets").split(", ");
            if budgets.any(|name| name == state.budget.name) {
                let price: f64 = cell(found, row, column).parse().ok()?;
                *prices.entry(cell(found, row, "charge")).or_default() += price;
            }
        }
        let left: f64 = state.left.loss_text().parse().ok()?;
        told_to_fit(prices.into_values().collect(), left)
    };
    states.iter().map(of).collect()
}

/// How many of the median price fit into what is left.
fn told_to_fit(mut prices: Vec<f64>, left: f64) -> Option<String> {
    prices.sort_by(f64::total_cmp);
    let median = *prices.get(prices.len().checked_sub(1)? / 2)?;
    if median <= 0.0 {
        return None;
    }
    // Amounts are whole billionths, so that less than half of one is rounding.
    let number = ((left + 5e-10) / median).floor();
    Some(format!("{number} more questions of today's median price ({}) fit", rounded(median)))
}

/// The tables that this visitor sees, with the tables that each leads to.
async fn linked(visitor: &Visitor, presentation: Presentation) -> Vec<LinkedTable> {
    let session = &visitor.session;
    let Some(all) = table_of(session, presentation, "SHOW TABLES").await else {
        return Vec::new();
    };
    let names: Vec<&str> = all.rows.iter().map(|row| cell(&all, row, "table")).collect();
    let mut tables = Vec::with_capacity(names.len());
    for row in &all.rows {
        let name = cell(&all, row, "table");
        let columns = format!("SHOW COLUMNS FROM {}", quoted(name));
        let columns = table_of(session, presentation, &columns).await;
        let roles = columns.iter().flat_map(|columns| {
            columns
                .rows
                .iter()
                .filter_map(|row| cell(columns, row, "role").strip_prefix("leads to "))
        });
        let mut leads_to: Vec<String> =
            roles.filter(|to| names.contains(to)).map(str::to_owned).collect();
        leads_to.dedup();
        let privacy = cell(&all, row, "privacy").to_owned();
        tables.push(LinkedTable { name: name.to_owned(), privacy, leads_to });
    }
    tables
}

/// The picture of the links between tables.
pub(super) async fn links(console: &Arc<Console>, visitor: &Arc<Visitor>) -> Answered {
    match links::picture(&linked(visitor, console.presentation).await) {
        Some(picture) => body(StatusCode::OK, "image/svg+xml", picture),
        None => sentence(StatusCode::NOT_FOUND, "there is nothing to draw"),
    }
}

/// The tables that may be asked, with their columns.
pub(super) async fn tables(console: &Arc<Console>, visitor: &Arc<Visitor>) -> Answered {
    let mut main = Html::default();
    main.markup("<h1>Tables</h1>");
    let (session, presentation) = (&visitor.session, console.presentation);
    let Some(all) = table_of(session, presentation, "SHOW TABLES").await else {
        return sentence(StatusCode::SERVICE_UNAVAILABLE, "the vault cannot be read");
    };
    if all.rows.is_empty() {
        main.markup("<p class=\"note\">There is no table yet.</p>");
    }
    let linked = linked(visitor, presentation).await;
    if links::picture(&linked).is_some() {
        main.markup("<section><h2>How they are linked</h2><figure tabindex=\"0\">");
        let told = links::told(&linked);
        main.open("img", &[("src", "/links.svg"), ("alt", &told), ("class", "links")]);
        main.markup("</figure></section>");
    }
    for row in &all.rows {
        let (name, privacy) = (cell(&all, row, "table"), cell(&all, row, "privacy"));
        main.markup("<section class=\"card\">").element("h2", &[], name);
        main.element("p", &[("class", "note")], privacy);
        let columns = format!("SHOW COLUMNS FROM {}", quoted(name));
        if let Some(columns) = table_of(session, presentation, &columns).await {
            main.add(&rows(&columns));
        }
        for statement in ["SHOW RELEASE TABLE", "SHOW SYNTHETIC TABLE"] {
            let statement = format!("{statement} {}", quoted(name));
            if let Some(about) = table_of(session, presentation, &statement).await {
                main.markup("<h3>How it was made, and how far off it is</h3>").add(&rows(&about));
            }
        }
        let to = format!("/ask?table={}", encoded(name));
        main.markup("<p>").element("a", &[("href", &to)], "Ask about it").markup("</p></section>");
    }
    page(StatusCode::OK, framed(visitor, "Tables", "/tables", &main))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_price_fits_so_often() {
        let told = told_to_fit(vec![1.0, 0.1, 0.1], 0.3).unwrap();
        assert_eq!(told, "3 more questions of today's median price (0.100) fit");
        assert_eq!(told_to_fit(Vec::new(), 1.0), None);
        assert_eq!(told_to_fit(vec![0.0], 1.0), None);
    }
}
