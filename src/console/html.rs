//! Pages as text, in which every value is escaped.
//!
//! In: tags and attributes, which the program's own text holds, and values, which come from people.
//! Out: HTML. Only literals of the source can be markup; every other text passes [`escaped`].
//!
//! ```text
//! element("td", &[], "<script>")   →   <td>&lt;script&gt;</td>
//! ```

use hushql_engine::visible;

/// HTML.
#[derive(Debug, Clone, Default)]
pub(super) struct Html(String);

/// The attributes of an element.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a str)];

impl Html {
    /// Adds markup of the program itself.
    pub(super) fn markup(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds a text.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.0.push_str(&escaped(text));
        self
    }

    /// Begins an element.
    pub(super) fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) -> &mut Self {
        self.0.push('<');
        self.0.push_str(tag);
        for (name, value) in attributes {
            self.0.push(' ');
            self.0.push_str(name);
            self.0.push_str("=\"");
            self.0.push_str(&escaped(value));
            self.0.push('"');
        }
        self.0.push('>');
        self
    }

    /// Ends an element.
    pub(super) fn close(&mut self, tag: &'static str) -> &mut Self {
        self.0.push_str("</");
        self.0.push_str(tag);
        self.0.push('>');
        self
    }

    /// Adds an element that holds a text.
    pub(super) fn element(
        &mut self,
        tag: &'static str,
        attributes: Attributes<'_>,
        text: &str,
    ) -> &mut Self {
        self.open(tag, attributes).text(text).close(tag)
    }

    /// Adds other HTML.
    pub(super) fn add(&mut self, other: &Self) -> &mut Self {
        self.0.push_str(&other.0);
        self
    }

    /// Whether there is nothing yet.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text of the page.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// A text in HTML, within an element or a quoted attribute. Characters that control a display are
/// spelled out.
fn escaped(text: &str) -> String {
    visible::markup(&visible::lines(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup() {
        let hostile = "</td><script>alert('x')</script>\" onload=\"y&\u{202e}\0";
        let mut page = Html::default();
        page.element("td", &[("title", hostile)], hostile);
        let page = page.into_text();
        let safe = "&lt;/td&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot; onload=&quot;y&amp;\\u{202e}\\u{0}";
        assert_eq!(page, format!("<td title=\"{safe}\">{safe}</td>"));
    }
}
