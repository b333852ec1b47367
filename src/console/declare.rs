//! The owner's walk from a file to the first question: each step shows the statement that it will
//! run and what it means, before it runs.
//!
//! In: what the owner types. Out: drafted statements, from names and types alone. What a
//! declaration says when it fails is not shown, except for domains and budgets, because it may say
//! what the rows hold.
//!
//! ```text
//! file ─▶ who is a person, how many rows ─▶ domains ─▶ budget ─▶ a question          roles · findings
//! ```

use std::sync::Arc;

use http::StatusCode;
use hushql_vault::catalog::{quoted, quoted_analyst};
use tokio::sync::OwnedSemaphorePermit;

use super::answer_page::rows;
use super::form::{FormFields, encoded};
use super::frame::{framed, token};
use super::html::Html;
use super::presentation::{Drafted, PageTable};
use super::responses::{Answered, page, redirect};
use super::see::{cell, table_of};
use super::state::Console;
use super::statement::{self, Ran};
use super::visitors::Visitor;

/// The page of all tables, or of one.
pub(super) async fn walk(console: &Arc<Console>, visitor: &Arc<Visitor>, table: &str) -> Answered {
    let main = match table {
        "" => whole(console, visitor).await,
        table => of_table(console, visitor, table).await,
    };
    page(StatusCode::OK, framed(visitor, "Declare", "/declare", &main))
}

/// Begins a form for a step.
fn step(main: &mut Html, visitor: &Visitor, name: &'static str, table: &str) {
    main.markup("<form method=\"post\" action=\"/declare\">");
    token(main, visitor);
    main.open("input", &[("type", "hidden"), ("name", "step"), ("value", name)]);
    main.open("input", &[("type", "hidden"), ("name", "table"), ("value", table)]);
}

async fn whole(console: &Arc<Console>, visitor: &Arc<Visitor>) -> Html {
    let mut main = Html::default();
    main.markup("<h1>Declare</h1><p>From a file to a first question. Each step shows the statement that it will run. Suggestions follow from names and types alone: no row is shown.</p>");
    step(&mut main, visitor, "file", "");
    main.markup("<fieldset><legend>A file becomes a table</legend><label for=\"path\">Path of a file or a folder, as this machine knows it</label><input id=\"path\" name=\"typed\" placeholder=\"visits.csv\" spellcheck=\"false\" required><p class=\"note\">CSV, JSON, Parquet, Arrow, and what docs/formats.md lists.</p><button>Show the statement</button></fieldset></form>");
    let (session, presentation) = (&visitor.session, console.presentation);
    if let Some(all) = table_of(session, presentation, "SHOW TABLES").await
        && !all.rows.is_empty()
    {
        main.markup("<section><h2>Tables</h2><ul class=\"plain\">");
        for row in &all.rows {
            let (name, privacy) = (cell(&all, row, "table"), cell(&all, row, "privacy"));
            let to = format!("/declare/{}", encoded(name));
            main.markup("<li>").element("a", &[("href", &to)], name).markup(" ");
            main.element("span", &[("class", "note")], privacy).markup("</li>");
        }
        main.markup("</ul></section>");
    }
    main.markup("<section><h2>Who may ask</h2>");
    if let Some(roles) = table_of(session, presentation, "SHOW ROLES").await {
        main.add(&rows(&roles));
    }
    step(&mut main, visitor, "role", "");
    main.markup("<fieldset><legend>A new role</legend><label for=\"role\">Name</label><input id=\"role\" name=\"typed\" autocomplete=\"username\" spellcheck=\"false\" autocapitalize=\"none\" required><label for=\"new-password\">Password</label><input id=\"new-password\" name=\"password\" type=\"password\" autocomplete=\"new-password\" required minlength=\"8\"><p class=\"note\">It runs CREATE ROLE name LOGIN PASSWORD '…'; the vault keeps what proves the password, and never the password.</p><button>Create the role</button></fieldset></form></section>");
    if let Some(grants) = table_of(session, presentation, "SHOW GRANTS").await
        && !grants.rows.is_empty()
    {
        main.markup("<section><h2>What they may ask about</h2>").add(&rows(&grants));
        main.markup("</section>");
    }
    step(&mut main, visitor, "grant", "");
    main.markup("<fieldset><legend>A table for a role</legend><label for=\"grant-table\">Table</label><input id=\"grant-table\" name=\"typed\" spellcheck=\"false\" autocapitalize=\"none\" required><label for=\"grant-role\">Role</label><input id=\"grant-role\" name=\"role\" spellcheck=\"false\" autocapitalize=\"none\" required><p class=\"note\">Grants count once they are required: SET GRANTS REQUIRED.</p><button>Show the statement</button></fieldset></form>");
    step(&mut main, visitor, "slice", "");
    main.markup("<fieldset><legend>A part of a budget for a role</legend><label for=\"slice-budget\">Budget</label><input id=\"slice-budget\" name=\"budget\" spellcheck=\"false\" autocapitalize=\"none\" required><label for=\"slice-role\">Role</label><input id=\"slice-role\" name=\"role\" spellcheck=\"false\" autocapitalize=\"none\" required><label for=\"slice-limit\">ε of the part</label><input id=\"slice-limit\" name=\"typed\" inputmode=\"decimal\" required><button>Show the statement</button></fieldset></form>");
    let engine = console.porter.engine().clone();
    let found = tokio::task::spawn_blocking(move || engine.doctor()).await;
    if let Some(found) =
        found.ok().and_then(Result::ok).and_then(|found| (presentation.table)(&found))
    {
        main.markup("<section><h2>What to mend before others ask</h2>").add(&rows(&found));
        main.markup("</section>");
    }
    main
}

