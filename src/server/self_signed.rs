//! A certificate that the server makes for itself, to try TLS without another certificate.
//!
//! In: a folder, and the address where the server listens. Out: the files of a key and of a
//! certificate. They are made if the folder has none, never overwritten, and reused by the next
//! start. No authority signs the certificate: a client trusts it because it got the file.
//!
//! ```text
//! self-made.key   0600, ECDSA on P-256      self-made.crt   localhost, this machine's name and addresses, for a year
//! psql "host=127.0.0.1 … sslmode=verify-full sslrootcert=self-made.crt"
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Datelike, Days, NaiveDate, NaiveDateTime, Utc};
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::tls::element;

/// The names of the files.
const KEY: &str = "self-made.key";
const CERTIFICATE: &str = "self-made.crt";

/// How many days a certificate is valid.
const DAYS: u64 = 365;

/// The length of a line of PEM.
const LINE: usize = 64;

/// The certificate in this folder and its key, made for this address if they do not exist. `tell`
/// gets a sentence with the path of the certificate.
///
/// # Errors
/// A sentence, if they cannot be made or read, if one of the two is missing, if other users may
/// read the key, or if the certificate has expired.
pub(super) fn files(
    folder: &Path,
    address: IpAddr,
    tell: &impl Fn(&str),
) -> Result<(PathBuf, PathBuf), String> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = std::path::absolute(folder).map_err(|error| shown(folder, &error))?;
    let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
    // A file that cannot be examined counts as existing.
    let is_there = |path: &Path| path.try_exists().unwrap_or(true);
    match (is_there(&certificate), is_there(&key)) {
        (true, true) => {
            is_alone(&key)?;
            let until = end(&certificate)?;
            let now = Utc::now().naive_utc();
            if until <= now {
                return Err(format!(
                    "{} was good until {until} UTC: remove it and {}, and start again to make new ones",
                    certificate.display(),
                    key.display()
                ));
            }
            tell(&format!(
                "the certificate is {}, made before and good until {until} UTC: clients need sslmode=verify-full sslrootcert={0}",
                certificate.display()
            ));
        }
        (false, false) => {
            let names = names(address);
            let made = made(&names, Utc::now())?;
            write(&key, 0o600, "PRIVATE KEY", &made.key)?;
            if let Err(error) = write(&certificate, 0o644, "CERTIFICATE", &made.certificate) {
                // The key is useless without its certificate. The next start makes both.
                let _ = std::fs::remove_file(&key);
                return Err(error);
            }
            tell(&format!(
                "made the certificate {}, for trying, of {}: clients need sslmode=verify-full sslrootcert={0}",
                certificate.display(),
                names.join(", ")
            ));
        }
        (has_certificate, _) => {
            let (found, missing) =
                if has_certificate { (&certificate, &key) } else { (&key, &certificate) };
            return Err(format!(
                "{} is there without {}: put that back, or remove the first to make both anew",
                found.display(),
                missing.display()
            ));
        }
    }
    Ok((certificate, key))
}

fn shown(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// The names and addresses by which clients may reach a server that listens at this address.
fn names(address: IpAddr) -> Vec<String> {
    let mut names = vec!["localhost".to_owned()];
    names.extend(machine().filter(|name| name != "localhost"));
    let local = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let more = Some(address).filter(|more| !more.is_unspecified() && !local.contains(more));
    names.extend(local.into_iter().chain(more).map(|address| address.to_string()));
    names
}

/// The name of this machine, if a certificate can hold it.
#[cfg(unix)]
fn machine() -> impl Iterator<Item = String> {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let is_one = |name: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        !name.is_empty() && name.chars().all(plain) && name.parse::<IpAddr>().is_err()
    };
    name.filter(is_one).into_iter()
}

#[cfg(not(unix))]
fn machine() -> impl Iterator<Item = String> {
    std::iter::empty()
}

/// A certificate and its key, in DER.
struct Made {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// A certificate for these names, signed by its own key.
fn made(names: &[String], now: DateTime<Utc>) -> Result<Made, String> {
    let failed = |error: rcgen::Error| format!("no certificate can be made: {error}");
    let wrong = || "no certificate can be made: the clock of this machine is wrong".to_owned();
    let day = |date: NaiveDate| -> Result<_, String> {
        // Constructing a time from these three numbers panics if they are out of range.
        let month = u8::try_from(date.month()).map_err(|_| wrong())?;
        let day = u8::try_from(date.day()).map_err(|_| wrong())?;
        if !(2000..9999).contains(&date.year()) {
            return Err(wrong());
        }
        Ok(date_time_ymd(date.year(), month, day))
    };
    let today = now.date_naive();
    // The clock of a client may be slow.
    let from = today.checked_sub_days(Days::new(1)).ok_or_else(wrong)?;
    let until = today.checked_add_days(Days::new(DAYS)).ok_or_else(wrong)?;
    let mut wanted = CertificateParams::new(names).map_err(failed)?;
    wanted.distinguished_name = rcgen::DistinguishedName::new();
    wanted.distinguished_name.push(DnType::CommonName, "HushQL, made by itself for trying");
    (wanted.not_before, wanted.not_after) = (day(from)?, day(until)?);
    wanted.is_ca = IsCa::ExplicitNoCa;
    wanted.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    wanted.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = wanted.self_signed(&key).map_err(failed)?;
    Ok(Made { certificate: certificate.der().to_vec(), key: key.serialize_der() })
}

/// Writes a new file. An existing file is not changed, and is an error.
fn write(path: &Path, mode: u32, label: &str, der: &[u8]) -> Result<(), String> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(mode);
    }
    #[cfg(not(unix))]
    let _ = mode;
    let mut file = options.open(path).map_err(|error| shown(path, &error))?;
    filled(&mut file, label, der).map_err(|error| {
        let _ = std::fs::remove_file(path);
        shown(path, &error)
    })
}

