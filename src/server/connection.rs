//! One connection, from its first byte to its last.
//!
//! In: a socket. Out: nothing; the function returns when the connection ends. Before log-in, there
//! is a time limit, messages must be short, and only the table of roles is read from the vault.
//!
//! ```text
//! TLS? ─▶ who? ─▶ SCRAM ─▶ parameters ─▶ message, answer, message, answer, … ─▶ end
//! ```

use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hushql::{Analyst, Error, Session};

use super::catalog::DATABASE;
use super::client::{Desk, Failed};
use super::connections::{House, Seat, count};
use super::encoding::{self, Encoding};
use super::extended;
use super::known_settings::SETTINGS;
use super::message::{self, Broken, Message, Startup, first_of_log_in};
use super::reply::{Reply, Said};
use super::simple::{self, said_of};
use super::socket::{Channel, Socket};
use super::sqlstate::{hinted, said};
use super::statement_kind::{StatementKind, StatementText};

/// The time limit for logging in.
const TO_LOG_IN: Duration = Duration::from_secs(15);

/// The most bytes of answers that wait for a Sync.
const MOST_WAITING: usize = 64 << 10;

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// A network connection; the client must log in.
    Network,
    /// The owner's own socket, which the system protects from other users.
    Owner,
}

/// Why a connection ends early.
enum ConnectionEnd {
    /// The client has gone.
    Gone,
    /// It ends with this message.
    Fatal(Said),
}

impl std::convert::From<io::Error> for ConnectionEnd {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl std::convert::From<Broken> for ConnectionEnd {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Ended => Self::Gone,
            Broken::Protocol(why) => Self::Fatal(said("08P01", why)),
        }
    }
}

/// Serves a connection.
pub(super) fn serve(house: &Arc<House>, socket: Socket, from: From) {
    count(&house.counts.connections);
    let Some(seat) = house.seat(&socket) else {
        count(&house.counts.refused_connections);
        let mut channel = Channel::plain(socket, Instant::now() + TO_LOG_IN);
        let full = said("53300", "too many connections: try again later");
        let _ = fatal(&mut channel, &full);
        return;
    };
    let mut channel = Channel::plain(socket, Instant::now() + TO_LOG_IN);
    let (parameters, minor) = loop {
        match message::startup(&mut channel) {
            Ok(Startup::Session { minor, parameters }) => break (parameters, minor),
            Ok(Startup::Cancel { process, secret }) => return house.cancel(process, secret),
            Ok(Startup::Tls) if !channel.is_secured() => {
                let tls = house.tls.as_ref().filter(|_| from == From::Network);
                let answered = channel.write_all(if tls.is_some() { b"S" } else { b"N" });
                if answered.and_then(|()| channel.flush()).is_err() {
                    return;
                }
                if let Some(tls) = tls {
                    match channel.secured(tls) {
                        Ok(secured) => channel = secured,
                        Err(_) => return,
                    }
                }
            }
            Ok(Startup::Gss) if !channel.is_secured() => {
                if channel.write_all(b"N").and_then(|()| channel.flush()).is_err() {
                    return;
                }
            }
            Ok(Startup::Tls | Startup::Gss) | Err(Broken::Ended) => return,
            Err(Broken::Protocol(why)) => {
                let _ = fatal(&mut channel, &said("08P01", why));
                return;
            }
        }
    };
    let mut channel = BufReader::new(channel);
    // The place must be free before the last message is sent.
    match admitted(house, seat, &mut channel, (&parameters, minor), from) {
        Ok(mut desk) => {
            let ended = talk(&mut desk, &mut channel);
            leave(house, &mut channel, ended);
        }
        Err(end) => leave(house, &mut channel, Err(end)),
    }
}