async fn of_table(console: &Arc<Console>, visitor: &Arc<Visitor>, table: &str) -> Html {
    let (session, presentation) = (&visitor.session, console.presentation);
    let mut main = Html::default();
    main.element("h1", &[], table);
    let all = table_of(session, presentation, "SHOW TABLES").await;
    let row = all.as_ref().and_then(|all| {
        let row = all.rows.iter().find(|row| cell(all, row, "table") == table)?;
        Some((all, row))
    });
    let Some((all, row)) = row else {
        main.markup("<p class=\"refusal\">There is no such table.</p>");
        return main;
    };
    let privacy = cell(all, row, "privacy");
    main.element("p", &[("class", "note")], &format!("Now: {privacy}"));
    let described = format!("DESCRIBE {}", quoted(table));
    let columns = table_of(session, presentation, &described).await;
    let drafts = drafts(console, visitor, table).await;
    if let Some(columns) = &columns {
        main.markup("<section><h2>What an analyst sees of it</h2>").add(&rows(columns));
        main.markup("</section>");
    }
    main.markup("<section>");
    if privacy.starts_with("undeclared") {
        unit(&mut main, visitor, table, (columns.as_ref(), &drafts));
        link(&mut main, visitor, table, (all, columns.as_ref()));
    } else if privacy.starts_with("private") {
        if let Some(columns) = &columns {
            domains(&mut main, console, visitor, table, (columns, &drafts));
        }
        let named = drafts.iter().find_map(|line| line.strip_prefix("CREATE PRIVACY BUDGET "));
        if named.is_some() {
            step(&mut main, visitor, "budget", table);
            main.markup("<fieldset><legend>How much may ever be learned about one person?</legend><label for=\"budget\">ε, by all analysts together: 0.1 is little, 1 usual, 10 protects hardly anyone</label><input id=\"budget\" name=\"typed\" value=\"1\" inputmode=\"decimal\"><p class=\"note\">Plain SQL then costs a tenth of it.</p><button>Show the statement</button></fieldset></form>");
        }
    }
    main.markup("</section>");
    if !privacy.starts_with("undeclared") {
        let to = format!("/ask?table={}", encoded(table));
        main.markup("<p>").element("a", &[("href", &to)], "Ask a first question").markup("</p>");
    }
    main.markup("<p><a href=\"/declare\">All tables</a></p>");
    main
}

/// The statements that SUGGEST drafts for a table, without those that are comments.
async fn drafts(console: &Arc<Console>, visitor: &Arc<Visitor>, table: &str) -> Vec<String> {
    let statement = format!("ALTER TABLE {} SUGGEST PRIVACY", quoted(table));
    let found = table_of(&visitor.session, console.presentation, &statement).await;
    let rows = found.map(|found| found.rows).unwrap_or_default();
    let lines = rows.into_iter().filter_map(|row| row.into_iter().next());
    lines.map(|cell| cell.text).filter(|line| !line.starts_with("--")).collect()
}

