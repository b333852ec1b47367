//! The messages of a client, in the frames of PostgreSQL's protocol (version 3).
//!
//! In: a stream of bytes from a client that may be hostile. Out: one message after the other, each
//! read within its own length, or a protocol error. A length is checked before memory is allocated
//! for it, and nothing is converted: a text that is not UTF-8 is an error.
//!
//! ```text
//! 'Q' 00 00 00 0D  SELECT 1 00   →   Message::Query("SELECT 1")
//! ```

use std::io::{self, Read};

use super::encoding::Encoding;

/// The longest first message of a connection.
const LONGEST_STARTUP: usize = 10_000;

/// The longest message before log-in.
pub(super) const LONGEST_BEFORE_LOG_IN: usize = 4_096;

/// The longest message after log-in: a statement has at most a megabyte, and so have its
/// parameters.
pub(super) const LONGEST: usize = 4 << 20;

const SSL: i32 = 80_877_103;
const GSS: i32 = 80_877_104;
const CANCEL: i32 = 80_877_102;
const PROTOCOL_3: i32 = 3 << 16;

/// Why there is no message.
#[derive(Debug)]
pub(super) enum Broken {
    /// The connection has ended, or was silent for too long.
    Ended,
    /// The bytes are not a message.
    Protocol(&'static str),
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self::Ended
    }
}

/// The first message of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Startup {
    /// A request for TLS.
    Tls,
    /// A request for GSSAPI encryption.
    Gss,
    /// A request to cancel the statement of another connection.
    Cancel { process: i32, secret: i32 },
    /// The beginning of a session with these parameters.
    Session { minor: i32, parameters: Vec<(String, String)> },
}

/// Whether a message is about a prepared statement or a portal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementOrPortal {
    /// A prepared statement.
    Statement,
    /// A portal.
    Portal,
}

/// A message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A part of a log-in.
    Password(Vec<u8>),
    /// Statements to run.
    Query(String),
    /// Prepares a statement.
    Parse { name: String, sql: String, types: Vec<u32> },
    /// Makes a portal from a prepared statement and its parameters.
    Bind(Bind),
    /// Asks for the columns.
    Describe(StatementOrPortal, String),
    /// Runs a portal, for at most `rows` rows; 0 for all.
    Execute { portal: String, rows: usize },
    /// Forgets a statement or a portal.
    Close(StatementOrPortal, String),
    /// Asks for all finished replies.
    Flush,
    /// Ends a series of messages.
    Sync,
    /// Ends the connection.
    Terminate,
    /// Part of a COPY from the client, which is not supported.
    CopyIn,
}

/// The portal to make.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Bind {
    pub(super) portal: String,
    pub(super) statement: String,
    /// The formats of parameters: 0 text, 1 binary; none, one for all, or one for each.
    pub(super) formats: Vec<i16>,
    /// The parameters; `None` is NULL.
    pub(super) values: Vec<Option<Vec<u8>>>,
    /// The formats of columns.
    pub(super) results: Vec<i16>,
}

/// Reads the first message.
pub(super) fn startup(from: &mut impl Read) -> Result<Startup, Broken> {
    let length = length(from)?;
    let body = body(from, length, LONGEST_STARTUP)?;
    let mut fields = Fields { rest: &body, encoding: Encoding::Utf8 };
    match fields.int()? {
        SSL => fields.end(Startup::Tls),
        GSS => fields.end(Startup::Gss),
        CANCEL => {
            let (process, secret) = (fields.int()?, fields.int()?);
            fields.end(Startup::Cancel { process, secret })
        }
        version if version & !0xffff == PROTOCOL_3 => {
            let mut parameters = Vec::new();
            loop {
                let name = fields.text()?;
                if name.is_empty() {
                    return fields.end(Startup::Session { minor: version & 0xffff, parameters });
                }
                parameters.push((name, fields.text()?));
            }
        }
        _ => Err(Broken::Protocol("only version 3 of the protocol is spoken")),
    }
}