/// Sends the last message of a connection, if there is one.
fn leave(house: &House, channel: &mut BufReader<Channel>, ended: Result<(), ConnectionEnd>) {
    let last = match ended {
        Err(ConnectionEnd::Fatal(said)) => said,
        Err(ConnectionEnd::Gone) if house.is_stopping() => said("57P01", "the server is stopping"),
        Ok(()) | Err(ConnectionEnd::Gone) => return,
    };
    // If the client has gone, nobody receives it.
    let _ = fatal(channel.get_mut(), &last);
}

/// Says why a connection ends.
fn fatal(to: &mut impl Write, said: &Said) -> io::Result<()> {
    let mut reply = Reply::default();
    reply.error("FATAL", said);
    to.write_all(&reply.take())?;
    to.flush()
}

fn send(to: &mut BufReader<Channel>, reply: &mut Reply) -> io::Result<()> {
    if reply.is_empty() {
        return Ok(());
    }
    to.get_mut().write_all(&reply.take())?;
    to.get_mut().flush()
}

/// A client that has logged in, with the server's first messages for it.
fn admitted(
    house: &Arc<House>,
    seat: Seat,
    channel: &mut BufReader<Channel>,
    (parameters, minor): (&[(String, String)], i32),
    from: From,
) -> Result<Desk, ConnectionEnd> {
    let parameter = |name: &str| {
        let found = parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    };
    let user = parameter("user").unwrap_or_default().to_owned();
    let mut reply = Reply::default();
    let unknown: Vec<&str> = parameters
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| name.starts_with("_pq_."))
        .collect();
    if minor > 0 || !unknown.is_empty() {
        reply.negotiate(&unknown);
    }
    let (session, role): (Session, _) = match from {
        From::Owner if user == "owner" => (house.engine.owner().into(), None),
        From::Owner => {
            let message = "this socket is the owner's alone";
            return Err(ConnectionEnd::Fatal(hinted("28000", message, "psql -U owner")));
        }
        From::Network => {
            if house.needs_tls && !channel.get_ref().is_secured() {
                let message = "this server takes log-ins over TLS only";
                return Err(ConnectionEnd::Fatal(hinted(
                    "28000",
                    message,
                    "sslmode=require, or verify-full",
                )));
            }
            (log_in(house, &seat, channel, &user, &mut reply)?.into(), Some(user.clone()))
        }
    };
    if let Some(role) = &role
        && !house.seated(&seat, role)
    {
        let message = "the server, or this role, has as many connections as it may have";
        return Err(ConnectionEnd::Fatal(said("53300", message)));
    }
    let database = parameter("database").unwrap_or(&user);
    if database != DATABASE && database != user {
        let message = format!("there is no database {database}");
        return Err(ConnectionEnd::Fatal(hinted("3D000", message, format!("dbname={DATABASE}"))));
    }
    let mut desk = Desk::new(Arc::clone(house), seat, session, role);
    desk.reply = reply;
    settings(&mut desk, parameters)?;
    desk.reply.logged_in();
    for (name, key) in [
        ("server_version", "server_version"),
        ("server_encoding", "server_encoding"),
        ("client_encoding", "client_encoding"),
        ("application_name", "application_name"),
        ("DateStyle", "datestyle"),
        ("IntervalStyle", "intervalstyle"),
        ("TimeZone", "timezone"),
        ("integer_datetimes", "integer_datetimes"),
        ("standard_conforming_strings", "standard_conforming_strings"),
        ("in_hot_standby", "in_hot_standby"),
        ("default_transaction_read_only", "default_transaction_read_only"),
    ] {
        // The client's time zone has no effect: moments are sent with their own.
        let value = if key == "timezone" { "UTC".to_owned() } else { desk.setting(key) };
        desk.reply.parameter(name, &value);
    }
    desk.reply.parameter("is_superuser", if desk.role.is_none() { "on" } else { "off" });
    desk.reply.parameter("session_authorization", &user);
    let (process, secret) = (desk.seat.process, desk.seat.secret);
    desk.reply.key(process, secret);
    desk.reply.ready(b'I');
    channel.get_mut().rests()?;
    send(channel, &mut desk.reply)?;
    Ok(desk)
}

