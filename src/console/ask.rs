//! The page on which one asks: an editor, the price beside it, and the answer below.

use std::sync::Arc;

use http::StatusCode;
use tokio::sync::OwnedSemaphorePermit;

use super::answer_page;
use super::form::FormFields;
use super::frame::{framed, token};
use super::html::Html;
use super::responses::{Answered, body, file, page, redirect, sentence};
use super::state::Console;
use super::statement::{self, Ran};
use super::visitors::Visitor;

/// The page with nothing asked yet, or with a first question about a table.
pub(super) async fn empty(visitor: &Arc<Visitor>, table: &str) -> Answered {
    let asking = Arc::clone(visitor);
    let tables = tokio::task::spawn_blocking(move || asking.session.tables()).await;
    let tables = tables.ok().and_then(Result::ok).unwrap_or_default();
    let named = tables.iter().find(|(name, _)| name == table);
    let sql = named.map(|(name, _)| {
        format!(
            "SELECT LAPLACE(eps=0.1) COUNT(*) AS n\nFROM {}",
            hushql_vault::catalog::quoted(name)
        )
    });
    let mut below = Html::default();
    if sql.is_none() && !tables.is_empty() {
        below.markup("<p class=\"note\">Start with a table: ");
        for (name, _) in &tables {
            let to = format!("/ask?table={}", super::form::encoded(name));
            below.element("a", &[("href", &to)], name).markup(" ");
        }
        below.markup("</p>");
    }
    let asking = Arc::clone(visitor);
    let templates = tokio::task::spawn_blocking(move || asking.session.templates()).await;
    let templates = templates.ok().and_then(Result::ok).unwrap_or_default();
    if sql.is_none() && !templates.is_empty() {
        below.markup("<p class=\"note\">Or ask what its owner prepared: ");
        for template in &templates {
            below.element("code", &[], &template.example).markup(" ");
        }
        below.markup("</p>");
    }
    page(StatusCode::OK, asking_page(visitor, &sql.unwrap_or_default(), &below))
}

/// An editor with a text, and what came of it below.
fn asking_page(visitor: &Visitor, sql: &str, below: &Html) -> Html {
    let mut main = Html::default();
    main.markup("<h1>Ask</h1><div class=\"asking\"><form id=\"ask\" method=\"post\" action=\"/ask\" class=\"editor\"><label for=\"sql\">Statement</label>");
    token(&mut main, visitor);
    main.markup("<div class=\"typed\"><textarea id=\"sql\" name=\"sql\" rows=\"8\" spellcheck=\"false\" autocapitalize=\"none\" autocomplete=\"off\" aria-describedby=\"keys\"");
    // Below it, there is something to read first.
    main.markup(if below.is_empty() { " autofocus>\n" } else { ">\n" });
    main.text(sql);
    main.markup("</textarea><ul id=\"words\" role=\"listbox\" aria-label=\"Completions\" hidden></ul></div><pre id=\"place\" aria-live=\"polite\" hidden></pre><p id=\"keys\" class=\"note\">Ctrl+Enter runs it; Ctrl+Space completes a word.</p><p class=\"buttons\"><button name=\"do\" value=\"run\">Run</button> <button name=\"do\" value=\"explain\" class=\"quiet\">Explain for nothing</button></p></form>");
    main.markup("<aside id=\"price\" aria-label=\"Price\" aria-live=\"polite\"><h2>Price</h2><div id=\"priced\"><p class=\"note\">What a statement costs, and how far off its answer will be, stands here while you type. Nothing is charged before it runs.</p><noscript><p>Without scripts: press <em>Explain for nothing</em>.</p></noscript></div><div id=\"dial\" hidden><label for=\"factor\">ε <output id=\"epsilon\"></output></label><input id=\"factor\" type=\"range\" min=\"-4\" max=\"4\" step=\"0.1\" value=\"0\"><svg id=\"curve\" viewBox=\"0 0 320 170\" role=\"img\" aria-label=\"Error by cost\"></svg><label for=\"within\">Within ± <input id=\"within\" type=\"number\" min=\"0\" step=\"any\"></label></div></aside></div>");
    main.add(below);
    framed(visitor, "Ask", "/ask", &main)
}

