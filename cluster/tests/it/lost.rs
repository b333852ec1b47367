//! Workers that end at moments which are counted in bytes: no wrong integer, and no charge that is
//! lost.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hushql_cluster::Workers;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::equal::program;
use crate::study::{Here, Integers, Noted, QUERIES, engine, write};

/// A statement with a join along a link, groups and bounds.
fn query() -> &'static str {
    QUERIES.iter().find(|query| query.contains("drugs d JOIN visits v")).unwrap()
}

/// Stands before one worker, counts the bytes to and from it, and ends it when they are so many.
#[derive(Clone)]
struct Gate {
    worker: SocketAddr,
    number: usize,
    workers: Arc<Mutex<Workers>>,
    bytes: Arc<AtomicU64>,
    most: u64,
    ended: Arc<watch::Sender<bool>>,
}

impl Gate {
    async fn stands(self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let mut ended = self.ended.subscribe();
            loop {
                tokio::select! {
                    connection = listener.accept() => {
                        let Ok((connection, _)) = connection else { return };
                        tokio::spawn(self.clone().passes(connection));
                    }
                    _ = ended.wait_for(|is| *is) => return,
                }
            }
        });
        port
    }

    async fn passes(self, connection: TcpStream) {
        let Ok(worker) = TcpStream::connect(self.worker).await else { return };
        let ((from, to), (back, there)) = (connection.into_split(), worker.into_split());
        let mut ended = self.ended.subscribe();
        tokio::select! {
            () = self.clone().copies(from, there) => {}
            () = self.clone().copies(back, to) => {}
            _ = ended.wait_for(|is| *is) => {}
        }
    }

    async fn copies(
        self,
        mut from: tokio::net::tcp::OwnedReadHalf,
        mut to: tokio::net::tcp::OwnedWriteHalf,
    ) {
        let mut buffer = vec![0; 4_096];
        while let Ok(read) = from.read(&mut buffer).await {
            let before = self.bytes.fetch_add(read as u64, Ordering::SeqCst);
            if before + read as u64 > self.most && !self.ended.send_replace(true) {
                self.workers.lock().unwrap().kill(self.number).unwrap();
            }
            if read == 0 || *self.ended.borrow() || to.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    }
}

/// What became of a statement whose second worker of three ends after so many bytes.
async fn asked(folder: &Path, most: u64) -> (Integers, bool, u64) {
    let workers = Arc::new(Mutex::new(Workers::start(program(), 3).unwrap()));
    let site = workers.lock().unwrap().site();
    let bytes = Arc::<AtomicU64>::default();
    let mut ports = site.ports();
    let gate = Gate {
        worker: SocketAddr::from(([127, 0, 0, 1], ports[1])),
        number: 1,
        workers: Arc::clone(&workers),
        bytes: Arc::clone(&bytes),
        most,
        ended: Arc::new(watch::channel(false).0),
    };
    ports[1] = gate.stands().await;
    let noted = Arc::new(Noted::new(Arc::new(site.with_ports(&ports))));
    let engine = engine(folder, Arc::clone(&noted) as _).await;
    let spent = || format!("{:?}", engine.owner().budgets().unwrap());
    let before = spent();
    let lab = engine.analyst("lab").unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(60), lab.query(query())).await;
    let answer = answer.unwrap();
    assert_ne!(spent(), before, "after {most} bytes");
    if let Err(error) = &answer {
        assert!(matches!(error, hushql::Error::Execution), "after {most} bytes: {error}");
    }
    (noted.taken(), answer.is_ok(), bytes.load(Ordering::SeqCst))
}

/// At these of twenty moments, which are counted in bytes.
async fn at_moments(moments: impl Iterator<Item = u64>) {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let local = Arc::new(Noted::new(Arc::new(Here)));
    let here = engine(folder.path(), Arc::clone(&local) as _).await;
    here.analyst("lab").unwrap().query(query()).await.unwrap();
    let expected = local.taken();
    let (undisturbed, is_answered, bytes) = asked(folder.path(), u64::MAX).await;
    assert!(is_answered && bytes > 10_000, "{bytes}");
    assert_eq!(undisturbed, expected);
    for moment in moments {
        let (integers, is_answered, _) = asked(folder.path(), bytes * moment / 20).await;
        // It was begun again on those that were left.
        assert!(is_answered, "moment {moment}");
        assert_eq!(integers, expected, "moment {moment}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_worker_that_ends_at_some_moments_changes_no_integer() {
    at_moments([0, 3, 9, 16].into_iter()).await;
}

#[ignore = "long: a worker ends at each of twenty moments"]
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_worker_that_ends_at_any_moment_changes_no_integer() {
    at_moments(0..20).await;
}