fn unit(
    main: &mut Html,
    visitor: &Visitor,
    table: &str,
    (columns, drafts): (Option<&PageTable>, &[String]),
) {
    step(main, visitor, "unit", table);
    main.markup("<fieldset><legend>Who is a person?</legend><p class=\"note\">All rows of one person are protected together.</p><label for=\"unit\">The column that names them</label><select id=\"unit\" name=\"typed\" required>");
    let begins = format!("ALTER TABLE {} SET PRIVACY UNIT ", quoted(table));
    let drafted = drafts.iter().find_map(|line| line.strip_prefix(begins.as_str()));
    let drafted = drafted.map(|rest| rest.trim_end_matches(';').to_owned());
    if let Some(drafted) = &drafted {
        main.element("option", &[("value", drafted)], &format!("{drafted} (suggested)"));
    } else {
        // Nobody becomes a row by not choosing.
        main.markup("<option value=\"\">choose …</option>");
    }
    main.markup("<option value=\"ROW\">no column: each row is another person</option><option value=\"PUBLIC\">no row is about a person: anybody may see them</option>");
    for row in columns.map(|all| all.rows.as_slice()).unwrap_or_default() {
        let name = row.first().map_or("", |cell| cell.text.as_str());
        let value = format!("({})", quoted(name));
        if drafted.as_deref() != Some(value.as_str()) {
            main.element("option", &[("value", &value)], name);
        }
    }
    main.markup("</select><label for=\"rows\">The most rows of a person, if a column names them: noise grows with it. 1 for one each, or nothing if you cannot say</label><input id=\"rows\" name=\"rows\" inputmode=\"numeric\"><p><button>Show the statement</button></p></fieldset></form>");
}

/// The form for a table whose rows belong to the people of another one.
fn link(
    main: &mut Html,
    visitor: &Visitor,
    table: &str,
    (all, columns): (&PageTable, Option<&PageTable>),
) {
    let others = all.rows.iter().filter(|row| cell(all, row, "privacy").starts_with("private"));
    let others: Vec<_> = others.map(|row| cell(all, row, "table")).collect();
    if others.is_empty() {
        return;
    }
    step(main, visitor, "link", table);
    main.markup("<fieldset><legend>Or: the people of another table</legend><p class=\"note\">A row then belongs to whom the row that it refers to belongs to.</p><label for=\"link\">The column that refers to it</label><select id=\"link\" name=\"typed\" required><option value=\"\">choose …</option>");
    for row in columns.map(|all| all.rows.as_slice()).unwrap_or_default() {
        let name = row.first().map_or("", |cell| cell.text.as_str());
        main.element("option", &[("value", name)], name);
    }
    main.markup("</select><label for=\"link-table\">The other table</label><select id=\"link-table\" name=\"other\" required><option value=\"\">choose …</option>");
    for name in others {
        main.element("option", &[("value", name)], name);
    }
    main.markup("</select><label for=\"link-key\">Its column with the same values</label><input id=\"link-key\" name=\"key\" spellcheck=\"false\" autocapitalize=\"none\" required><label for=\"link-rows\">The most rows of a person, or nothing if you cannot say</label><input id=\"link-rows\" name=\"rows\" inputmode=\"numeric\"><p><button>Show the statement</button></p></fieldset></form>");
}

