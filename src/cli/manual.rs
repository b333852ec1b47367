//! The manual page, and completions for shells, from the arguments that the program reads.
//!
//! In: the description of the arguments. Out: text for a file.
//!
//! ```text
//! hushql man > /usr/local/share/man/man1/hushql.1
//! hushql completions bash > /etc/bash_completion.d/hushql
//! ```

use std::io;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::arguments::Arguments;

/// The parts of the manual page that the arguments do not cover, in `man` source.
const REST: &str = "\
.SH ENVIRONMENT
.TP
\\fBHUSHQL_ANALYST\\fR
The analyst who asks, if the command line names nobody.
.TP
\\fBHUSHQL_CONFIG\\fR
The configuration file; empty for none.
.TP
\\fBHUSHQL_PAGER\\fR, \\fBPAGER\\fR
The pager of the shell, for owners and the built-in tables.
.TP
\\fBNO_COLOR\\fR
If it is set and not empty, the shell uses no colours.
.SH FILES
.TP
\\fI~/.config/hushql/config.toml\\fR
Settings, one a line: analyst = \"lab\", format = \"expanded\", rows = 100, timing = true, pager = \"less\", history = false,
ascii = true. Only analyst holds outside of the shell.
";

/// The completions for a shell.
pub(super) fn completions(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "hushql", &mut text);
    text
}

/// The manual page as `man` source.
pub(super) fn page() -> io::Result<Vec<u8>> {
    let command = Arguments::command();
    let mut page = rendered(&command)?;
    // There is one page for all subcommands. Their arguments follow those of the program.
    for sub in command.get_subcommands() {
        let name = sub.get_name().to_owned();
        page = page.replace(&format!("hushql\\-{name}(1)"), &format!("\\fBhushql {name}\\fR"));
    }
    let page = page.replace("hushql\\-help(1)", "\\fBhushql help\\fR");
    Ok(format!("{page}{REST}").into_bytes())
}

fn rendered(command: &Command) -> io::Result<String> {
    let mut text = Vec::new();
    Man::new(command.clone()).render(&mut text)?;
    String::from_utf8(text).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_has_completions() {
        for shell in Shell::value_variants() {
            let text = String::from_utf8(completions(*shell)).unwrap();
            for word in ["hushql", "keep-going", "anchor"] {
                assert!(text.contains(word), "{shell}: {word}");
            }
        }
    }

    #[test]
    fn the_page_names_what_there_is() {
        let page = String::from_utf8(page().unwrap()).unwrap();
        for word in
            ["keep\\-going", "max\\-rows", "hushql demo", "ENVIRONMENT", "FILES", "HUSHQL_ANALYST"]
        {
            assert!(page.contains(word), "{word}\n{page}");
        }
        assert!(!page.contains("demo(1)"), "{page}");
    }
}
