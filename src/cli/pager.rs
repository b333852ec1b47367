//! Pages through texts that are longer than the terminal, with a program such as `less`.
//!
//! In: a command and a text. Out: the text on the terminal, page by page. A pager can run other
//! programs and read files. So the shell of an analyst has one only if the configuration names it;
//! see `config`.
//!
//! ```text
//! pager = less -S  →  sh -c "less -S" < the answer
//! ```

use std::io::Write;
use std::process::{Command, Stdio};

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Screen {
    pub(super) width: u16,
    pub(super) height: u16,
}

/// The default pager.
pub(super) const USUAL: &str = "less";

/// The pager that the environment names, or the default one.
pub(super) fn from_environment() -> String {
    let named = ["HUSHQL_PAGER", "PAGER"].iter().find_map(|name| std::env::var(name).ok());
    named.filter(|program| !program.trim().is_empty()).unwrap_or_else(|| USUAL.to_owned())
}

/// Whether a text and the prompt below it fit on a terminal.
pub(super) fn fits(text: &str, screen: Screen) -> bool {
    let height = usize::from(screen.height.saturating_sub(1));
    let width = usize::from(screen.width);
    text.lines().count() <= height && text.lines().all(|line| line.chars().count() <= width)
}

/// Shows a text in a pager until the user leaves it. Returns whether the pager ran.
pub(super) fn page(program: &str, text: &str) -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", program]).stdin(Stdio::piped());
    // These options scroll long lines sideways, keep the text on the terminal, and open no other
    // program or file.
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRSX");
    }
    command.env("LESSCHARSET", "utf-8").env("LESSSECURE", "1");
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(mut input) = child.stdin.take() {
        // If the user leaves the pager early, the write fails, which is fine.
        let _ = input.write_all(text.as_bytes()).and_then(|()| input.write_all(b"\n"));
    }
    // 126 and 127 mean that the program cannot be run, or does not exist.
    child.wait().is_ok_and(|status| !matches!(status.code(), Some(126 | 127)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_not_paged() {
        let screen = Screen { width: 4, height: 3 };
        assert!(fits("abcd\nε", screen));
        assert!(!fits("abcde", screen));
        assert!(!fits("a\nb\nc", screen));
    }

    #[test]
    fn a_pager_that_is_not_there_shows_nothing() {
        assert!(page("cat > /dev/null", "x"));
        assert!(page("true", &"x\n".repeat(100_000)), "left early");
        assert!(!page("no-such-pager 2> /dev/null", "x"));
    }
}