/// Writes an element of PEM, and syncs it to the disk.
fn filled(file: &mut File, label: &str, der: &[u8]) -> io::Result<()> {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for (at, character) in text.chars().enumerate() {
        if at > 0 && at % LINE == 0 {
            pem.push('\n');
        }
        pem.push(character);
    }
    pem.push_str(&format!("\n-----END {label}-----\n"));
    file.write_all(pem.as_bytes())?;
    file.sync_all()
}

/// Refuses a key that other users may read.
#[cfg(unix)]
fn is_alone(key: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;

    let found = std::fs::metadata(key).map_err(|error| shown(key, &error))?;
    match found.permissions().mode() & 0o077 {
        0 => Ok(()),
        _ => Err(format!(
            "{}: other users may read this key: remove it and {CERTIFICATE} to make new ones, or chmod 600",
            key.display()
        )),
    }
}

#[cfg(not(unix))]
fn is_alone(_: &Path) -> Result<(), String> {
    Ok(())
}

/// When a certificate expires.
fn end(path: &Path) -> Result<NaiveDateTime, String> {
    let certificate = CertificateDer::from_pem_file(path)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    until(&certificate).ok_or_else(|| format!("{}: this is not a certificate", path.display()))
}

/// The same for DER. The signed part has the version, a serial number, the algorithm, the issuer,
/// and the beginning and end of validity.
fn until(certificate: &[u8]) -> Option<NaiveDateTime> {
    let (body, _) = element(certificate)?;
    let (mut rest, _) = element(body)?;
    for _ in 0..4 {
        (_, rest) = element(rest)?;
    }
    let (times, _) = element(rest)?;
    let (_, last) = element(times)?;
    let (text, _) = element(last)?;
    let text = std::str::from_utf8(text).ok()?;
    // Until 2049, years have two digits.
    let whole = if text.len() == 13 { format!("20{text}") } else { text.to_owned() };
    NaiveDateTime::parse_from_str(&whole, "%Y%m%d%H%M%SZ").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(folder: &Path) -> Result<(PathBuf, PathBuf, String), String> {
        let said = std::cell::RefCell::new(String::new());
        let tell = |sentence: &str| said.borrow_mut().push_str(sentence);
        let (certificate, key) = files(folder, [192, 0, 2, 7].into(), &tell)?;
        Ok((certificate, key, said.into_inner()))
    }

    #[test]
    fn a_certificate_is_made_once_and_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key, said) = told(folder.path()).unwrap();
        assert!(said.contains("made the certificate") && said.contains("192.0.2.7"), "{said}");
        assert!(said.contains(&format!("sslrootcert={}", certificate.display())), "{said}");
        let read = |path: &Path| std::fs::read(path).unwrap();
        let before = (read(&certificate), read(&key));
        let (_, _, said) = told(folder.path()).unwrap();
        assert!(said.contains("made before"), "{said}");
        assert_eq!((read(&certificate), read(&key)), before);
        assert!(super::super::tls::Tls::read(&certificate, &key).unwrap().certificate.is_some());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&key), 0o600);
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).unwrap();
            assert!(told(folder.path()).unwrap_err().contains("chmod 600"));
        }
    }

    #[test]
    fn nothing_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        for (there, missing) in [(KEY, CERTIFICATE), (CERTIFICATE, KEY)] {
            let path = folder.path().join(there);
            std::fs::write(&path, "mine").unwrap();
            let said = told(folder.path()).unwrap_err();
            assert!(said.contains(&format!("{there} is there without")), "{said}");
            assert_eq!(std::fs::read(&path).unwrap(), b"mine");
            assert!(!folder.path().join(missing).exists());
            assert!(write(&path, 0o600, "X", b"other").is_err());
            assert_eq!(std::fs::read(&path).unwrap(), b"mine");
            std::fs::remove_file(path).unwrap();
        }
        assert!(told(&folder.path().join("nowhere")).unwrap_err().contains("nowhere"));
    }

    #[test]
    fn a_certificate_that_is_over_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let long_ago = DateTime::from_timestamp(1_600_000_000, 0).unwrap();
        let made = made(&["localhost".to_owned()], long_ago).unwrap();
        let day = NaiveDate::from_ymd_opt(2021, 9, 13).unwrap();
        assert_eq!(until(&made.certificate), day.and_hms_opt(0, 0, 0));
        write(&folder.path().join(KEY), 0o600, "PRIVATE KEY", &made.key).unwrap();
        write(&folder.path().join(CERTIFICATE), 0o644, "CERTIFICATE", &made.certificate).unwrap();
        let said = told(folder.path()).unwrap_err();
        assert!(said.contains("good until 2021-09-13"), "{said}");
        for short in [&b""[..], b"0", b"0\x03abc", &made.certificate[..40]] {
            assert_eq!(until(short), None);
        }
    }

    #[test]
    fn names_are_those_of_this_machine() {
        let names = names([0, 0, 0, 0].into());
        assert_eq!(names.first().map(String::as_str), Some("localhost"));
        assert!(names.iter().any(|name| name == "127.0.0.1"), "{names:?}");
        assert!(names.iter().any(|name| name == "::1"), "{names:?}");
        assert!(!names.iter().any(|name| name == "0.0.0.0"), "{names:?}");
    }
}
