//! The statements of budgets as a text, or as one page of HTML.
//!
//! In: the statements. Out: a text in lines of 100 letters, or a page that needs nothing else: no
//! script, no link, no picture. Names may be hostile, so every text is escaped.
//!
//! ```text
//! "<b>"   →   &lt;b&gt;
//! ```

use crate::owner::privacy_statement::PrivacyStatement;
use crate::visible;

/// The width of a text.
const WIDTH: usize = 100;

/// The statements as a text.
pub(crate) fn text(statements: &[PrivacyStatement]) -> String {
    let mut page = String::new();
    for statement in statements {
        let title = format!("Privacy statement of {}", statement.state.budget.name);
        let title = visible::line(&title).into_owned();
        if !page.is_empty() {
            page.push('\n');
        }
        page += &format!("{title}\n{}\n", "=".repeat(title.chars().count()));
        let mut before = "";
        for (heading, sentence) in &statement.sentences {
            if *heading != before {
                page += &format!("\n{}\n", capital(heading));
                before = heading;
            }
            page += &wrapped(&visible::line(sentence));
        }
    }
    page
}

/// One sentence in lines of the width, as an item of a list.
fn wrapped(sentence: &str) -> String {
    let (mut lines, mut line) = (String::new(), "  -".to_owned());
    for word in sentence.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines += &line;
            lines.push('\n');
            line = "   ".to_owned();
        }
        line.push(' ');
        line += word;
    }
    lines + &line + "\n"
}

/// The statements as a page.
pub(crate) fn page(statements: &[PrivacyStatement]) -> String {
    let mut body = String::new();
    for statement in statements {
        body +=
            &format!("<h1>Privacy statement of {}</h1>\n", escaped(&statement.state.budget.name));
        let mut before = "";
        for (heading, sentence) in &statement.sentences {
            if *heading != before {
                let end = if before.is_empty() { "" } else { "</ul>\n" };
                body += &format!("{end}<h2>{}</h2>\n<ul>\n", escaped(&capital(heading)));
                before = heading;
            }
            body += &format!("<li>{}</li>\n", escaped(sentence));
        }
        body += "</ul>\n";
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>Privacy statement</title>\n<style>body{{max-width:44em;margin:2em auto;padding:0 1em;font:1em/1.5 sans-serif;color:#222;background:#fff}}h1{{font-size:1.5em}}h2{{font-size:1.1em}}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

/// A text that HTML shows as it is.
fn escaped(text: &str) -> String {
    visible::markup(&visible::line(text))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
