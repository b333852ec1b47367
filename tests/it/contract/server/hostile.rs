//! Bytes from somebody who means harm: before a log-in and after it. The server stays, and nothing
//! is charged.

use std::io::{Read, Write};
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::client::{Client, connect, framed, startup, texts};
use super::{COUNT, Served};

/// Sends bytes on a connection of their own, and reads what comes for a moment.
fn throw(port: u16, bytes: &[u8]) {
    let mut socket = connect(port);
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let _ = socket.write_all(bytes);
    let _ = socket.shutdown(std::net::Shutdown::Write);
    let _ = socket.read(&mut [0; 4_096]);
}

/// The bytes with some of them changed, left out or doubled.
fn mutated(rng: &mut ChaCha8Rng, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=rng.next_u32() % 4 {
        let at = rng.next_u32() as usize % bytes.len().max(1);
        match rng.next_u32() % 4 {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, (rng.next_u32() % 256) as u8),
            2 if at < bytes.len() => bytes[at] = (rng.next_u32() % 256) as u8,
            _ => bytes.extend(bytes.clone().into_iter().skip(at)),
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

#[test]
fn strange_bytes_before_a_log_in_do_nothing() {
    let served = Served::with(&[]);
    let before = served.study.spent();
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let log_in =
        [startup("lab"), framed(b'p', b"SCRAM-SHA-256\0\0\0\0\x10n,,n=,r=abcdefgh")].concat();
    let query = [startup("lab"), framed(b'Q', b"SELECT 1\0")].concat();
    for seed in [
        &b"\0\0\0\x08\x04\xd2\x16\x2f"[..],
        b"\0\0\0\x08\x04\xd2\x16\x30",
        b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0\x01",
        b"\x7f\xff\xff\xff",
        b"\0\0\0\0",
        &log_in,
        &query,
    ] {
        throw(served.port, seed);
        for _ in 0..12 {
            throw(served.port, &mutated(&mut rng, seed));
        }
    }
    assert_eq!(texts(&served.lab().query("SELECT 1 AS x")), [["1"]]);
    assert_eq!(served.study.spent(), before);
}

#[test]
fn strange_bytes_after_a_log_in_end_the_connection_at_worst() {
    let served = Served::with(&[]);
    let before = served.study.spent();
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let messages = [
        framed(b'P', b"s\0SELECT $1 AS x\0\0\x01\0\0\0\x17"),
        framed(b'B', b"p\0s\0\0\0\0\x01\0\0\0\x011\0\0"),
        framed(b'D', b"Pp\0"),
        framed(b'D', b"Ss\0"),
        framed(b'E', b"p\0\0\0\0\0"),
        framed(b'C', b"Ss\0"),
        framed(b'H', b""),
        framed(b'd', b"copied"),
        framed(b'Q', b"FETCH 1 FROM p\0"),
    ];
    for _ in 0..60 {
        let mut lab = served.lab();
        for _ in 0..6 {
            let message = &messages[rng.next_u32() as usize % messages.len()];
            let bytes = mutated(&mut rng, message);
            // As they are, without a frame of their own.
            if let Some((kind, rest)) = bytes.split_first() {
                match rng.next_u32() % 2 {
                    0 => lab.send(*kind, rest.get(4..).unwrap_or_default()),
                    _ => lab.send(message[0], &message[5..]),
                }
            }
        }
        lab.send(b'X', b"");
        lab.rest();
    }
    assert_eq!(texts(&served.lab().query("SELECT 1 AS x")), [["1"]]);
    assert_eq!(served.study.spent(), before);
}

/// After an error, everything up to Sync is passed over; a series of messages without one charges
/// nothing further.
#[test]
fn an_error_ends_a_series() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    lab.parse("a", COUNT, &[]);
    lab.bind("p", "nowhere", &[], &[]);
    lab.bind("p", "a", &[], &[]);
    lab.execute("p", 0);
    let said = lab.sync();
    assert_eq!(said.error_field(b'C').as_deref(), Some("26000"));
    assert!(said.rows().is_empty() && served.study.spent().0 == 0);
}

/// Whoever connects and says nothing makes nobody wait: the oldest of them goes.
#[test]
fn whoever_is_silent_is_sent_away() {
    let served = Served::with(&[]);
    let silent: Vec<_> = (0..60).map(|_| connect(served.port)).collect();
    std::thread::sleep(Duration::from_millis(200));
    let got_in = Client::log_in(served.port, "lab", super::PASSWORD);
    assert!(got_in.is_ok());
    drop(silent);
}

/// Answers that a client does not ask for yet leave before they fill the memory.
#[test]
fn answers_do_not_wait_for_ever() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    lab.parse("a", &format!("SELECT 1 AS \"{}\"", "x".repeat(60)), &[]);
    lab.bind("p", "a", &[], &[]);
    for _ in 0..1_500 {
        lab.describe(b'P', "p");
    }
    // Without a Sync or a Flush.
    lab.read_until(b'T', 500);
    lab.sync();
    assert_eq!(texts(&lab.query("SELECT 1 AS x")), [["1"]]);
}

