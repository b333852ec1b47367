//! The folder of keys that the owner of a vault keeps, and the workers that it names.
//!
//! In: a folder, and names of workers with their addresses. Out: the files of the authority and of
//! the driver if the folder has none, a file for each worker, and the list of workers. Only the
//! list is ever overwritten.
//!
//! ```text
//! keys/authority.pem  keys/driver.pem  keys/w1.pem  keys/w2.pem
//! keys/workers        w1 10.0.0.5:7000
//!                     w2 10.0.0.6:7000
//! ```

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use super::authority::{Authority, DRIVER};
use super::certificate::invalid;
use super::{DriverKeys, pem};

/// The file of the authority.
const AUTHORITY: &str = "authority.pem";

/// The file of the driver.
const DRIVERS: &str = "driver.pem";

/// The list of workers.
const WORKERS: &str = "workers";

/// The files that were written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Enrolled {
    /// The files of the authority and of the driver, if the folder had none.
    pub made: Vec<PathBuf>,
    /// The files of the workers, in the order of their names in the call. Each belongs on the
    /// machine of its worker.
    pub workers: Vec<PathBuf>,
}

/// Whether a worker may have this name: letters, digits and hyphens, a letter first, at most 63.
fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let begins = name.bytes().next().is_some_and(|first| first.is_ascii_lowercase());
    let ends = name.bytes().next_back().is_some_and(is_letter);
    let reserved = [DRIVER, "authority", WORKERS];
    begins
        && ends
        && name.len() <= 63
        && name.bytes().all(|byte| is_letter(byte) || byte == b'-')
        && !reserved.contains(&name)
}

/// Whether this is the address of a worker: a host and a port.
fn is_address(address: &str) -> bool {
    let parsed = url::Url::parse(&format!("https://{address}/"));
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let is_plain = !address.contains(['/', '?', '#', '@', ' ']);
    parsed.is_ok_and(|url| url.has_host()) && port.is_some_and(|port| port > 0) && is_plain
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Makes the files of workers, given their names and addresses (`HOST:PORT`), in a folder of keys,
/// and the files of the authority and of the driver if the folder has none. The folder is made if
/// it is missing. A worker that is named again keeps its file, or gets a new one if the file was
/// removed; its address is replaced.
///
/// # Errors
/// If a name or an address is invalid, before anything is written; if a file cannot be written or
/// read.
pub fn enrol(folder: &Path, workers: &[(&str, &str)]) -> io::Result<Enrolled> {
    for (name, address) in workers {
        if !is_name(name) {
            let problem = format!(
                "{name:?} is not the name of a worker: small letters, digits and hyphens, a letter first, and not driver, authority or workers"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        if !is_address(address) {
            let problem =
                format!("{address:?} is not an address: write HOST:PORT, as in 10.0.0.5:7000");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
    }
    made(folder).map_err(|error| at(folder, &error))?;
    let mut done = Enrolled { made: Vec::new(), workers: Vec::new() };
    let path = folder.join(AUTHORITY);
    let authority = match is_there(&path) {
        true => pem::read_secret(&path).and_then(|text| Authority::from_pem(&text)),
        false => Authority::new().and_then(|new| {
            pem::write_secret(&path, &new.pem())?;
            done.made.push(path.clone());
            Ok(new)
        }),
    };
    let authority = authority.map_err(|error| at(&path, &error))?;
    let path = folder.join(DRIVERS);
    let driver = match is_there(&path) {
        true => pem::read_secret(&path).and_then(|text| DriverKeys::from_pem(&text)),
        false => authority.driver().and_then(|new| {
            pem::write_secret(&path, &new.pem())?;
            done.made.push(path.clone());
            Ok(new)
        }),
    };
    let driver = driver.map_err(|error| at(&path, &error))?;
    let mut listed = listed(folder)?;
    for (name, address) in workers {
        let path = folder.join(format!("{name}.pem"));
        if !is_there(&path) {
            let keys = authority.worker(name, &driver.plans);
            let written = keys.and_then(|keys| pem::write_secret(&path, &keys.pem()));
            written.map_err(|error| at(&path, &error))?;
        }
        done.workers.push(path);
        match listed.iter_mut().find(|(listed, _)| listed == name) {
            Some((_, known)) => (*address).clone_into(known),
            None => listed.push(((*name).to_owned(), (*address).to_owned())),
        }
    }
    write_list(folder, &listed)?;
    Ok(done)
}

fn is_there(path: &Path) -> bool {
    // A file that cannot be examined counts as existing.
    path.try_exists().unwrap_or(true)
}

/// Makes a folder that only its owner may enter, if it is missing.
fn made(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;

        builder.mode(0o700);
    }
    builder.create(folder)
}

/// The workers of a folder, and their addresses.
fn listed(folder: &Path) -> io::Result<Vec<(String, String)>> {
    let path = folder.join(WORKERS);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(at(&path, &error)),
    };
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let worker = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [name, address] if is_name(name) && is_address(address) => {
            Ok((name.to_owned(), address.to_owned()))
        }
        _ => Err(at(&path, &invalid("each line is a name and an address, as in w1 10.0.0.5:7000"))),
    };
    lines.map(worker).collect()
}

fn write_list(folder: &Path, workers: &[(String, String)]) -> io::Result<()> {
    let mut text = String::new();
    for (name, address) in workers {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name} {address}");
    }
    let (path, new) = (folder.join(WORKERS), folder.join(".workers.new"));
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
    written.map_err(|error| at(&path, &error))
}