fn domains(
    main: &mut Html,
    console: &Console,
    visitor: &Visitor,
    table: &str,
    (columns, drafts): (&PageTable, &[String]),
) {
    let mut is_first = true;
    for row in &columns.rows {
        let text =
            |at: usize| row.get(at).filter(|cell| !cell.is_null).map_or("", |cell| &cell.text);
        let (name, sql_type) = (text(0), text(1));
        let asked = (console.presentation.domain_asked)(sql_type);
        if !text(2).is_empty() || !text(3).is_empty() || asked == "no domain" {
            continue;
        }
        if is_first {
            main.markup("<h2>What may the columns hold?</h2><p class=\"note\">Write what you know without looking: analysts see it. A column that is skipped can be counted, and not added up or grouped by.</p>");
            is_first = false;
        }
        let begins = format!(
            "ALTER TABLE {} ALTER COLUMN {} SET PRIVACY DOMAIN ",
            quoted(table),
            quoted(name)
        );
        let drafted = drafts.iter().find_map(|line| line.strip_prefix(begins.as_str()));
        let drafted = drafted.unwrap_or_default().trim_end_matches(';');
        step(main, visitor, "domain", table);
        main.open("input", &[("type", "hidden"), ("name", "column"), ("value", name)]);
        main.open("input", &[("type", "hidden"), ("name", "type"), ("value", sql_type)]);
        let id = format!("domain-{name}");
        main.markup("<fieldset>").element("legend", &[], name);
        main.element("label", &[("for", &id)], asked);
        main.open("input", &[("id", &id), ("name", "typed"), ("value", drafted), ("required", "")]);
        main.markup("<p><button>Show the statement</button></p></fieldset></form>");
    }
}

/// What a step means, in a sentence.
fn meaning(step: &str) -> &'static str {
    match step {
        "file" => {
            "It declares where the rows are. Nothing is asked of them: until a unit is declared, every query about the table is refused."
        }
        "unit" | "link" => {
            "It says whose rows are protected together. Declared bounds are checked against the rows, for you alone; analysts see the declaration, and nothing else."
        }
        "domain" => {
            "It says what the column may hold. Analysts see it, and answers count on it; it is compared with the type alone, never with the rows."
        }
        "budget" => {
            "It limits what all answers together may reveal about one person. What is spent is never given back."
        }
        "grant" => {
            "Once grants are required, a role may ask about what is granted to it, and nothing else exists for it."
        }
        "slice" => {
            "A slice divides the limit and never extends it: the role may spend so much of it."
        }
        _ => "It runs as you see it.",
    }
}

/// The statement that a step drafts.
async fn drafted(console: &Arc<Console>, visitor: &Arc<Visitor>, fields: &FormFields) -> Drafted {
    let (table, typed) = (quoted(&fields.get("table")), fields.get("typed"));
    let presentation = console.presentation;
    match fields.get("step").as_str() {
        "file" => {
            let path = typed.trim().to_owned();
            let made = tokio::task::spawn_blocking(move || (presentation.table_of_file)(&path));
            made.await.unwrap_or_else(|_| Err("this path cannot be read".to_owned()))
        }
        "unit" if typed.is_empty() => Err("choose who is a person".to_owned()),
        "unit" if typed == "PUBLIC" => Ok(format!("ALTER TABLE {table} SET PUBLIC")),
        "unit" if typed == "ROW" => Ok(format!("ALTER TABLE {table} SET PRIVACY UNIT ROW")),
        "unit" => {
            let rows = (presentation.most_rows)(&fields.get("rows"))?;
            Ok(format!("ALTER TABLE {table} SET PRIVACY UNIT {typed}{rows}"))
        }
        "link" => {
            let [other, key] = ["other", "key"].map(|name| fields.get(name).trim().to_owned());
            if [&typed, &other, &key].iter().any(|name| name.is_empty()) {
                return Err("choose both columns and the other table".to_owned());
            }
            let rows = match (presentation.most_rows)(&fields.get("rows"))?.as_str() {
                // Of a link, only the number can be said.
                " UNIQUE" => " MAX ROWS 1".to_owned(),
                rows => rows.to_owned(),
            };
            let (column, other, key) = (quoted(&typed), quoted(&other), quoted(&key));
            let unit = format!("VIA ({column}) REFERENCES {other}({key})");
            Ok(format!("ALTER TABLE {table} SET PRIVACY UNIT {unit}{rows}"))
        }
        "domain" => {
            let clause = (presentation.domain)(&fields.get("type"), &typed)?;
            let column = quoted(&fields.get("column"));
            Ok(format!("ALTER TABLE {table} ALTER COLUMN {column} SET PRIVACY DOMAIN {clause}"))
        }
        "budget" => {
            let limits = (presentation.budget)(&typed)?;
            let lines = drafts(console, visitor, &fields.get("table")).await;
            let named = lines.iter().find_map(|line| line.strip_prefix("CREATE PRIVACY BUDGET "));
            let named = named.and_then(|rest| rest.split_once(" LIMIT "));
            let (named, _) = named.ok_or("this table has a budget already")?;
            Ok(format!("CREATE PRIVACY BUDGET {named} {limits}"))
        }
        "grant" => {
            let (to, table) = (quoted_analyst(fields.get("role").trim()), quoted(typed.trim()));
            Ok(format!("GRANT SELECT ON {table} TO {to}"))
        }
        "slice" => {
            let of = quoted_analyst(fields.get("role").trim());
            let limit = typed.trim();
            let is_number = limit.chars().all(|c| c.is_ascii_digit() || c == '.');
            if !is_number || limit.is_empty() {
                return Err(format!("`{limit}` is no ε: write a number, such as 0.5"));
            }
            let budget = quoted(fields.get("budget").trim());
            Ok(format!("ALTER PRIVACY BUDGET {budget} ADD SLICE {of} LIMIT (epsilon={limit})"))
        }
        _ => Err("there is no such step".to_owned()),
    }
}