/// Messages of every kind: as they are, out of order, cut off, with counts and lengths that nothing
/// fits, and bytes without sense. Each connection answers, or ends, in time; nothing is charged,
/// and the next one is served.
#[test]
fn messages_without_sense_after_a_log_in() {
    let served = Served::with(&[]);
    let before = served.study.spent();
    let mut rng = ChaCha8Rng::seed_from_u64(crate::seed::seed(25));
    let huge = [0xff, 0xff];
    let counts = |name: &[u8]| [name, b"\0", huge.as_slice(), huge.as_slice()].concat();
    let messages: Vec<(u8, Vec<u8>)> = vec![
        (b'Q', b"SELECT 1 AS x\0".to_vec()),
        (b'Q', b"SELECT 1".to_vec()),
        (b'Q', b"\xff\xfe\0".to_vec()),
        (b'P', b"s\0SELECT $1 AS x\0\0\x01\0\0\0\x17".to_vec()),
        (b'P', counts(b"s\0SELECT 1")),
        (b'B', b"p\0s\0\0\0\0\x01\0\0\0\x011\0\0".to_vec()),
        (b'B', counts(b"p\0s")),
        (b'B', b"p\0s\0\0\0\0\x01\x7f\xff\xff\xff".to_vec()),
        (b'B', b"p\0s\0\0\0\0\x01\x80\0\0\0\0\0".to_vec()),
        (b'D', b"Pp\0".to_vec()),
        (b'D', b"Xp\0".to_vec()),
        (b'E', b"p\0\xff\xff\xff\xff".to_vec()),
        (b'E', b"p\0\0\0\0\x01".to_vec()),
        (b'C', b"Pp\0".to_vec()),
        (b'H', Vec::new()),
        (b'S', Vec::new()),
        (b'F', b"\0\0\0\x01".to_vec()),
        (b'd', vec![0; 100]),
        (b'c', Vec::new()),
        (b'f', b"no\0".to_vec()),
        (b'p', b"SCRAM-SHA-256\0\xff\xff\xff\xff".to_vec()),
        (b'Z', b"I".to_vec()),
        (0, Vec::new()),
        (0xff, vec![0xff; 40]),
    ];
    for round in 0..50 {
        let mut socket = served.lab();
        for _ in 0..12 {
            let (kind, body) = &messages[rng.next_u32() as usize % messages.len()];
            match rng.next_u32() % 6 {
                0 => socket.raw(&mutated(&mut rng, &framed(*kind, body))),
                1 => {
                    let whole = framed(*kind, body);
                    socket.raw(&whole[..rng.next_u32() as usize % whole.len()]);
                }
                2 => {
                    let mut bytes = [0; 64];
                    rng.fill_bytes(&mut bytes);
                    socket.raw(&bytes[..rng.next_u32() as usize % 64]);
                }
                _ => socket.send(*kind, body),
            }
        }
        // A message whose length promises more than comes waits for it: the end of what is sent
        // ends the wait.
        socket.ends();
        let said = socket.rest();
        let codes = said.0.iter().filter(|(kind, _)| *kind == b'E').count();
        let internal = said.error_field(b'C').is_some_and(|code| code.starts_with("XX"));
        assert!(!internal, "round {round}, {codes} errors: {said:?}");
    }
    assert_eq!(texts(&served.lab().query("SELECT 1 AS x")), [["1"]]);
    assert_eq!(served.study.spent(), before);
}

/// Whoever guesses keys of others cancels nothing, and cuts nobody off.
#[test]
fn guessed_keys_cancel_nothing() {
    let served = Served::with(&[]);
    let mut lab = served.lab();
    let (port, mut rng) = (served.port, ChaCha8Rng::seed_from_u64(3));
    let begun = std::thread::spawn(move || {
        for _ in 0..30 {
            assert_eq!(texts(&lab.query("SELECT 1 AS x")), [["1"]]);
        }
        lab
    });
    for _ in 0..200 {
        let mut key = [0; 8];
        rng.fill_bytes(&mut key);
        let body = [b"\x04\xd2\x16\x2e".as_slice(), &key].concat();
        let whole = [b"\0\0\0\x10".as_slice(), &body].concat();
        let cut = if rng.next_u32() % 4 == 0 { 11 } else { whole.len() };
        let _ = connect(port).write_all(&whole[..cut]);
    }
    let mut lab = begun.join().unwrap();
    // The right number of the connection with a wrong secret.
    for change in 1..=255 {
        lab.cancel(port, change);
    }
    assert_eq!(texts(&lab.query("SELECT 1 AS x")), [["1"]]);
}
