//! A client that sends what it is told to, and keeps every message that it gets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The messages of a server.
#[derive(Debug, Clone, Default)]
pub struct Said(pub Vec<(u8, Vec<u8>)>);

fn cstring(bytes: &[u8], at: &mut usize) -> String {
    let end = bytes[*at..].iter().position(|byte| *byte == 0).unwrap() + *at;
    let text = String::from_utf8(bytes[*at..end].to_vec()).unwrap();
    *at = end + 1;
    text
}

fn fields(body: &[u8]) -> Vec<(u8, String)> {
    let (mut at, mut fields) = (0, Vec::new());
    while body[at] != 0 {
        let kind = body[at];
        at += 1;
        fields.push((kind, cstring(body, &mut at)));
    }
    fields
}

impl Said {
    fn of(&self, kind: u8) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter(move |(found, _)| *found == kind).map(|(_, body)| body.as_slice())
    }

    pub fn kinds(&self) -> Vec<u8> {
        self.0.iter().map(|(kind, _)| *kind).collect()
    }

    pub fn rows(&self) -> Vec<Vec<Option<Vec<u8>>>> {
        let row = |body: &[u8]| {
            let count = u16::from_be_bytes([body[0], body[1]]);
            let mut at = 2;
            let cell = |_| {
                let length = i32::from_be_bytes(body[at..at + 4].try_into().unwrap());
                at += 4;
                let length = usize::try_from(length).ok()?;
                at += length;
                Some(body[at - length..at].to_vec())
            };
            (0..count).map(cell).collect()
        };
        self.of(b'D').map(row).collect()
    }

    pub fn tags(&self) -> Vec<String> {
        self.of(b'C').map(|body| cstring(body, &mut 0)).collect()
    }

    pub fn notices(&self) -> Vec<String> {
        let message =
            |body: &[u8]| fields(body).into_iter().find(|(kind, _)| *kind == b'M').unwrap().1;
        self.of(b'N').map(message).collect()
    }

    pub fn error_field(&self, field: u8) -> Option<String> {
        let body = self.of(b'E').next()?;
        fields(body).into_iter().find(|(kind, _)| *kind == field).map(|(_, text)| text)
    }

    pub fn columns(&self) -> Vec<(String, u32)> {
        let mut columns = Vec::new();
        for body in self.of(b'T') {
            let mut at = 2;
            for _ in 0..u16::from_be_bytes([body[0], body[1]]) {
                let name = cstring(body, &mut at);
                columns.push((name, u32::from_be_bytes(body[at + 6..at + 10].try_into().unwrap())));
                at += 18;
            }
        }
        columns
    }

    /// For each column, the number of its table and that within the table.
    pub fn origins(&self) -> Vec<(u32, u16)> {
        let mut origins = Vec::new();
        for body in self.of(b'T') {
            let mut at = 2;
            for _ in 0..u16::from_be_bytes([body[0], body[1]]) {
                cstring(body, &mut at);
                let table = u32::from_be_bytes(body[at..at + 4].try_into().unwrap());
                origins.push((table, u16::from_be_bytes([body[at + 4], body[at + 5]])));
                at += 18;
            }
        }
        origins
    }

    pub fn parameter_types(&self) -> Vec<u32> {
        let body = self.of(b't').next().unwrap();
        body[2..].chunks(4).map(|kind| u32::from_be_bytes(kind.try_into().unwrap())).collect()
    }

    pub fn status(&self) -> Option<u8> {
        self.of(b'Z').last().map(|body| body[0])
    }

    pub fn copied(&self) -> String {
        String::from_utf8(self.of(b'd').flatten().copied().collect()).unwrap()
    }
}

/// The rows as texts, NULL as nothing.
pub fn texts(said: &Said) -> Vec<Vec<String>> {
    let text = |cell: Option<Vec<u8>>| String::from_utf8(cell.unwrap_or_default()).unwrap();
    said.rows().into_iter().map(|row| row.into_iter().map(text).collect()).collect()
}

pub fn error_code(said: &Said) -> Option<String> {
    said.error_field(b'C')
}

/// Why nobody is logged in, and what the server said before.
#[derive(Debug)]
pub struct Refused {
    pub code: String,
    pub message: String,
    pub first: String,
}

trait Socket: Read + Write + Send {
    /// Nothing more is sent.
    fn ends(&self);
}

impl Socket for TcpStream {
    fn ends(&self) {
        let _ = self.shutdown(std::net::Shutdown::Write);
    }
}

impl Socket for UnixStream {
    fn ends(&self) {
        let _ = self.shutdown(std::net::Shutdown::Write);
    }
}

