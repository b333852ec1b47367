//! The configuration file: the analyst's name, and how the shell displays answers, unless the
//! command line says otherwise.
//!
//! In: the file that HUSHQL_CONFIG names, or `hushql/config.toml` in the user's configuration
//! folder, if it exists. Out: its [`Settings`]. For scripts, only `analyst` applies: their output
//! does not depend on the user who runs them.
//!
//! ```text
//! analyst = "lab"      # as --analyst lab, unless HUSHQL_ANALYST is set
//! rows = 100           # as \rows 100
//! ```

use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::print::Format;

/// The settings of a file. Missing settings are `None` or `false`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    /// The analyst.
    pub(super) analyst: Option<String>,
    /// The format of answers.
    pub(super) format: Option<Format>,
    /// The most rows of an answer that are shown; 0 for all.
    pub(super) rows: Option<usize>,
    /// Whether times are shown.
    pub(super) timing: bool,
    /// The program that pages long answers.
    pub(super) pager: Option<String>,
    /// Whether inputs are not kept.
    pub(super) no_history: bool,
    /// Whether signs are ASCII, whatever the locale is.
    pub(super) ascii: bool,
}

/// The possible settings, each with an example.
const KNOWN: &str = "analyst = \"lab\", format = \"expanded\", rows = 100, timing = true, pager = \"less\", \
history = false, ascii = true";

/// The analyst, if the command line does not name one: from HUSHQL_ANALYST or the file.
pub(super) fn analyst(settings: &Settings) -> Option<String> {
    let named = std::env::var("HUSHQL_ANALYST").ok().filter(|name| !name.is_empty());
    named.or_else(|| settings.analyst.clone())
}

/// Reads the file, if it exists. If HUSHQL_CONFIG is empty, no file is read.
///
/// # Errors
/// [`Failure::File`] if a file cannot be read, and [`Failure::Setting`] with the wrong line.
pub(super) fn read() -> Result<Settings, Failure> {
    let named = std::env::var_os("HUSHQL_CONFIG");
    let must_exist = named.is_some();
    let usual = || Some(dirs::config_dir()?.join("hushql").join("config.toml"));
    let Some(path) = named.map_or_else(usual, |path| Some(PathBuf::from(path))) else {
        return Ok(Settings::default());
    };
    if path.as_os_str().is_empty() || (!must_exist && !path.exists()) {
        return Ok(Settings::default());
    }
    let text = std::fs::read_to_string(&path)
        .map_err(|source| Failure::File { path: path.clone(), source })?;
    parse(&text).map_err(|(line, why)| setting(&path, line, why))
}

fn setting(path: &Path, line: usize, why: String) -> Failure {
    Failure::Setting { path: path.to_owned(), line, why }
}

/// Reads lines of `name = value`; `#` begins a comment.
fn parse(text: &str) -> Result<Settings, (usize, String)> {
    let mut settings = Settings::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            set(&mut settings, line).map_err(|why| (at + 1, why))?;
        }
    }
    Ok(settings)
}

fn set(settings: &mut Settings, line: &str) -> Result<(), String> {
    let Some((name, written)) = line.split_once('=') else {
        return Err(format!("write a setting and its value, such as {KNOWN}"));
    };
    let (name, value) = (name.trim(), value(written)?);
    match name {
        "analyst" => settings.analyst = Some(value),
        "format" => {
            let format = Format::named(&value).ok_or_else(|| {
                format!(
                    "there is no format {value}: write table, expanded, markdown, csv, tsv or json"
                )
            })?;
            settings.format = Some(format);
        }
        "rows" => {
            let rows = if value == "all" { Some(0) } else { value.parse().ok() };
            settings.rows =
                Some(rows.ok_or_else(|| "write rows = 100, or rows = \"all\"".to_owned())?);
        }
        "timing" => settings.timing = truth(name, &value)?,
        "history" => settings.no_history = !truth(name, &value)?,
        "ascii" => settings.ascii = truth(name, &value)?,
        "pager" => settings.pager = Some(value).filter(|program| program != "false"),
        _ => return Err(format!("there is no setting {name}; there are {KNOWN}")),
    }
    Ok(())
}

fn truth(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "true" | "on" => Ok(true),
        "false" | "off" => Ok(false),
        _ => Err(format!("write {name} = true, or {name} = false")),
    }
}

/// A value, with or without quotes.
fn value(written: &str) -> Result<String, String> {
    let written = written.trim();
    if let Some(rest) = written.strip_prefix('"') {
        let Some((inside, behind)) = rest.split_once('"') else {
            return Err("the closing quote of the value is missing".to_owned());
        };
        let behind = behind.trim();
        return match behind.is_empty() || behind.starts_with('#') {
            true => Ok(inside.to_owned()),
            false => Err(format!("there is {behind} after the value")),
        };
    }
    let value = written.split_once('#').map_or(written, |(value, _)| value).trim();
    if value.is_empty() { Err("the value is missing".to_owned()) } else { Ok(value.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let text = "# mine\n\nanalyst = \"lab\"  # who\nformat=line\nrows = 100\ntiming = true\n\
                    pager = \"less -S #\"\nhistory = off\nascii = true\n";
        let settings = Settings {
            analyst: Some("lab".to_owned()),
            format: Some(Format::Expanded),
            rows: Some(100),
            timing: true,
            pager: Some("less -S #".to_owned()),
            no_history: true,
            ascii: true,
        };
        assert_eq!(parse(text), Ok(settings));
        assert_eq!(parse("rows = all\npager = false").unwrap().rows, Some(0));
        assert_eq!(parse(""), Ok(Settings::default()));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, line, words) in [
            ("analist = lab", 1, "there is no setting analist; there are analyst = "),
            ("\nformat = xml", 2, "there is no format xml"),
            ("rows = many", 1, "rows = 100"),
            ("timing = maybe", 1, "timing = true"),
            ("analyst", 1, "write a setting"),
            ("analyst =", 1, "the value is missing"),
            ("analyst = \"lab", 1, "closing quote"),
            ("analyst = \"lab\" x", 1, "after the value"),
        ] {
            let (at, why) = parse(text).unwrap_err();
            assert_eq!(at, line, "{text}");
            assert!(why.contains(words), "{text}: {why}");
        }
        for one in KNOWN.split(", ") {
            assert!(parse(one).is_ok(), "{one}");
        }
    }
}
