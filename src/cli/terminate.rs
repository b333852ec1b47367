//! Ends the shell on SIGTERM and restores the terminal.
//!
//! A script does not need this: the signal ends it like Ctrl-C, and its spill files have no names.
//! But the shell's editor changes the terminal while it reads a line.
//!
//! ```text
//! kill PID ─▶ drop the running statement ─▶ restore the terminal ─▶ exit status 143
//! ```

/// The exit status that shells use for a program ended by SIGTERM.
#[cfg(unix)]
const STATUS: i32 = 128 + 15;

/// From here on, SIGTERM restores the terminal and ends the program.
#[cfg(unix)]
pub(super) fn restores_the_terminal() {
    use nix::sys::termios::{SetArg, tcgetattr, tcsetattr};
    use tokio::signal::unix::{SignalKind, signal};

    let Ok(mut told) = signal(SignalKind::terminate()) else { return };
    let before = tcgetattr(std::io::stdin()).ok();
    tokio::spawn(async move {
        if told.recv().await.is_some() {
            if let Some(before) = before {
                let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, &before);
            }
            std::process::exit(STATUS);
        }
    });
}

/// Other systems do not have this signal.
#[cfg(not(unix))]
pub(super) fn restores_the_terminal() {}
