//! Workers as processes of this machine.
//!
//! In: the program `hushql-worker` and how many are wanted. Out: their addresses, and a secret that only they and this process know.
//! They end with this value: each ends when its standard input is closed.
//!
//! ```text
//! driver ── secret ──▶ standard input of the worker
//!        ◀─ 127.0.0.1:40123 ── its standard output
//! ```

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use hushql::sampler::QueryRng;
use url::Url;

use crate::driver::Cluster;

/// Processes that work for this one.
#[derive(Debug)]
pub struct Workers {
    processes: Vec<(Child, Option<ChildStdin>)>,
    cluster: Cluster,
}

impl Workers {
    /// Starts workers.
    ///
    /// # Errors
    /// If the program cannot be started, or does not say where it listens.
    pub fn start(program: &Path, workers: usize) -> io::Result<Self> {
        let nonce = || QueryRng::nonce().map_err(io::Error::other);
        let bytes = [nonce()?, nonce()?].concat();
        let secret: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut started = Self { processes: Vec::new(), cluster: Cluster::new(Vec::new(), "") };
        let mut urls = Vec::new();
        for _ in 0..workers {
            let mut child =
                Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
            started.processes.push((child, None));
            let (Some(mut stdin), Some(stdout)) = (stdin, stdout) else {
                return Err(io::ErrorKind::BrokenPipe.into());
            };
            writeln!(stdin, "{secret}")?;
            stdin.flush()?;
            if let Some((_, kept)) = started.processes.last_mut() {
                *kept = Some(stdin);
            }
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line)?;
            let address: SocketAddr = line.trim().parse().map_err(io::Error::other)?;
            urls.push(Url::parse(&format!("http://{address}")).map_err(io::Error::other)?);
        }
        started.cluster = Cluster::new(urls, &secret);
        Ok(started)
    }

    /// These workers, as the site of an engine.
    pub fn site(&self) -> Cluster {
        self.cluster.clone()
    }

    /// Ends one of the workers now, whatever it does.
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
            // A worker that does not notice is ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
