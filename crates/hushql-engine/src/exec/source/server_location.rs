//! Where a table of a PostgreSQL server is: the location and the name, as declarations write them.
//!
//! In: `LOCATION` and `OPTIONS (table …)`. Out: an [`Address`] and a [`Relation`]. The vault keeps
//! the location, so a location with a password is refused, and no message repeats a location that
//! may hold one.
//!
//! ```text
//! postgresql://reader@db.clinic.example:5433/clinic             host db.clinic.example, TLS
//! postgresql:///clinic?host=/run/postgresql&sslmode=disable     a socket of this machine
//! visits."2025"                                                 schema visits, table 2025
//! ```

use std::fmt;

use crate::catalog::{Source, quoted};
use crate::error::Error;

/// The default port.
const PORT: u16 = 5432;
/// The default schema.
const SCHEMA: &str = "public";

/// A database of a server, and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    /// The user; `None` for the user of the environment.
    pub(super) user: Option<String>,
    /// A name, an address, or the absolute path of a socket's folder.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) database: String,
    /// True if the server has to show a certificate for its name.
    pub(super) has_tls: bool,
}

/// A table or view of a database.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Relation {
    pub(super) schema: String,
    pub(super) name: String,
}

/// Quoted as the server reads it.
impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", identifier(&self.schema), identifier(&self.name))
    }
}

/// A name in double quotes, as the server reads it.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Whether a location is one of a PostgreSQL server.
pub(super) fn is_server(location: &str) -> bool {
    rest_of(location).is_some()
}

fn rest_of(location: &str) -> Option<&str> {
    let (scheme, rest) = location.split_once("://")?;
    ["postgresql", "postgres"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
        .then_some(rest)
}

impl Address {
    /// Reads a location.
    ///
    /// # Errors
    /// [`Error::Catalog`] for a location that holds a password or cannot be read. The message does
    /// not repeat it.
    pub(super) fn parse(location: &str) -> Result<Self, Error> {
        let form = "postgresql://user@host:5432/database";
        let wrong = |what: &str| Error::catalog(format!("{what}: write LOCATION '{form}'"));
        let Some(rest) = rest_of(location) else {
            return Err(wrong("STORED AS POSTGRES needs the address of a server"));
        };
        if location.chars().any(char::is_control) {
            return Err(wrong("the address of a server has no control characters"));
        }
        let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = before.split_once('/').unwrap_or((before, ""));
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        let names_password = |pair: &str| {
            let name = pair.split('=').next().unwrap_or_default();
            plain(name).is_none_or(|name| name.to_lowercase().contains("pass"))
        };
        let has_colon =
            |user: &str| user.contains(':') || plain(user).is_some_and(|user| user.contains(':'));
        if user.is_some_and(has_colon) || query.split('&').any(names_password) {
            return Err(Error::catalog(format!(
                "a location is kept in the vault, so it holds no password: write LOCATION '{form}', and give the program the password in PGPASSWORD, or in the file that PGPASSFILE names (else ~/.pgpass)"
            )));
        }
        let decoded = |text: &str| {
            plain(text).ok_or_else(|| wrong("a % in the address begins two hexadecimal digits"))
        };
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':').unwrap_or(port)),
            None => place.rsplit_once(':').unwrap_or((place, "")),
        };
        let (mut host, mut port) = (decoded(host)?, port.to_owned());
        let mut has_tls = None;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value)?;
            match (name, value.as_str()) {
                ("host", _) if host.is_empty() => host = value,
                ("port", _) if port.is_empty() => port = value,
                ("sslmode", "disable") => has_tls = Some(false),
                ("sslmode", "verify-full") => has_tls = Some(true),
                ("sslmode", _) => {
                    return Err(Error::catalog(
                        "sslmode is verify-full, for a server that shows a certificate for its name, or disable: with any other value, nobody knows who reads along",
                    ));
                }
                _ => {
                    return Err(wrong("after ? an address has host, port and sslmode, each once"));
                }
            }
        }
        let port = match port.as_str() {
            "" => PORT,
            port => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| wrong("a port is a number from 1 to 65535"))?,
        };
        let database = decoded(database)?;
        let user = user.map(decoded).transpose()?.filter(|user| !user.is_empty());
        if host.is_empty() || host.contains(',') || (host.contains('/') && !host.starts_with('/')) {
            return Err(wrong(
                "an address names one host, or the folder of a socket as in postgresql:///database?host=/run/postgresql",
            ));
        }
        let texts = [Some(&host), Some(&database), user.as_ref()];
        if texts.into_iter().flatten().any(|text| text.chars().any(char::is_control)) {
            return Err(wrong("the address of a server has no control characters"));
        }
        if database.is_empty() || database.contains('/') {
            return Err(wrong("an address names a database"));
        }
        let has_tls = has_tls.unwrap_or(!is_here(&host));
        Ok(Self { user, host, port, database, has_tls })
    }

    /// Whether another address leads to the same database, perhaps as another user.
    fn is_database_of(&self, other: &Self) -> bool {
        let Self { host, port, database, .. } = self;
        // A socket, a name and an address of this machine lead to the same server at a port.
        let is_one_host =
            host.eq_ignore_ascii_case(&other.host) || (is_here(host) && is_here(&other.host));
        is_one_host && *port == other.port && *database == other.database
    }
}

