//! The spinner for statements that take longer than a second.
//!
//! In: time alone. Out: a line on a terminal's standard error that disappears when the statement ends.
//! It deliberately counts neither rows nor bytes: either would reveal the exact size of a private table.
//!
//! ```text
//! ⠙ running 3s
//! ```

use std::convert::Infallible;
use std::future::pending;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// Shows the spinner after a second, as long as the future is polled; the future never ends by itself.
pub(super) async fn spin() -> Infallible {
    if !std::io::stderr().is_terminal() {
        return pending().await;
    }
    tokio::time::sleep(PATIENCE).await;
    let _visible = Visible::new();
    pending().await
}

/// A spinner that leaves no trace when it is dropped, even by cancellation.
struct Visible(ProgressBar);

impl Visible {
    fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let bar = bar.with_elapsed(PATIENCE).with_message("running");
        let bar = match ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
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