/// Reads the next message, whose texts are in this encoding.
pub(super) fn next(
    from: &mut impl Read,
    longest: usize,
    encoding: Encoding,
) -> Result<Message, Broken> {
    let mut kind = [0];
    from.read_exact(&mut kind)?;
    // A message has to be read to its end, so an unknown kind is not read at all.
    if !b"pQPBDECHSXdcf".contains(&kind[0]) {
        return Err(Broken::Protocol("the kind of this message is unknown"));
    }
    let length = length(from)?;
    let body = body(from, length, longest)?;
    let mut fields = Fields { rest: &body, encoding };
    match kind[0] {
        b'p' => Ok(Message::Password(body)),
        b'Q' => {
            let sql = fields.text()?;
            fields.end(Message::Query(sql))
        }
        b'P' => {
            let (name, sql) = (fields.text()?, fields.text()?);
            let count = fields.count()?;
            let types = (0..count).map(|_| Ok(fields.int()?.cast_unsigned()));
            let types = types.collect::<Result<_, Broken>>()?;
            fields.end(Message::Parse { name, sql, types })
        }
        b'B' => {
            let (portal, statement) = (fields.text()?, fields.text()?);
            let formats = fields.shorts()?;
            let count = fields.count()?;
            let values = (0..count).map(|_| fields.value()).collect::<Result<_, Broken>>()?;
            let results = fields.shorts()?;
            fields.end(Message::Bind(Bind { portal, statement, formats, values, results }))
        }
        b'D' => {
            let (named, name) = (fields.named()?, fields.text()?);
            fields.end(Message::Describe(named, name))
        }
        b'E' => {
            let (portal, rows) = (fields.text()?, fields.int()?);
            let rows = usize::try_from(rows).unwrap_or(0);
            fields.end(Message::Execute { portal, rows })
        }
        b'C' => {
            let (named, name) = (fields.named()?, fields.text()?);
            fields.end(Message::Close(named, name))
        }
        b'H' => fields.end(Message::Flush),
        b'S' => fields.end(Message::Sync),
        b'X' => Ok(Message::Terminate),
        _ => Ok(Message::CopyIn),
    }
}

/// The fields of a client's first message of a log-in: the mechanism and its data.
pub(super) fn first_of_log_in(body: &[u8]) -> Result<(String, Vec<u8>), Broken> {
    let mut fields = Fields { rest: body, encoding: Encoding::Utf8 };
    let (mechanism, said) = (fields.text()?, fields.value()?);
    fields.end((mechanism, said.unwrap_or_default()))
}

/// The length of a message, without its length field.
fn length(from: &mut impl Read) -> Result<usize, Broken> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = usize::try_from(i32::from_be_bytes(length)).ok();
    length.and_then(|n| n.checked_sub(4)).ok_or(Broken::Protocol("a length is wrong"))
}

/// The body of a message. Memory is allocated as the bytes arrive.
fn body(from: &mut impl Read, length: usize, longest: usize) -> Result<Vec<u8>, Broken> {
    if length > longest {
        return Err(Broken::Protocol("the message is too long"));
    }
    let mut body = Vec::new();
    from.take(u64::try_from(length).unwrap_or(0)).read_to_end(&mut body)?;
    match body.len() == length {
        true => Ok(body),
        false => Err(Broken::Ended),
    }
}

/// The unread rest of a message.
struct Fields<'a> {
    rest: &'a [u8],
    encoding: Encoding,
}

const SHORT: Broken = Broken::Protocol("a message ends too early");

