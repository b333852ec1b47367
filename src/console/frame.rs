//! The frame of every page: its head, the way around, and who is logged in.

use super::html::Html;
use super::visitors::Visitor;

/// The pages, each with its path.
const PAGES: [(&str, &str); 6] = [
    ("/ask", "Ask"),
    ("/tune", "Tune"),
    ("/budgets", "Budgets"),
    ("/history", "History"),
    ("/tables", "Tables"),
    ("/declare", "Declare"),
];

/// A page for someone who is logged in. The title names the page alone, never a value.
pub(super) fn framed(visitor: &Visitor, title: &'static str, path: &str, main: &Html) -> Html {
    let mut page = head(title);
    page.markup("<header><a class=\"skip\" href=\"#main\">To the content</a><nav aria-label=\"Pages\"><span class=\"brand\">HushQL</span>");
    for (to, name) in PAGES {
        // Only the owner declares.
        if to == "/declare" && visitor.role.is_some() {
            continue;
        }
        match to == path {
            true => page.element("a", &[("href", to), ("aria-current", "page")], name),
            false => page.element("a", &[("href", to)], name),
        };
    }
    page.markup("</nav><form method=\"post\" action=\"/log-out\">");
    token(&mut page, visitor);
    page.element("span", &[("class", "who")], visitor.role.as_deref().unwrap_or("owner"));
    page.markup("<button class=\"quiet\">Log out</button></form></header>");
    page.markup("<main id=\"main\">").add(main).markup("</main></body></html>\n");
    page
}

/// A page for anybody.
pub(super) fn bare(title: &'static str, main: &Html) -> Html {
    let mut page = head(title);
    page.markup("<main id=\"main\" class=\"narrow\">").add(main).markup("</main></body></html>\n");
    page
}

fn head(title: &'static str) -> Html {
    let mut page = Html::default();
    page.markup("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">");
    page.open("title", &[]).markup(title).markup(" · HushQL</title><link rel=\"stylesheet\" href=\"/assets/console.css\"><script src=\"/assets/console.js\" defer></script></head><body>");
    page
}

/// The hidden field that every form carries.
pub(super) fn token(page: &mut Html, visitor: &Visitor) {
    page.open("input", &[("type", "hidden"), ("name", "token"), ("value", &visitor.form_token)]);
}
