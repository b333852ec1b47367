//! `hushql-worker`: reads a secret from its standard input, writes its address, and works until its standard input is closed.

use std::io::{self, BufRead, Write};

use hushql_cluster::Listening;

fn main() -> io::Result<()> {
    // The message of a panic may quote a cell.
    std::panic::set_hook(Box::new(|_| {}));
    let mut secret = String::new();
    io::stdin().lock().read_line(&mut secret)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let worker = Listening::new(secret.trim()).await?;
        let mut out = io::stdout().lock();
        writeln!(out, "{}", worker.address()?)?;
        out.flush()?;
        drop(out);
        let closed = tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink()));
        tokio::select! {
            served = worker.serve() => served,
            _ = closed => Ok(()),
        }
    })
}
