//! The spinner for statements that take longer than a second.
//!
//! In: the time, and the share of its files that a statement has read, if the session may show
//! that. Out: a line on a terminal's standard error that disappears when the statement ends. For
//! private tables, an analyst sees only the time, because the pace of reading would reveal the
//! number of rows.
//!
//! ```text
//! ⠙ running 3s          ⠙ running 3s (42 % read)          ⠙ running 3s (7 rounds, 40 % of the budget spent)
//! ```

use std::convert::Infallible;
use std::future::pending;
use std::io::IsTerminal;
use std::time::Duration;

use hushql::Session;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// Shows the spinner after a second, as long as the future is polled. The future never ends by
/// itself.
pub(super) async fn spin(session: &Session) -> Infallible {
    if !std::io::stderr().is_terminal() {
        return pending().await;
    }
    tokio::time::sleep(PATIENCE).await;
    let visible = Visible::new();
    loop {
        visible.0.set_message(message(session));
        tokio::time::sleep(TICK).await;
    }
}

/// The text after the time.
fn message(session: &Session) -> String {
    match (session.rounds(), session.progress()) {
        (Some(done), _) => said_of_rounds(done.rounds, done.percent),
        (None, Some(percent)) => format!("({percent} % read)"),
        (None, None) => String::new(),
    }
}

fn said_of_rounds(rounds: u32, percent: u8) -> String {
    let rounds = if rounds == 1 { "1 round".to_owned() } else { format!("{rounds} rounds") };
    format!("({rounds}, {percent} % of the budget spent)")
}

/// A spinner that leaves no trace when it is dropped, even by cancellation.
struct Visible(ProgressBar);

impl Visible {
    fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let bar = bar.with_elapsed(PATIENCE);
        let bar = match ProgressStyle::with_template("{spinner} running {elapsed} {msg}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        bar.enable_steady_tick(TICK);
        Self(bar)
    }
}

impl Drop for Visible {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_counted() {
        assert_eq!(said_of_rounds(1, 12), "(1 round, 12 % of the budget spent)");
        assert_eq!(said_of_rounds(7, 100), "(7 rounds, 100 % of the budget spent)");
    }
}