/// The session of a client that proves that it knows the password of a role.
fn log_in(
    house: &House,
    seat: &Seat,
    channel: &mut BufReader<Channel>,
    role: &str,
    reply: &mut Reply,
) -> Result<Analyst, ConnectionEnd> {
    let lost = || ConnectionEnd::Fatal(said("58030", "the vault cannot be read"));
    let mut log_in = house.engine.log_in(role).map_err(|_| lost())?;
    let tls = house.tls.as_ref().filter(|_| channel.get_ref().is_secured());
    if let Some(certificate) = tls.and_then(|tls| tls.certificate.clone()) {
        log_in = log_in.bound_to(certificate);
    }
    reply.mechanisms(log_in.mechanisms());
    send(channel, reply)?;
    let (mechanism, first) = first_of_log_in(&password(channel)?)?;
    let address = channel.get_ref().address();
    let refused = |error: Error| {
        count(&house.counts.failed_log_ins);
        ConnectionEnd::Fatal(said("28P01", error.to_string()))
    };
    // The error depends on the message alone. No password was tried, and nothing is recorded.
    let answer = log_in.first(&mechanism, &first).map_err(refused)?;
    reply.log_in_goes_on(&answer);
    send(channel, reply)?;
    let last = password(channel)?;
    let waiting = channel.get_ref();
    let deadline = waiting.deadline().unwrap_or_else(Instant::now);
    let Some(turn) = house.turn(seat, deadline, &|| waiting.has_ended()) else {
        count(&house.counts.refused_connections);
        let message = "too many log-ins of this address failed or wait: try again later";
        return Err(ConnectionEnd::Fatal(said("53300", message)));
    };
    match log_in.finish(&last) {
        Ok((answer, analyst)) => {
            reply.log_in_ends(&answer);
            house.record_log_in(role, address, "00000");
            Ok(analyst)
        }
        Err(error @ Error::LogIn) => {
            turn.failed();
            house.record_log_in(role, address, "28P01");
            Err(refused(error))
        }
        Err(_) => Err(lost()),
    }
}

/// The next message of a log-in.
fn password(channel: &mut impl Read) -> Result<Vec<u8>, ConnectionEnd> {
    match message::next(channel, message::LONGEST_BEFORE_LOG_IN, Encoding::Utf8)? {
        Message::Password(body) => Ok(body),
        _ => Err(ConnectionEnd::Fatal(said("08P01", "a log-in goes on"))),
    }
}