/// True if a host is this machine, so that nobody is between the client and the server.
fn is_here(host: &str) -> bool {
    host.starts_with('/')
        || host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A text without its percent escapes; `None` if one is broken.
fn plain(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(part.get(2..)?.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

impl Relation {
    /// Reads the name of a table as the server does: letters without quotes become lower case.
    ///
    /// # Errors
    /// [`Error::Catalog`] for anything but one or two names.
    pub(super) fn parse(written: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::catalog(
                "the option table is the name of a table on the server: write OPTIONS (table 'schema.name'), or '\"Schema\".\"Name\"' for names with other letters than a-z, 0-9 and _",
            )
        };
        let mut names = Vec::new();
        let mut rest = written.trim();
        loop {
            let (name, behind) = first_name(rest).ok_or_else(wrong)?;
            names.push(name);
            match behind.strip_prefix('.') {
                Some(behind) => rest = behind,
                None if behind.is_empty() => break,
                None => return Err(wrong()),
            }
        }
        match <[String; 2]>::try_from(names) {
            Ok([schema, name]) => Ok(Self { schema, name }),
            Err(names) => match <[String; 1]>::try_from(names) {
                Ok([name]) => Ok(Self::in_public(&name)),
                Err(_) => Err(wrong()),
            },
        }
    }

    /// A table of the default schema.
    pub(super) fn in_public(name: &str) -> Self {
        Self { schema: SCHEMA.to_owned(), name: name.to_owned() }
    }

    /// The name as declarations write it.
    pub(crate) fn written(schema: &str, name: &str) -> String {
        format!("{}.{}", quoted(schema), quoted(name))
    }
}

/// The first name of a text, and the text after it.
fn first_name(text: &str) -> Option<(String, &str)> {
    let Some(mut rest) = text.strip_prefix('"') else {
        let is_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let end = text.find(|c| !is_of_name(c)).unwrap_or(text.len());
        let (name, behind) = text.split_at_checked(end)?;
        let begins = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
        return begins.then(|| (name.to_lowercase(), behind));
    };
    let mut name = String::new();
    loop {
        let (part, behind) = rest.split_once('"')?;
        name.push_str(part);
        match behind.strip_prefix('"') {
            Some(behind) => {
                name.push('"');
                rest = behind;
            }
            None => {
                let is_name = !name.is_empty() && !name.chars().any(char::is_control);
                return is_name.then_some((name, behind));
            }
        }
    }
}

/// The address and the name of a table on a server.
///
/// # Errors
/// [`Error::Internal`] for a table that is not on a server, and [`Error::Catalog`] for a damaged
/// declaration.
pub(super) fn place(source: &Source) -> Result<(Address, Relation), Error> {
    match source {
        Source::Postgres { location, schema, table } => {
            let relation = Relation { schema: schema.clone(), name: table.clone() };
            Ok((Address::parse(location)?, relation))
        }
        Source::File { .. } | Source::Registered | Source::Released { .. } => Err(Error::Internal),
    }
}

/// Whether two sources are the same table of a server. Two names of another machine count as
/// different.
pub(crate) fn is_same_table(one: &Source, other: &Source) -> bool {
    match (place(one), place(other)) {
        (Ok((one, of_one)), Ok((other, of_other))) => {
            one.is_database_of(&other) && of_one == of_other
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let address = |location: &str| Address::parse(location).unwrap();
        let found = address("postgresql://reader@db.clinic.example:5433/clinic");
        assert_eq!(found.user.as_deref(), Some("reader"));
        assert_eq!((found.host.as_str(), found.port), ("db.clinic.example", 5433));
        assert!(found.database == "clinic" && found.has_tls);
        let found = address("POSTGRES:///my%20db?host=/run/postgresql&port=1");
        assert_eq!((found.host.as_str(), found.port), ("/run/postgresql", 1));
        assert!(found.database == "my db" && !found.has_tls && found.user.is_none());
        let found = address("postgresql://%2Frun%2Fpostgresql:7/d");
        assert_eq!((found.host.as_str(), found.port), ("/run/postgresql", 7));
        let found = address("postgresql://a%40b@[::1]:9/d?sslmode=verify-full");
        assert_eq!((found.host.as_str(), found.port), ("::1", 9));
        assert!(found.has_tls && found.user.as_deref() == Some("a@b"));
        assert!(
            !address("postgresql://[::1]/d").has_tls && !address("postgres://localhost/d").has_tls
        );
        assert!(address("postgresql://10.0.0.1/d").has_tls);
        assert!(!address("postgresql://10.0.0.1/d?sslmode=disable").has_tls);
    }

    #[test]
    fn passwords_are_refused_and_not_repeated() {
        for location in [
            "postgresql://u:Zqsecret@h/d",
            "postgresql://u:Zqsecret@h:5432/d?sslmode=disable",
            "postgresql://:Zqsecret@h/d",
            "postgresql://u%3AZqsecret@h/d",
            "postgresql://h/d?password=Zqsecret",
            "postgresql://h/d?sslmode=disable&PassWord=Zqsecret",
            "postgresql://h/d?p%61ssword=Zqsecret",
            "postgresql://h/d?sslpassword=Zqsecret",
            "postgresql://h/d?passfile=Zqsecret",
        ] {
            let error = Address::parse(location).unwrap_err().to_string();
            assert!(error.contains("PGPASSWORD") && !error.contains("Zqsecret"), "{error}");
        }
        for location in [
            "visits.csv",
            "mysql://h/d",
            "postgresql://h",
            "postgresql:///d",
            "postgresql://h/",
            "postgresql://h,i/d",
            "postgresql://h:0/d",
            "postgresql://h:x/d",
            "postgresql://h:70000/d",
            "postgresql://h/d/e",
            "postgresql://h/d?options=-c",
            "postgresql://h/d?sslmode=prefer",
            "postgresql://h/d%0a",
            "postgresql://h/d%zz",
            "postgresql://h/d%é",
            "postgresql:///d?host=relative/path",
        ] {
            assert!(Address::parse(location).is_err(), "{location}");
        }
    }

    #[test]
    fn names_are_read_as_the_server_reads_them() {
        for (written, schema, name) in [
            ("visits", "public", "visits"),
            ("Clinic.Visits", "clinic", "visits"),
            ("\"Clinic\".visits_2", "Clinic", "visits_2"),
            ("\"a\"\"b\".\"c.d\"", "a\"b", "c.d"),
            ("\"x'; --\"", "public", "x'; --"),
        ] {
            let found = Relation::parse(written).unwrap();
            assert_eq!((found.schema.as_str(), found.name.as_str()), (schema, name), "{written}");
            let again = Relation::parse(&Relation::written(&found.schema, &found.name)).unwrap();
            assert_eq!(again, found);
            assert_eq!(Relation::parse(&found.to_string()).unwrap(), found);
        }
        for written in
            ["", "a.", ".a", "a.b.c", "a b", "\"a", "\"\"", "a;b", "1a", "\"a\nb\"", "a\"b\""]
        {
            assert!(Relation::parse(written).is_err(), "{written}");
        }
    }

    #[test]
    fn one_table_is_recognized_under_other_users() {
        let source = |location: &str, table: &str| Source::Postgres {
            location: location.to_owned(),
            schema: "public".to_owned(),
            table: table.to_owned(),
        };
        let one = source("postgresql://a@Host/d", "t");
        assert!(is_same_table(&one, &source("postgres://b@host:5432/d?sslmode=disable", "t")));
        let here = source("postgresql:///d?host=/run/postgresql", "t");
        assert!(is_same_table(&here, &source("postgresql://localhost/d", "t")));
        for other in [
            source("postgresql://a@host/d", "u"),
            source("postgresql://a@host/e", "t"),
            source("postgresql://a@host:1/d", "t"),
            Source::Registered,
        ] {
            assert!(!is_same_table(&one, &other));
        }
    }
}
