//! Workers as processes on this machine.
//!
//! In: the program `hushql-worker` and how many are wanted. Out: their addresses. They have an
//! authority of their own, which exists only in this process: no key is in a file. They end when
//! this value is dropped, because each ends when its standard input closes.
//!
//! ```text
//! driver ── keys of w1 ──▶ standard input of the worker
//!        ◀─ 127.0.0.1:40123 ── its standard output
//! ```

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use hushql::Resources;

use crate::driver::Cluster;
use crate::identity::Authority;

/// Worker processes that this process started.
#[derive(Debug)]
pub struct Workers {
    processes: Vec<(Child, Option<ChildStdin>)>,
    cluster: Cluster,
}

impl Workers {
    /// Starts workers, which share the memory that an engine has by default. The program must be
    /// from the same build as this process: unlike [`Cluster::check`], this does not compare
    /// versions.
    ///
    /// # Errors
    /// If the program cannot be started, or does not print its address.
    pub fn start(program: &Path, workers: usize) -> io::Result<Self> {
        let authority = Authority::new()?;
        let driver = authority.driver()?;
        let mut started = Self { processes: Vec::new(), cluster: Cluster::of(&driver, &[])? };
        let memory = Resources::default().memory.map(|all| (all / workers.max(1)).max(1 << 20));
        let mut addresses = Vec::new();
        for worker in 1..=workers {
            let name = format!("w{worker}");
            let keys = authority.worker(&name, &driver.plans)?;
            let mut command = Command::new(program);
            command.arg("--for-parent").stdin(Stdio::piped()).stdout(Stdio::piped());
            if let Some(memory) = memory {
                command.args(["--memory", &format!("{memory}B")]);
            }
            let mut child = command.spawn()?;
            let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
            started.processes.push((child, None));
            let (Some(mut stdin), Some(stdout)) = (stdin, stdout) else {
                return Err(io::ErrorKind::BrokenPipe.into());
            };
            // An empty line follows the keys.
            writeln!(stdin, "{}", keys.pem())?;
            stdin.flush()?;
            if let Some((_, kept)) = started.processes.last_mut() {
                *kept = Some(stdin);
            }
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line)?;
            let address: SocketAddr = line.trim().parse().map_err(io::Error::other)?;
            addresses.push((name, address.to_string()));
        }
        started.cluster = Cluster::of(&driver, &addresses)?;
        Ok(started)
    }

    /// These workers, as the site of an engine.
    pub fn site(&self) -> Cluster {
        self.cluster.clone()
    }

    /// Ends one of the workers immediately, whatever it is doing.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn kill(&mut self, worker: usize) -> io::Result<()> {
        match self.processes.get_mut(worker) {
            Some((child, _)) => child.kill(),
            None => Ok(()),
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for (child, stdin) in &mut self.processes {
            drop(stdin.take());
            // A worker that does not react is killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
