//! The shell that is told to end (SIGTERM): it leaves the terminal as it found it.
//!
//! A script needs nothing of this: the signal ends it like Ctrl-C, and files of rows that do not fit into memory have
//! no names. The shell's editor changes the terminal while a line is read, and would leave it so.
//!
//! ```text
//! kill PID ─▶ the statement that runs is dropped ─▶ the terminal as it was ─▶ exit status 143
//! ```

/// The status of a program that SIGTERM has ended, as shells count it.
#[cfg(unix)]
const STATUS: i32 = 128 + 15;

/// From here on SIGTERM restores the terminal and ends the program.
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

/// Elsewhere there is no such signal.
#[cfg(not(unix))]
pub(super) fn restores_the_terminal() {}