impl<'a> Fields<'a> {
    fn bytes(&mut self, n: usize) -> Result<&'a [u8], Broken> {
        let (bytes, rest) = self.rest.split_at_checked(n).ok_or(SHORT)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        self.bytes(N)?.try_into().map_err(|_| SHORT)
    }

    fn int(&mut self) -> Result<i32, Broken> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn short(&mut self) -> Result<i16, Broken> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    /// A count of items that have at least two bytes each.
    fn count(&mut self) -> Result<usize, Broken> {
        let count = usize::from(u16::from_be_bytes(self.array()?));
        if count > self.rest.len() / 2 { Err(SHORT) } else { Ok(count) }
    }

    fn shorts(&mut self) -> Result<Vec<i16>, Broken> {
        let count = self.count()?;
        (0..count).map(|_| self.short()).collect()
    }

    /// A text that ends with a zero.
    fn text(&mut self) -> Result<String, Broken> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or(SHORT)?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        self.encoding.decoded(text).ok_or(Broken::Protocol("a text is not UTF-8"))
    }

    /// A value with its length, or NULL.
    fn value(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        match self.int()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| SHORT)?;
                Ok(Some(self.bytes(length)?.to_vec()))
            }
        }
    }

    fn named(&mut self) -> Result<StatementOrPortal, Broken> {
        match self.bytes(1)? {
            b"S" => Ok(StatementOrPortal::Statement),
            b"P" => Ok(StatementOrPortal::Portal),
            _ => Err(Broken::Protocol("neither a statement nor a portal is named")),
        }
    }

    /// The message, if no bytes are left.
    fn end<T>(self, message: T) -> Result<T, Broken> {
        match self.rest.is_empty() {
            true => Ok(message),
            false => Err(Broken::Protocol("a message is longer than it should be")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind], length.to_be_bytes().as_slice(), body].concat()
    }

    fn read(bytes: &[u8]) -> Result<Message, Broken> {
        next(&mut &*bytes, 1_000, Encoding::Utf8)
    }

    #[test]
    fn messages_are_read_within_their_lengths() {
        assert_eq!(read(&framed(b'Q', b"SELECT 1\0")).unwrap(), Message::Query("SELECT 1".into()));
        let parse = framed(b'P', b"s\0SELECT $1\0\0\x01\0\0\0\x17");
        let expected =
            Message::Parse { name: "s".into(), sql: "SELECT $1".into(), types: vec![23] };
        assert_eq!(read(&parse).unwrap(), expected);
        let bind = framed(b'B', b"\0s\0\0\0\0\x02\xff\xff\xff\xff\0\0\0\x01x\0\x01\0\x01");
        let expected = Bind {
            statement: "s".into(),
            values: vec![None, Some(b"x".to_vec())],
            results: vec![1],
            ..Bind::default()
        };
        assert_eq!(read(&bind).unwrap(), Message::Bind(expected));
        assert_eq!(read(&framed(b'S', b"")).unwrap(), Message::Sync);
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for bytes in [
            framed(b'Q', b"SELECT 1"),
            framed(b'Q', b"SELECT 1\0more"),
            framed(b'Q', b"\xff\xfe\0"),
            framed(b'Q', &[b'x'; 2_000]),
            framed(b'z', b""),
            framed(b'D', b"X\0"),
            framed(b'P', b"s\0x\0\xff\xff"),
            framed(b'B', b"\0s\0\0\0\0\x01\x7f\xff\xff\xff\0\0"),
            framed(b'B', b"\0s\0\0\0\0\x01\xff\xff\xff\xfe\0\0"),
            b"Q\0\0\0\x03".to_vec(),
            b"Q\xff\xff\xff\xff".to_vec(),
        ] {
            assert!(matches!(read(&bytes), Err(Broken::Protocol(_))), "{bytes:?}");
        }
        for bytes in [&b""[..], b"Q", b"Q\0\0", b"Q\0\0\0\x09SELE"] {
            assert!(matches!(read(bytes), Err(Broken::Ended)), "{bytes:?}");
        }
    }

    #[test]
    fn a_connection_begins() {
        let begin = |code: i32, body: &[u8]| {
            let length = u32::try_from(body.len() + 8).unwrap();
            let bytes =
                [length.to_be_bytes().as_slice(), code.to_be_bytes().as_slice(), body].concat();
            startup(&mut bytes.as_slice())
        };
        assert_eq!(begin(SSL, b"").unwrap(), Startup::Tls);
        let cancel = begin(CANCEL, b"\0\0\0\x07\0\0\0\x09").unwrap();
        assert_eq!(cancel, Startup::Cancel { process: 7, secret: 9 });
        let session = begin(PROTOCOL_3, b"user\0lab\0\0").unwrap();
        let parameters = vec![("user".to_owned(), "lab".to_owned())];
        assert_eq!(session, Startup::Session { minor: 0, parameters });
        for (code, body) in [
            (PROTOCOL_3, &b"user\0lab\0"[..]),
            (PROTOCOL_3, b"user\0"),
            (PROTOCOL_3, b"\0more"),
            (2 << 16, b"\0"),
            (SSL, b"more"),
            (CANCEL, b""),
        ] {
            assert!(matches!(begin(code, body), Err(Broken::Protocol(_))), "{code} {body:?}");
        }
        assert!(matches!(startup(&mut &b"\x7f\xff\xff\xff"[..]), Err(Broken::Protocol(_))));
    }

    /// Every prefix and every change of one byte of some messages yields a message or an error, and
    /// never reads beyond the message.
    #[test]
    fn no_bytes_break_the_reader() {
        let messages = [
            framed(b'P', b"s\0SELECT $1\0\0\x01\0\0\0\x17"),
            framed(b'B', b"\0s\0\0\x01\0\x01\0\x02\xff\xff\xff\xff\0\0\0\x01x\0\x01\0\x01"),
            framed(b'E', b"p\0\0\0\0\x05"),
            framed(b'C', b"Pname\0"),
        ];
        for message in &messages {
            for end in 0..message.len() {
                let _ = read(&message[..end]);
            }
            for at in 0..message.len() {
                for byte in 0..=255 {
                    let mut changed = message.clone();
                    changed[at] = byte;
                    let _ = read(&changed);
                    let _ = startup(&mut &changed[1..]);
                    let _ = first_of_log_in(&changed);
                }
            }
        }
    }
}
