//! PEM, and files that hold keys.
//!
//! In: DER, and a path. Out: text, and files of mode 0600 that are never overwritten. A key that
//! other users may read is refused.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::{PemObject, SectionKind};

pub(super) const CERTIFICATE: &str = "CERTIFICATE";
pub(super) const PRIVATE_KEY: &str = "PRIVATE KEY";
pub(super) const PUBLIC_KEY: &str = "PUBLIC KEY";

/// The most bytes of a file of keys.
const LARGEST: u64 = 1 << 16;

/// The characters of a line of PEM.
const LINE: usize = 64;

/// An element of PEM.
pub(super) fn text(label: &str, der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for (at, character) in encoded.chars().enumerate() {
        if at > 0 && at % LINE == 0 {
            pem.push('\n');
        }
        pem.push(character);
    }
    pem.push_str("\n-----END ");
    pem.push_str(label);
    pem.push_str("-----\n");
    pem
}

/// The elements of a text.
pub(super) fn sections(text: &[u8]) -> io::Result<Vec<(SectionKind, Vec<u8>)>> {
    let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(text);
    sections.collect::<Result<_, _>>().map_err(|error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("this is not PEM: {error}"))
    })
}

/// Reads a file of keys. It is refused if other users may read it.
pub(super) fn read_secret(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;

        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            let problem = "others may read this file, which holds a key: chmod 600";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        }
    }
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text)?;
    Ok(text)
}

/// Writes a new file that only its owner may read. An existing file is not changed, and is an
/// error.
pub(super) fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;

        options.mode(0o600);
    }
    let mut file = options.open(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let der = (0..200).collect::<Vec<u8>>();
        let both = text(CERTIFICATE, &der) + &text(PRIVATE_KEY, &der[..48]);
        assert!(both.lines().all(|line| line.len() <= LINE), "{both}");
        let read = sections(both.as_bytes()).unwrap();
        assert_eq!(read[0], (SectionKind::Certificate, der.clone()));
        assert_eq!(read[1], (SectionKind::PrivateKey, der[..48].to_vec()));
        assert!(sections(b"-----BEGIN CERTIFICATE-----\n%%\n-----END CERTIFICATE-----\n").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn keys_are_their_owners_alone() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w1.pem");
        write_secret(&path, "mine").unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(write_secret(&path, "other").is_err());
        assert_eq!(read_secret(&path).unwrap(), b"mine");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read_secret(&path).unwrap_err().to_string().contains("chmod 600"));
    }
}