/// Somebody who is logged in.
pub struct Client {
    socket: Box<dyn Socket>,
    key: Vec<u8>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

fn hmac(key: &[u8], said: &[u8]) -> [u8; 32] {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::new().chain_update(block.map(|b| b ^ 0x36)).chain_update(said).finalize();
    Sha256::new().chain_update(block.map(|b| b ^ 0x5c)).chain_update(inner).finalize().into()
}

/// The client's last message of SCRAM, and what the server has to answer.
fn proof(password: &str, bare: &str, first: &str) -> (String, String) {
    let parts: Vec<&str> = first.splitn(3, ',').collect();
    let mut salt = STANDARD.decode(&parts[1][2..]).unwrap();
    salt.extend([0, 0, 0, 1]);
    let mut last = hmac(password.as_bytes(), &salt);
    let mut salted = last;
    for _ in 1..parts[2][2..].parse::<u32>().unwrap() {
        last = hmac(password.as_bytes(), &last);
        salted.iter_mut().zip(last).for_each(|(all, one)| *all ^= one);
    }
    let rest = format!("c=biws,{}", parts[0]);
    let said = format!("{bare},{first},{rest}");
    let key = hmac(&salted, b"Client Key");
    let signature = hmac(&Sha256::digest(key), said.as_bytes());
    let proof: Vec<u8> = key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
    let server = hmac(&hmac(&salted, b"Server Key"), said.as_bytes());
    (format!("{rest},p={}", STANDARD.encode(proof)), format!("v={}", STANDARD.encode(server)))
}

/// What a client makes of a new password, so that the server never sees it: the verifier as
/// PostgreSQL writes it.
pub fn verifier(password: &str) -> String {
    let salt = [7_u8; 16];
    let mut last = hmac(password.as_bytes(), &[salt.as_slice(), &[0, 0, 0, 1]].concat());
    let mut salted = last;
    for _ in 1..4096 {
        last = hmac(password.as_bytes(), &last);
        salted.iter_mut().zip(last).for_each(|(all, one)| *all ^= one);
    }
    let stored = STANDARD.encode(Sha256::digest(hmac(&salted, b"Client Key")));
    let server = STANDARD.encode(hmac(&salted, b"Server Key"));
    format!("SCRAM-SHA-256$4096:{}${stored}:{server}", STANDARD.encode(salt))
}

pub fn startup(user: &str) -> Vec<u8> {
    startup_with(user, &[])
}

/// The first message, with further settings.
fn startup_with(user: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut body = 196_608_i32.to_be_bytes().to_vec();
    let usual = [("user", user), ("database", "hushql"), ("application_name", "tests")];
    for (name, value) in usual.iter().chain(more) {
        [name, value].iter().for_each(|text| body.extend(text.bytes().chain([0])));
    }
    body.push(0);
    let length = u32::try_from(body.len() + 4).unwrap();
    [length.to_be_bytes().to_vec(), body].concat()
}

pub fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[kind], length.to_be_bytes().as_slice(), body].concat()
}

pub fn connect(port: u16) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

impl Client {
    /// Logs in by SCRAM-SHA-256.
    pub fn log_in(port: u16, user: &str, password: &str) -> Result<Self, Refused> {
        Self::log_in_with(port, user, password, &[])
    }

    /// The same, with settings in the first message.
    pub fn log_in_with(
        port: u16,
        user: &str,
        password: &str,
        settings: &[(&str, &str)],
    ) -> Result<Self, Refused> {
        let mut client = Self { socket: Box::new(connect(port)), key: Vec::new() };
        let _ = client.socket.write_all(&startup_with(user, settings));
        let mut first = String::new();
        let refused = |said: &Said, first: &str| Refused {
            code: said.error_field(b'C').unwrap_or_default(),
            message: said.error_field(b'M').unwrap_or_default(),
            first: first.to_owned(),
        };
        let asked = client.next().ok_or_else(|| refused(&Said::default(), ""))?;
        if asked.0 != b'R' {
            return Err(refused(&Said(vec![asked]), ""));
        }
        let bare = "n=,r=rOprNGfwEbeRWgbNEkqO";
        let begun = format!("n,,{bare}");
        let mut body = b"SCRAM-SHA-256\0".to_vec();
        body.extend(u32::try_from(begun.len()).unwrap().to_be_bytes());
        body.extend(begun.bytes());
        client.send(b'p', &body);
        let answered = client.next().unwrap();
        if answered.0 == b'R' {
            first = String::from_utf8(answered.1[4..].to_vec()).unwrap();
        }
        let (last, expected) = proof(password, bare, &first);
        client.send(b'p', last.as_bytes());
        let said = client.until_ready();
        if said.error_field(b'C').is_some() {
            return Err(refused(&said, &first));
        }
        assert_eq!(said.0[0].1[4..], *expected.as_bytes(), "the server does not know the password");
        client.key = said.of(b'K').next().unwrap().to_vec();
        Ok(client)
    }

    /// The owner, on their socket.
    pub fn of_owner(folder: &Path, port: u16) -> Result<Self, Said> {
        Self::of(folder, port, "owner")
    }