/// Answers the form of the editor.
pub(super) async fn sent(
    console: &Arc<Console>,
    visitor: &Arc<Visitor>,
    fields: &FormFields,
    place: OwnedSemaphorePermit,
) -> Answered {
    let sql = fields.get("sql");
    if sql.trim().is_empty() {
        return redirect("/ask");
    }
    let sql = match fields.get("do").as_str() {
        "edit" => return page(StatusCode::OK, asking_page(visitor, &sql, &Html::default())),
        "explain" => return explained(console, visitor, &sql, place).await,
        _ => sql,
    };
    match statement::run(console, visitor, &sql, place).await {
        Ran::Answer(number) => redirect(&format!("/answers/{number}#answer")),
        Ran::Done(done) => {
            let mut below = Html::default();
            below.element(
                "p",
                &[("id", "answer"), ("class", "receipt"), ("role", "status")],
                &done,
            );
            page(StatusCode::OK, asking_page(visitor, "", &below))
        }
        ran => not_answered(visitor, &sql, &sql, ran).await,
    }
}

/// The explanation of a statement, which charges nothing.
async fn explained(
    console: &Arc<Console>,
    visitor: &Arc<Visitor>,
    sql: &str,
    place: OwnedSemaphorePermit,
) -> Answered {
    let explaining = format!("EXPLAIN PRIVACY {sql}");
    let ran = statement::run(console, visitor, &explaining, place).await;
    not_answered(visitor, sql, &explaining, ran).await
}

/// A text, or why there is no answer. `ran` is what came of `run`.
async fn not_answered(visitor: &Arc<Visitor>, sql: &str, run: &str, ran: Ran) -> Answered {
    let mut below = Html::default();
    let status = match ran {
        Ran::Text(text) => {
            below.markup("<section id=\"answer\"><h2>Explanation</h2>");
            below.element("pre", &[("class", "explanation"), ("tabindex", "0")], &text);
            below.markup("</section>");
            StatusCode::OK
        }
        Ran::Failed(error) => {
            // What a hint says is tried, which plans it.
            let (visitor, run) = (Arc::clone(visitor), run.to_owned());
            let refused = move || answer_page::refusal(&visitor, &run, &error);
            match tokio::task::spawn_blocking(refused).await {
                Ok(refused) => below = refused,
                Err(_) => {
                    below.markup("<p class=\"refusal\">This statement was not answered.</p>");
                }
            }
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Ran::NotOne(count) => {
            let said = match count {
                0 => "there is no statement: write one",
                _ => "write one statement at a time: each has its own price and its own answer",
            };
            below.element("p", &[("id", "answer"), ("class", "refusal"), ("role", "alert")], said);
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Ran::Answer(number) => return redirect(&format!("/answers/{number}#answer")),
        Ran::Done(_) => StatusCode::OK,
    };
    page(status, asking_page(visitor, sql, &below))
}

/// An answer that this session saw, as a page or a file: `3`, `3.csv`, `3.json`, `3.parquet` or
/// `3.svg`.
pub(super) async fn seen(console: &Arc<Console>, visitor: &Arc<Visitor>, name: &str) -> Answered {
    let (number, ending) = name.split_once('.').unwrap_or((name, ""));
    let Some(seen) = number.parse().ok().and_then(|number| visitor.seen(number)) else {
        let mut below = Html::default();
        below.markup("<p id=\"answer\" class=\"note\">This answer is not kept any more. Asked again in the same words, a question that was paid for is answered for nothing.</p>");
        return page(StatusCode::NOT_FOUND, asking_page(visitor, "", &below));
    };
    let (presentation, visitor, ending) =
        (console.presentation, Arc::clone(visitor), ending.to_owned());
    let writing = move || {
        let of = |content: Option<Vec<u8>>, kind: &'static str, name: &str| match content {
            Some(content) => file(kind, name, content),
            None => sentence(StatusCode::NOT_FOUND, "this answer cannot be written so"),
        };
        match ending.as_str() {
            "" => {
                let below = answer_page::answer(&seen, &presentation);
                page(StatusCode::OK, asking_page(&visitor, &seen.sql, &below))
            }
            "csv" => {
                let csv = (presentation.csv)(&seen.answer).map(String::into_bytes);
                of(csv, "text/csv; charset=utf-8", "answer.csv")
            }
            "json" => {
                let json = (presentation.json)(&seen.answer).map(String::into_bytes);
                of(json, "application/json", "answer.json")
            }
            "parquet" => {
                let parquet = (presentation.parquet)(&seen.answer);
                of(parquet, "application/vnd.apache.parquet", "answer.parquet")
            }
            "svg" => match (presentation.chart)(&seen.answer) {
                Some(chart) => body(StatusCode::OK, "image/svg+xml", chart),
                None => sentence(StatusCode::NOT_FOUND, "there is nothing to draw"),
            },
            _ => sentence(StatusCode::NOT_FOUND, "there is no such file"),
        }
    };
    tokio::task::spawn_blocking(writing).await.unwrap_or_else(|_| {
        sentence(StatusCode::INTERNAL_SERVER_ERROR, "this page cannot be written")
    })
}