/// Applies the settings of a client's first message.
fn settings(desk: &mut Desk, parameters: &[(String, String)]) -> Result<(), ConnectionEnd> {
    let options = parameters.iter().filter(|(name, _)| name == "options");
    let options: Vec<(String, String)> = options
        .flat_map(|(_, value)| value.split_whitespace())
        .filter_map(|word| word.trim_start_matches("-c").trim_start_matches("--").split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    for (name, value) in parameters.iter().chain(&options) {
        let name = name.to_lowercase();
        if name == "client_encoding" {
            let Some(encoding) = encoding::named(value) else {
                let message = "texts are in UTF8, LATIN1 or WIN1252 here";
                return Err(ConnectionEnd::Fatal(hinted("22023", message, "client_encoding=UTF8")));
            };
            desk.settings.insert(name, encoding.to_owned());
            continue;
        }
        let kept = [
            "application_name",
            "statement_timeout",
            "hushql.accuracy",
            "hushql.bounds",
            "hushql.refine",
            "client_min_messages",
            "extra_float_digits",
        ];
        if SETTINGS.iter().any(|(known, _)| *known == name) && kept.contains(&name.as_str()) {
            let value: String = value.chars().filter(|c| !c.is_control()).take(64).collect();
            let own = name == "application_name";
            desk.settings.insert(name, if own { value } else { value.to_lowercase() });
        }
    }
    desk.settle();
    Ok(())
}

/// Answers messages until the connection ends.
fn talk(desk: &mut Desk, channel: &mut BufReader<Channel>) -> Result<(), ConnectionEnd> {
    // After an error in a series of messages, the rest of the series is skipped.
    let mut skips = false;
    loop {
        if desk.house.is_stopping() {
            return Err(ConnectionEnd::Fatal(said("57P01", "the server is stopping")));
        }
        let message = message::next(channel, message::LONGEST, desk.reply.encoding)?;
        match &message {
            Message::Sync | Message::Terminate => {}
            _ if skips => continue,
            Message::Query(_)
            | Message::Parse { .. }
            | Message::Bind(_)
            | Message::Describe(..)
            | Message::Execute { .. } => desk.may_go_on().map_err(ConnectionEnd::Fatal)?,
            _ => {}
        }
        let done = match message {
            Message::Query(sql) => {
                simple::query(desk, &sql, channel.get_mut())?;
                Ok(())
            }
            Message::Parse { name, sql, types } => {
                let may = match desk.has_failed {
                    true => desk.may_run(&StatementText::of(&sql).kind).map_err(Failed::Said),
                    false => Ok(()),
                };
                let done = may.and_then(|()| extended::parse(desk, name, &sql, types));
                done.map_err(|failed| (failed, Some(Arc::new(StatementText::of(&sql)))))
            }
            Message::Bind(bind) => {
                let text =
                    desk.statements.get(&bind.statement).map(|known| Arc::clone(&known.text));
                let may = match &text {
                    Some(text) => desk.may_run(&text.kind).map_err(Failed::Said),
                    None => Ok(()),
                };
                may.and_then(|()| extended::bind(desk, bind)).map_err(|failed| (failed, text))
            }
            Message::Describe(named, name) => {
                let text = desk.statements.get(&name).map(|known| Arc::clone(&known.text));
                let done = extended::describe(desk, named, &name);
                done.map_err(|failed| (failed, text))
            }
            Message::Execute { portal, rows } => {
                let text = desk.portals.get(&portal).map(|known| Arc::clone(&known.text));
                let may = match &text {
                    Some(text) => desk.may_run(&text.kind).map_err(Failed::Said),
                    None => Ok(()),
                };
                match may.and_then(|()| extended::execute(desk, &portal, rows)) {
                    // An answer that was paid for is sent immediately.
                    Ok(()) => send(channel, &mut desk.reply).map(Ok)?,
                    Err(failed) => Err((failed, text)),
                }
            }
            Message::Close(named, name) => {
                extended::close(desk, named, &name);
                Ok(())
            }
            Message::Flush => send(channel, &mut desk.reply).map(Ok)?,
            Message::Sync => {
                skips = false;
                if !desk.in_transaction {
                    desk.portals.retain(|_, portal| is_cursor(&portal.text));
                }
                let state = desk.state();
                desk.reply.ready(state);
                send(channel, &mut desk.reply).map(Ok)?
            }
            Message::Terminate => return Ok(()),
            // A client whose COPY was refused may still send its data.
            Message::CopyIn => Ok(()),
            Message::Password(_) => {
                return Err(ConnectionEnd::Fatal(said(
                    "08P01",
                    "this connection is already logged in",
                )));
            }
        };
        if let Err((failed, text)) = done {
            let text = text.unwrap_or_else(|| Arc::new(StatementText::of("")));
            let said = said_of(failed, &text.sql, desk.role.is_none());
            desk.record(&text, &said.code, None);
            desk.error(&said);
            skips = true;
            // The rest is skipped, including a Flush. A client that waited for this message before
            // its Sync would otherwise wait forever.
            send(channel, &mut desk.reply)?;
        }
        // Messages are sent before they fill the memory, even if the client did not ask for them
        // yet.
        if desk.reply.len() > MOST_WAITING {
            send(channel, &mut desk.reply)?;
        }
    }
}

/// Whether a portal was declared as a cursor, which outlives its statement.
fn is_cursor(text: &StatementText) -> bool {
    matches!(text.kind, StatementKind::Declare(..))
}