    pub fn of(folder: &Path, port: u16, user: &str) -> Result<Self, Said> {
        let path = folder.join(format!(".s.PGSQL.{port}"));
        let mut tries = 0;
        // A socket is there a moment before it is listened to.
        let socket = loop {
            match UnixStream::connect(&path) {
                Ok(socket) => break socket,
                Err(error) => assert!(tries < 100, "{}: {error}", path.display()),
            }
            tries += 1;
            std::thread::sleep(Duration::from_millis(50));
        };
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut client = Self { socket: Box::new(socket), key: Vec::new() };
        let _ = client.socket.write_all(&startup(user));
        let said = client.until_ready();
        if said.status().is_some() { Ok(client) } else { Err(said) }
    }

    /// Cancels what this client runs, while it waits for the answer, with its secret or another
    /// one.
    pub fn cancels(&self, port: u16, change: u8) -> impl FnOnce() + use<> {
        let mut key = self.key.clone();
        key[7] ^= change;
        move || Self::cancel_with(port, &key)
    }

    /// Cancels what this client runs, with its secret or another one.
    pub fn cancel(&self, port: u16, change: u8) {
        let mut key = self.key.clone();
        key[7] ^= change;
        Self::cancel_with(port, &key);
    }

    fn cancel_with(port: u16, key: &[u8]) {
        let body = [80_877_102_i32.to_be_bytes().as_slice(), key].concat();
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        connect(port).write_all(&[length.as_slice(), &body].concat()).unwrap();
    }

    /// Sends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    /// Says that nothing more will be sent.
    pub fn ends(&self) {
        self.socket.ends();
    }

    pub fn send(&mut self, kind: u8, body: &[u8]) {
        let _ = self.socket.write_all(&framed(kind, body));
    }

    /// The next message; `None` once the connection has ended.
    fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.socket.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes(head[1..].try_into().unwrap());
        let mut body = vec![0; usize::try_from(length).unwrap() - 4];
        self.socket.read_exact(&mut body).ok()?;
        Some((head[0], body))
    }

    fn until_ready(&mut self) -> Said {
        let mut said = Said::default();
        while let Some(message) = self.next() {
            let ends = message.0 == b'Z';
            said.0.push(message);
            if ends {
                break;
            }
        }
        said
    }

    /// What comes until the connection ends.
    pub fn rest(&mut self) -> Said {
        let mut said = Said::default();
        while let Some(message) = self.next() {
            said.0.push(message);
        }
        said
    }

    pub fn query(&mut self, sql: &str) -> Said {
        self.send(b'Q', &[sql.as_bytes(), b"\0"].concat());
        self.until_ready()
    }

    /// The answer to a statement in another encoding than UTF-8.
    pub fn query_in_bytes(&mut self, sql: &[u8]) -> Said {
        self.send(b'Q', &[sql, b"\0"].concat());
        self.until_ready()
    }

    /// The answer, unless the connection ends before it is whole.
    pub fn try_query(&mut self, sql: &str) -> Option<Said> {
        let said = self.query(sql);
        said.status().map(|_| said)
    }

    pub fn parse(&mut self, name: &str, sql: &str, types: &[u32]) {
        let mut body = [name.as_bytes(), b"\0", sql.as_bytes(), b"\0"].concat();
        body.extend(u16::try_from(types.len()).unwrap().to_be_bytes());
        types.iter().for_each(|kind| body.extend(kind.to_be_bytes()));
        self.send(b'P', &body);
    }

    pub fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        values: &[(i16, Option<&[u8]>)],
        results: &[i16],
    ) {
        let count = u16::try_from(values.len()).unwrap().to_be_bytes();
        let mut body = [portal.as_bytes(), b"\0", statement.as_bytes(), b"\0", &count].concat();
        values.iter().for_each(|(format, _)| body.extend(format.to_be_bytes()));
        body.extend(count);
        for (_, value) in values {
            let length = value.map_or(-1, |value| i32::try_from(value.len()).unwrap());
            body.extend(length.to_be_bytes());
            body.extend(value.unwrap_or_default());
        }
        body.extend(u16::try_from(results.len()).unwrap().to_be_bytes());
        results.iter().for_each(|format| body.extend(format.to_be_bytes()));
        self.send(b'B', &body);
    }

    pub fn describe(&mut self, kind: u8, name: &str) {
        self.send(b'D', &[&[kind], name.as_bytes(), b"\0"].concat());
    }

    pub fn execute(&mut self, portal: &str, rows: i32) {
        self.send(b'E', &[portal.as_bytes(), b"\0", &rows.to_be_bytes()].concat());
    }

    pub fn flush(&mut self) {
        self.send(b'H', b"");
    }

    /// Messages until so many of this kind came; an error that is not asked for fails.
    pub fn read_until(&mut self, kind: u8, count: usize) -> Said {
        let mut said = Said::default();
        while said.of(kind).count() < count {
            let message = self.next().unwrap();
            assert!(message.0 != b'E' || kind == b'E', "{message:?}");
            said.0.push(message);
        }
        said
    }

    pub fn sync(&mut self) -> Said {
        self.send(b'S', b"");
        self.until_ready()
    }
}