/// The keys of the driver in a folder, and its workers with their addresses.
///
/// # Errors
/// If files are missing or have the wrong contents, if other users may read the driver's file, or
/// if no worker is listed.
pub(crate) fn drivers(folder: &Path) -> io::Result<(DriverKeys, Vec<(String, String)>)> {
    let path = folder.join(DRIVERS);
    let keys = pem::read_secret(&path).and_then(|text| DriverKeys::from_pem(&text));
    let keys = keys.map_err(|error| at(&path, &error))?;
    let workers = listed(folder)?;
    match workers.is_empty() {
        true => Err(at(&folder.join(WORKERS), &invalid("no worker is listed: enrol one"))),
        false => Ok((keys, workers)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::WorkerKeys;
    use crate::identity::tls::is_named;

    #[test]
    fn a_folder_is_made_once_and_grows() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("keys");
        let first = enrol(&folder, &[("w1", "10.0.0.5:7000"), ("w2", "[::1]:7000")]).unwrap();
        assert_eq!(first.made, [folder.join(AUTHORITY), folder.join(DRIVERS)]);
        assert_eq!(first.workers, [folder.join("w1.pem"), folder.join("w2.pem")]);
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
        let before = [AUTHORITY, DRIVERS, "w1.pem"].map(read);
        let second = enrol(&folder, &[("w3", "db.example:7001"), ("w1", "10.0.0.9:7000")]).unwrap();
        assert!(second.made.is_empty());
        assert_eq!([AUTHORITY, DRIVERS, "w1.pem"].map(read), before);
        let (driver, workers) = drivers(&folder).unwrap();
        let workers: Vec<_> = workers.iter().map(|(n, a)| format!("{n} {a}")).collect();
        assert_eq!(workers, ["w1 10.0.0.9:7000", "w2 [::1]:7000", "w3 db.example:7001"]);
        for name in ["w1", "w2", "w3"] {
            let keys = WorkerKeys::read(&folder.join(format!("{name}.pem"))).unwrap();
            assert!(is_named(&keys.identity, name));
            assert_eq!(keys.driver, driver.plans.public());
        }
        // One file does not pass for another.
        for name in [AUTHORITY, DRIVERS] {
            assert!(WorkerKeys::read(&folder.join(name)).is_err());
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&folder), 0o700);
            assert_eq!(mode(&folder.join(AUTHORITY)), 0o600);
            assert_eq!(mode(&folder.join("w3.pem")), 0o600);
            let open = std::fs::Permissions::from_mode(0o644);
            std::fs::set_permissions(folder.join(DRIVERS), open).unwrap();
            assert!(drivers(&folder).unwrap_err().to_string().contains("chmod 600"));
        }
    }

    #[test]
    fn what_is_not_a_name_or_an_address_writes_nothing() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("keys");
        for name in
            ["", "W1", "1w", "w_1", "../w1", "w1.pem", "driver", "authority", "workers", "w-"]
        {
            let error = enrol(&folder, &[("w1", "h:1"), (name, "h:1")]).unwrap_err();
            assert!(error.to_string().contains("is not the name of a worker"), "{name}: {error}");
        }
        for address in ["", "host", "host:", "host:0", "host:99999", "u@host:1", "host:1/x", ":1"] {
            let error = enrol(&folder, &[("w1", address)]).unwrap_err();
            assert!(error.to_string().contains("HOST:PORT"), "{address}: {error}");
        }
        assert!(!folder.exists());
    }

    #[test]
    fn a_folder_without_workers_says_so() {
        let folder = tempfile::tempdir().unwrap();
        assert!(drivers(folder.path()).unwrap_err().to_string().contains("driver.pem"));
        enrol(folder.path(), &[]).unwrap();
        assert!(drivers(folder.path()).unwrap_err().to_string().contains("enrol one"));
        std::fs::write(folder.path().join(WORKERS), "# mine\n\nw1 h:1 x\n").unwrap();
        assert!(drivers(folder.path()).unwrap_err().to_string().contains("each line is"));
        std::fs::write(folder.path().join(WORKERS), "# mine\n\nw1  h:1\n").unwrap();
        assert_eq!(drivers(folder.path()).unwrap().1, [("w1".to_owned(), "h:1".to_owned())]);
    }
}