/// Answers a form of the walk: shows the statement, or runs it.
pub(super) async fn sent(
    console: &Arc<Console>,
    visitor: &Arc<Visitor>,
    fields: &FormFields,
    place: OwnedSemaphorePermit,
) -> Answered {
    let (name, table) = (fields.get("step"), fields.get("table"));
    let back = match table.as_str() {
        "" => "/declare".to_owned(),
        table => format!("/declare/{}", encoded(table)),
    };
    if name == "role" {
        let (role, password) = (quoted(fields.get("typed").trim()), fields.get("password"));
        let sql = format!("CREATE ROLE {role} LOGIN PASSWORD '{}'", password.replace('\'', "''"));
        return done(console, visitor, (&sql, "role"), back, place).await;
    }
    let sql = fields.get("sql");
    if !sql.is_empty() {
        return done(console, visitor, (&sql, &name), back, place).await;
    }
    let mut main = Html::default();
    main.markup("<h1>Declare</h1>");
    let status = match drafted(console, visitor, fields).await {
        Ok(sql) => {
            main.markup("<section><h2>This statement will run</h2>");
            main.element("pre", &[("class", "sql")], &format!("{sql};"));
            main.element("p", &[], meaning(&name));
            main.markup("<form method=\"post\" action=\"/declare\">");
            token(&mut main, visitor);
            for (field, value) in [("step", &name), ("table", &table), ("sql", &sql)] {
                main.open("input", &[("type", "hidden"), ("name", field), ("value", value)]);
            }
            main.markup("<p class=\"buttons\"><button>Run it</button></p></form></section>");
            StatusCode::OK
        }
        Err(how) => {
            main.element("p", &[("class", "refusal"), ("role", "alert")], &how);
            StatusCode::UNPROCESSABLE_ENTITY
        }
    };
    main.markup("<p>").element("a", &[("href", &back)], "Back").markup("</p>");
    page(status, framed(visitor, "Declare", "/declare", &main))
}

/// Runs the statement of a step.
async fn done(
    console: &Arc<Console>,
    visitor: &Arc<Visitor>,
    (sql, name): (&str, &str),
    back: String,
    place: OwnedSemaphorePermit,
) -> Answered {
    let failed = match statement::run(console, visitor, sql, place).await {
        Ran::Failed(error) => error,
        Ran::NotOne(_) | Ran::Answer(_) | Ran::Text(_) | Ran::Done(_) => return redirect(&back),
    };
    let mut main = Html::default();
    main.markup("<h1>Declare</h1><section class=\"refusal\" role=\"alert\"><h2>Not declared</h2>");
    match name {
        // These are compared with types and declarations alone.
        "domain" | "budget" | "role" | "grant" | "slice" => {
            main.element("p", &[], &failed.message());
            if let Some(hint) = failed.hint() {
                main.element("pre", &[("class", "hint")], &hint);
            }
        }
        _ => {
            main.markup("<p>The data cannot be read so, or some person has more rows than that. What is wrong may name values, so it is said in a terminal alone, where the owner runs it:</p>");
            main.element("pre", &[("class", "sql")], sql);
        }
    }
    main.markup("</section><p>").element("a", &[("href", &back)], "Back").markup("</p>");
    page(StatusCode::UNPROCESSABLE_ENTITY, framed(visitor, "Declare", "/declare", &main))
}
