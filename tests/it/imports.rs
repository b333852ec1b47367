//! The laws of the source that the compiler does not know: who may know whom, where the physical
//! plan, randomness and floats may appear, what may not be written at all.
//!
//! All crates that the library is made of are read, as if they were one: a path that begins with
//! another crate's name leads into that crate. Source files are read as text. Comments, the insides
//! of strings and everything under `#[cfg(test)]` are blanked first; then `use` trees are unfolded
//! and every path is looked at, `super::` and `self::` made absolute. It is a reader of names, no
//! compiler: what a macro would hide, it does not see.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The crates that the library is made of: the folder of each, the name that others import it by,
/// and which of the others it needs.
const CRATES: [(&str, &str, &[&str]); 5] = [
    ("", "hushql", &["hushql-engine", "hushql-privacy", "hushql-vault"]),
    ("crates/hushql-engine", "hushql_engine", &["hushql-exec", "hushql-privacy", "hushql-vault"]),
    ("crates/hushql-exec", "hushql_exec", &["hushql-privacy"]),
    ("crates/hushql-privacy", "hushql_privacy", &[]),
    ("crates/hushql-vault", "hushql_vault", &["hushql-privacy"]),
];

/// Crates that are built and tested without DataFusion, and everything that each needs.
const SMALL: [(&str, &[&str]); 2] = [
    (
        "crates/hushql-privacy",
        &[
            "getrandom",
            "num-bigint",
            "num-integer",
            "num-rational",
            "num-traits",
            "rand_chacha",
            "thiserror",
        ],
    ),
    (
        "crates/hushql-vault",
        &[
            "base64",
            "hushql-privacy",
            "num-bigint",
            "num-traits",
            "rusqlite",
            "serde",
            "serde_json",
            "sha2",
            "thiserror",
        ],
    ),
];

/// What a module at the top of a crate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Known to everyone, knows shelves only.
    Shelf,
    /// A stage of a query's life: knows shelves and earlier stages.
    Stage(u8),
    /// Holds the stages together, and knows them all; no stage knows it.
    Frame,
    /// The program: knows what anybody can import.
    Guest,
}

const PLACES: [(&str, Place); 45] = [
    ("aggregate", Place::Shelf),
    ("buckets", Place::Shelf),
    ("catalog", Place::Shelf),
    ("codes", Place::Shelf),
    ("deadline", Place::Shelf),
    ("encoded_rows", Place::Shelf),
    ("file_schema", Place::Shelf),
    ("functions", Place::Shelf),
    ("gather", Place::Shelf),
    ("grid", Place::Shelf),
    ("hierarchy", Place::Shelf),
    ("ticks", Place::Shelf),
    ("mechanism", Place::Shelf),
    ("operator", Place::Shelf),
    ("pinned", Place::Shelf),
    ("privacy", Place::Shelf),
    ("refusal", Place::Shelf),
    ("sampler", Place::Shelf),
    ("demo", Place::Shelf),
    ("scram", Place::Shelf),
    ("sql_type", Place::Shelf),
    ("synthetic", Place::Shelf),
    ("visible", Place::Shelf),
    ("dialect", Place::Stage(1)),
    ("bind", Place::Stage(2)),
    ("analysis", Place::Stage(3)),
    ("release", Place::Stage(4)),
    ("ledger", Place::Stage(5)),
    ("exec", Place::Stage(6)),
    ("answer", Place::Stage(7)),
    ("owner", Place::Frame),
    ("engine", Place::Frame),
    ("error", Place::Frame),
    ("explain", Place::Frame),
    ("guard", Place::Frame),
    ("instance", Place::Frame),
    ("resources", Place::Frame),
    ("templates", Place::Frame),
    ("versions", Place::Frame),
    ("views", Place::Frame),
    ("lib", Place::Frame),
    ("cli", Place::Guest),
    ("console", Place::Guest),
    ("mcp", Place::Guest),
    ("server", Place::Guest),
];

/// The guests in the package of the program.
const PROGRAM: [&str; 4] = ["cli", "console", "mcp", "server"];

/// Edges that the rule forbids and that are fine, each with its reason.
const EXEMPT: [(&str, &str, &str); 1] =
    [("exec", "error", "what is wrong with a declared file is said in the session's own words")];

fn place(module: &str) -> Place {
    let found = PLACES.iter().find(|(name, _)| *name == module);
    found.unwrap_or_else(|| panic!("say in PLACES what module {module} is")).1
}

/// A source file without comments, strings and tests.
struct Source {
    /// Its path below the `src` of its crate.
    path: PathBuf,
    code: String,
}

impl Source {
    /// The module path, such as `["exec", "bound", "keys"]`.
    fn modules(&self) -> Vec<String> {
        let mut modules: Vec<String> = self
            .path
            .with_extension("")
            .components()
            .map(|part| part.as_os_str().to_str().unwrap().to_owned())
            .collect();
        if modules.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
            modules.pop();
        }
        modules
    }

    /// The module at the top of `src/`; `lib` for lib.rs itself, and main.rs is the guest's door.
    fn top(&self) -> String {
        match self.path.to_str() {
            Some("lib.rs") => "lib".to_owned(),
            Some("main.rs") => "cli".to_owned(),
            _ => self.modules().remove(0),
        }
    }

    fn paths(&self) -> Vec<Vec<String>> {
        let home = self.modules();
        paths(&tokens(&self.code)).into_iter().map(|path| absolute(path, &home)).collect()
    }
}

/// The guests that are crates of their own, by their folders.
const GUESTS: [&str; 2] = ["cluster", "python"];

/// The folder of a crate.
fn root(crate_folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(crate_folder)
}

/// Every source file that is no test, of all crates.
fn sources() -> &'static [Source] {
    static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
        let folders = CRATES.map(|(folder, _, _)| root(folder));
        let mut sources: Vec<Source> =
            folders.iter().flat_map(|folder| sources_of(folder)).collect();
        sources.sort_by(|a, b| a.path.cmp(&b.path));
        assert!(sources.len() > 500, "only {} files were found", sources.len());
        sources
    });
    &SOURCES
}

/// Every source file of a crate that is no test.
fn sources_of(folder: &Path) -> Vec<Source> {
    let root = folder.join("src");
    let (mut folders, mut sources) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_test = name.starts_with("tests.") || name.starts_with("tests_");
            if path.is_dir() && name != "tests" {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") && !is_test {
                let text = std::fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(&root).unwrap().to_owned();
                sources.push(Source { path, code: without_tests(&blanked(&text)) });
            }
        }
    }
    assert!(sources.len() > 5, "only {} files were found in {}", sources.len(), root.display());
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

/// Blanks comments and the insides of strings and characters; line ends stay.
fn blanked(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut out = String::new();
    let mut i = 0;
    let blank = |out: &mut String, c: char| out.push(if c == '\n' { '\n' } else { ' ' });
    while i < chars.len() {
        let word_before = i > 0 && (at(i - 1).is_alphanumeric() || at(i - 1) == '_');
        let raw = at(i) == 'r' && !(word_before && at(i - 1) != 'b') && {
            let hashes = chars[i + 1..].iter().take_while(|c| **c == '#').count();
            at(i + 1 + hashes) == '"'
        };
        if at(i) == '/' && at(i + 1) == '/' {
            while i < chars.len() && at(i) != '\n' {
                i += 1;
            }
        } else if at(i) == '/' && at(i + 1) == '*' {
            while i < chars.len() && !(at(i) == '*' && at(i + 1) == '/') {
                blank(&mut out, at(i));
                i += 1;
            }
            i += 2;
        } else if raw {
            let hashes = chars[i + 1..].iter().take_while(|c| **c == '#').count();
            let end: Vec<char> =
                std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
            i += hashes + 2;
            while i < chars.len() && !chars[i..].starts_with(&end) {
                blank(&mut out, at(i));
                i += 1;
            }
            i += end.len();
        } else if at(i) == '"' {
            i += 1;
            while i < chars.len() && at(i) != '"' {
                if at(i) == '\\' {
                    i += 1;
                }
                blank(&mut out, at(i));
                i += 1;
            }
            i += 1;
            out.push('"');
        } else if at(i) == '\'' && (at(i + 1) == '\\' || at(i + 2) == '\'') {
            i += if at(i + 1) == '\\' { 3 } else { 2 };
            while i < chars.len() && at(i) != '\'' {
                i += 1;
            }
            i += 1;
            out.push('"');
        } else {
            out.push(at(i));
            i += 1;
        }
    }
    out
}

/// Cuts out every item under `#[cfg(test)]`; of a field or a variant, what stands behind it in its
/// brackets too.
fn without_tests(code: &str) -> String {
    let mut rest = code;
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once("#[cfg(test)]") {
        out.push_str(before);
        let (mut depth, mut end) = (0_usize, after.len());
        for (i, c) in after.char_indices() {
            match c {
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' if depth == 0 => {
                    end = i;
                    break;
                }
                '}' | ')' | ']' => depth -= 1,
                _ => {}
            }
            if depth == 0 && ['}', ';'].contains(&c) {
                end = i + 1;
                break;
            }
        }
        out.extend(after[..end].chars().filter(|c| *c == '\n'));
        rest = &after[end..];
    }
    out.push_str(rest);
    out
}

/// Words, `::`, `=>` and single other characters.
fn tokens(code: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut word = String::new();
    for c in code.chars() {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            tokens.push(std::mem::take(&mut word));
            word = String::new();
        }
        match (tokens.last_mut(), c) {
            (Some(last), ':') if last == ":" => *last = "::".to_owned(),
            (Some(last), '>') if last == "=" => *last = "=>".to_owned(),
            (_, c) if c.is_whitespace() => {}
            (_, c) => tokens.push(c.to_string()),
        }
    }
    tokens.push(word);
    tokens
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Every path of two segments or more, `use` trees unfolded.
fn paths(tokens: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let begins = is_word(&tokens[i]) && tokens.get(i + 1).is_some_and(|t| t == "::");
        // `pub(in crate::a)` says who may use something, and uses nothing.
        let is_visibility = i > 2 && tokens[i - 3..i] == ["pub", "(", "in"];
        i = match (begins, is_visibility) {
            (true, true) => path(tokens, i, &[], &mut Vec::new()),
            (true, false) => path(tokens, i, &[], &mut found),
            (false, _) => i + 1,
        };
    }
    found
}

/// Reads the path that begins at `i` under a prefix; returns where it ends.
fn path(tokens: &[String], mut i: usize, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut segments = prefix.to_vec();
    let at = |i: usize| tokens.get(i).map_or("", String::as_str);
    loop {
        segments.push(at(i).to_owned());
        i += 1;
        if at(i) != "::" {
            break;
        }
        if at(i + 1) == "{" {
            i += 2;
            while at(i) != "}" && i < tokens.len() {
                i = match at(i) {
                    "as" => i + 2,
                    "*" => path(tokens, i, &segments, found),
                    word if is_word(word) => path(tokens, i, &segments, found),
                    _ => i + 1,
                };
            }
            return i + 1;
        }
        if !is_word(at(i + 1)) && at(i + 1) != "*" {
            break;
        }
        i += 1;
    }
    // `Vec::<u8>` has one segment and says nothing.
    if segments.len() > 1 {
        found.push(segments);
    }
    i
}

/// A path with its leading `self`, `super` and names of other crates of the library resolved to
/// `crate`. To the guests these are foreign crates, as they are to everyone who imports them.
fn absolute(path: Vec<String>, home: &[String]) -> Vec<String> {
    let mut base = home.to_vec();
    let mut rest = path.as_slice();
    match rest.first().map(String::as_str) {
        Some("self") => rest = &rest[1..],
        Some("super") => {
            while rest.first().is_some_and(|segment| segment == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        Some(first)
            if CRATES[1..].iter().any(|(_, name, _)| *name == first)
                && !home.first().is_some_and(|top| PROGRAM.contains(&top.as_str())) =>
        {
            base.clear();
            rest = &rest[1..];
        }
        _ => return path,
    }
    std::iter::once("crate".to_owned()).chain(base).chain(rest.iter().cloned()).collect()
}

/// The dependencies of a crate, tests aside, as its manifest lists them.
fn dependencies(folder: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join("Cargo.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut section = "";
    let mut names = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section == "[dependencies]"
            || section.starts_with("[target.") && section.ends_with(".dependencies]")
        {
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if name.starts_with(|c: char| c.is_ascii_lowercase()) && line.contains('=') {
                names.push(name.to_owned());
            }
        }
    }
    names.sort();
    names
}

fn assert_none(what: &str, mut violations: Vec<String>) {
    violations.dedup();
    assert!(violations.is_empty(), "{what}:\n  {}", violations.join("\n  "));
}

/// The reader itself, on text that would fool a simpler one.
#[test]
fn the_reader_reads() {
    let text = r##"
        use crate::{engine::Engine, exec::{self, bound::{a as b, *}}}; // crate::comment::x
        fn f<'a>(x: &'a str) { let _ = ("crate::text::x", r#"crate::raw::"x"#, 'c', '\'', '"'); }
        /* crate::block::x */ let y = super::sibling::go::<T>(self::own::z);
        #[cfg(test)]
        mod tests { use crate::tests::x; fn g() { [1]; } }
        let z = datafusion::physical_plan::collect(_ => 1);
    "##;
    let source = Source { path: "exec/bound/keys.rs".into(), code: without_tests(&blanked(text)) };
    let read: Vec<String> = source.paths().iter().map(|path| path.join("::")).collect();
    let expected = [
        "crate::engine::Engine",
        "crate::exec::self",
        "crate::exec::bound::a",
        "crate::exec::bound::*",
        "crate::exec::bound::sibling::go",
        "crate::exec::bound::keys::own::z",
        "datafusion::physical_plan::collect",
    ];
    assert_eq!(read, expected);
    assert_eq!(source.top(), "exec");
}

#[test]
fn crates_need_only_what_is_said() {
    for (folder, name, needs) in CRATES {
        let all = dependencies(folder);
        let own: Vec<&str> =
            all.iter().map(String::as_str).filter(|d| d.starts_with("hushql")).collect();
        assert_eq!(own, needs, "what {name} needs of the others");
    }
    for (folder, everything) in SMALL {
        assert_eq!(dependencies(folder), everything, "everything that {folder} needs");
    }
    // Whoever adds a crate says here what it is.
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    assert_eq!(std::fs::read_dir(crates).unwrap().count(), CRATES.len() - 1);
}

/// The names that several files of one crate may have.
const SHARED_NAMES: [&str; 2] = ["error", "tests"];

/// The names that several files of one crate have and should not, each with these files. A `mod.rs`
/// has the name of its folder, and `x.rs` with what is in `x/` beside it is one module.
fn shared_names(files: &[PathBuf]) -> Vec<String> {
    let mut named: BTreeMap<String, BTreeSet<&Path>> = BTreeMap::new();
    for file in files {
        let module = match file.file_name().is_some_and(|name| name == "mod.rs") {
            true => file.parent().unwrap(),
            false => file.as_path(),
        };
        let name = module.file_stem().unwrap().to_str().unwrap().to_owned();
        named.entry(name).or_default().insert(file);
    }
    let shared = named
        .into_iter()
        .filter(|(name, files)| files.len() > 1 && !SHARED_NAMES.contains(&name.as_str()));
    shared.map(|(name, files)| format!("{name}: {files:?}")).collect()
}

/// Every source file of a crate, tests included.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![folder.join("src")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// Whoever reads a name knows which file of the crate it is.
#[test]
fn no_two_files_of_a_crate_have_one_name() {
    for folder in CRATES.map(|(folder, _, _)| folder).into_iter().chain(GUESTS) {
        let files = files_of(&root(folder));
        assert!(files.len() > 5, "only {} files were found in {folder:?}", files.len());
        assert_none("files of one name", shared_names(&files));
    }
}

#[test]
fn shared_names_are_seen() {
    let shared =
        |files: &[&str]| shared_names(&files.iter().map(PathBuf::from).collect::<Vec<_>>());
    assert_eq!(
        shared(&["lib.rs", "hall.rs", "hall/lamp.rs", "yard/mod.rs", "yard/lamps.rs"]).len(),
        0
    );
    assert_eq!(shared(&["hall/tests.rs", "yard/tests.rs", "error.rs", "yard/error.rs"]).len(), 0);
    assert_eq!(
        shared(&["hall/lamp.rs", "yard/lamp.rs"]),
        [r#"lamp: {"hall/lamp.rs", "yard/lamp.rs"}"#]
    );
    assert_eq!(shared(&["hall/tests/lamp.rs", "yard/lamp.rs"]).len(), 1);
    assert_eq!(shared(&["hall/yard.rs", "yard/mod.rs"]).len(), 1);
    assert_eq!(shared(&["hall/lamp/mod.rs", "yard/lamp/mod.rs"]).len(), 1);
}

#[test]
fn stages_know_no_later_stage_and_shelves_know_none() {
    let mut violations = Vec::new();
    let mut edges = BTreeSet::new();
    for source in sources() {
        let from = source.top();
        for path in source.paths().iter().filter(|path| path[0] == "crate") {
            let to = path[1].clone();
            // main.rs is a crate of its own, in which `crate::cli` is the guest itself.
            if to == from || from == "lib" {
                continue;
            }
            edges.insert((from.clone(), to.clone()));
            let allowed = match (place(&from), place(&to)) {
                (Place::Frame, Place::Shelf | Place::Stage(_) | Place::Frame) => true,
                (Place::Stage(a), Place::Stage(b)) => b < a,
                (Place::Stage(_) | Place::Shelf, Place::Shelf) => true,
                // The program's door leads to the server, and both use what anybody can import.
                (Place::Guest, Place::Guest) => {
                    from == "cli" || (from == "server" && ["console", "mcp"].contains(&to.as_str()))
                }
                (Place::Guest, _)
                | (_, Place::Guest)
                | (Place::Shelf, Place::Stage(_))
                | (Place::Stage(_) | Place::Shelf, Place::Frame) => false,
            };
            let exempt = EXEMPT.iter().any(|(a, b, _)| (*a, *b) == (from.as_str(), to.as_str()));
            if !allowed && !exempt {
                violations.push(format!("{} knows {}", source.path.display(), path.join("::")));
            }
        }
    }
    for (from, to, why) in EXEMPT {
        let edge = (from.to_owned(), to.to_owned());
        assert!(edges.contains(&edge), "{from} no longer knows {to} ({why}): strike it out");
    }
    assert!(edges.len() > 30, "only {} edges were seen", edges.len());
    assert_none("forbidden knowledge", violations);
}

/// Where each name that a file exports again comes from.
fn exports(
    sources: &[Source],
    modules: &BTreeSet<Vec<String>>,
) -> BTreeMap<Vec<String>, Vec<String>> {
    let mut exports = BTreeMap::new();
    for source in sources {
        let home = source.modules();
        for item in source.code.split(';') {
            let Some((_, tree)) = item.rsplit_once("pub use ").or_else(|| {
                let (before, tree) = item.rsplit_once(") use ")?;
                before.trim_end().rsplit_once("pub(").map(|_| ("", tree))
            }) else {
                continue;
            };
            for path in within(&paths(&tokens(tree)), &home, modules) {
                let name = path.last().unwrap().clone();
                exports.insert([home.as_slice(), &[name]].concat(), path);
            }
        }
    }
    exports
}

/// Paths into the crate, without its name; those that begin with a module of this file's own are
/// completed.
fn within(
    paths: &[Vec<String>],
    home: &[String],
    modules: &BTreeSet<Vec<String>>,
) -> Vec<Vec<String>> {
    let is_child = |name: &String| modules.contains(&[home, std::slice::from_ref(name)].concat());
    let completed = paths.iter().filter_map(|path| {
        let path = absolute(path.clone(), home);
        match path.first() {
            Some(first) if first == "crate" => Some(path[1..].to_vec()),
            Some(first) if is_child(first) => Some([home, &path].concat()),
            _ => None,
        }
    });
    completed.collect()
}

/// What each file, or each entry of a folder, needs, all by their module paths.
type Needs = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// Which file each file needs, by the names that it uses: a name that is exported again belongs to
/// the file that defines it.
fn needs(sources: &[Source]) -> Needs {
    let modules: BTreeSet<Vec<String>> = sources.iter().map(Source::modules).collect();
    let exports = exports(sources, &modules);
    let defining = |mut path: Vec<String>| {
        // A function may be called as the module that it is exported from.
        while let Some((known, to)) = (1..=path.len())
            .rev()
            .find_map(|n| exports.get(&path[..n]).map(|to| (n, to)))
            .filter(|(known, to)| !to.starts_with(&path[..*known]))
        {
            path = [to.as_slice(), &path[known..]].concat();
        }
        (0..=path.len()).rev().map(|n| path[..n].to_vec()).find(|module| modules.contains(module))
    };
    let mut needs = Needs::new();
    for source in sources.iter().filter(|source| source.path != Path::new("main.rs")) {
        let home = source.modules();
        // What is exported again is needed by whoever uses it.
        let own: String = source
            .code
            .split_inclusive(';')
            .map(|item| match item.contains("pub use ") || item.contains(") use ") {
                true => item.rsplit_once("pub").map_or(item, |(before, _)| before),
                false => item,
            })
            .collect();
        let used = within(&paths(&tokens(&own)), &home, &modules).into_iter().filter_map(&defining);
        let others = used.filter(|module| *module != home && !module.is_empty());
        needs.entry(home.clone()).or_default().extend(others);
    }
    needs
}

/// The way from one place back to another, if there is one.
fn way(needs: &Needs, start: &Vec<String>, end: &Vec<String>) -> Option<Vec<String>> {
    let mut came_from: BTreeMap<&Vec<String>, &Vec<String>> = BTreeMap::new();
    let mut open = vec![start];
    while let Some(file) = open.pop() {
        for next in needs.get(file).into_iter().flatten() {
            if next == end {
                let back = std::iter::successors(Some(file), |at| came_from.get(at).copied());
                return Some(std::iter::once(end).chain(back).map(|m| m.join("::")).collect());
            }
            if next != start && !came_from.contains_key(next) {
                came_from.insert(next, file);
                open.push(next);
            }
        }
    }
    None
}

/// A file that can be reached from itself, with the way there.
fn circle(needs: &Needs) -> Option<Vec<String>> {
    needs.keys().find_map(|start| way(needs, start, start))
}

#[test]
fn no_files_need_each_other() {
    let needs = needs(sources());
    let edges: usize = needs.values().map(BTreeSet::len).sum();
    assert!(edges > 500, "only {edges} imports were seen");
    assert_eq!(
        circle(&needs),
        None,
        "files that need each other, each needed by the one behind it"
    );
    for guest in GUESTS {
        let needs = self::needs(&sources_of(&root(guest)));
        assert_eq!(circle(&needs), None, "files of {guest} that need each other");
    }
}

/// The needs between the entries of each folder: its files, and the folders in it with all that
/// they hold. The file that a folder is named after belongs to it; the folder's own `mod.rs` is one
/// of its entries.
fn needs_in_folders(needs: &Needs) -> Vec<Needs> {
    let mut folders: BTreeMap<&[String], Needs> = BTreeMap::new();
    for (from, to) in needs.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to))) {
        let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
        let entry = |file: &Vec<String>| match file.get(..=shared) {
            Some(entry) => entry.to_vec(),
            None => [file.as_slice(), &["mod".to_owned()]].concat(),
        };
        let folder = folders.entry(&from[..shared]).or_default();
        folder.entry(entry(from)).or_default().insert(entry(to));
    }
    folders.into_values().collect()
}

/// What a room needs of a later one and should not, each with its reason, until it is untied.
const KNOTS: [(&str, &str, &str); 4] = [
    (
        "operator::bound_contributions::keys",
        "operator::bound_contributions::exact",
        "codes of units are in the order by which rows are drawn",
    ),
    (
        "operator::bound_contributions::columns",
        "operator::bound_contributions::exact",
        "columns are kept by the parts of a unit's rows",
    ),
    (
        "operator::bound_contributions::task",
        "operator::bound_contributions::exact",
        "a task names what a unit contributes",
    ),
    (
        "operator::bound_contributions::task",
        "operator::bound_contributions::columns",
        "a task names the values that it adds up",
    ),
];

/// The circles of the entries of a folder, without the needs that are excused; and the excuses that
/// this folder makes use of.
fn knots<'a>(
    folder: &Needs,
    excused: &'a [(&'a str, &'a str, &'a str)],
) -> (Option<Vec<String>>, Vec<&'a str>) {
    let names = |text: &str| text.split("::").map(ToOwned::to_owned).collect::<Vec<String>>();
    let is_excused = |from: &Vec<String>, to: &Vec<String>| {
        excused.iter().any(|(a, b, _)| names(a) == *from && names(b) == *to)
    };
    let mut strict = folder.clone();
    for (from, to) in &mut strict {
        to.retain(|to| !is_excused(from, to));
    }
    let used = excused.iter().filter(|(from, to, _)| {
        let (from, to) = (names(from), names(to));
        folder.get(&from).is_some_and(|needs| needs.contains(&to))
            && way(&strict, &to, &from).is_some()
    });
    (circle(&strict), used.map(|(_, _, why)| *why).collect())
}

/// Whoever reads a folder can read the folders that it needs without coming back.
#[test]
fn no_folders_need_each_other() {
    let folders = needs_in_folders(&needs(sources()));
    assert!(folders.len() > 30, "only {} folders were seen", folders.len());
    let (mut circles, mut used) = (Vec::new(), BTreeSet::new());
    for folder in &folders {
        let (circle, reasons) = knots(folder, &KNOTS);
        circles.extend(circle.map(|circle| circle.join(", needed by ")));
        used.extend(reasons);
    }
    for guest in GUESTS {
        for folder in needs_in_folders(&needs(&sources_of(&root(guest)))) {
            circles.extend(circle(&folder).map(|circle| format!("{guest}: {circle:?}")));
        }
    }
    assert_none("rooms that need each other", circles);
    let unused = KNOTS.iter().filter(|(_, _, why)| !used.contains(why));
    assert_none("untied: strike it out", unused.map(|knot| format!("{knot:?}")).collect());
}

/// The law itself: through a parent's export, and by a path in the middle of the code.
#[test]
fn circles_are_seen() {
    let file = |path: &str, code: &str| Source { path: path.into(), code: code.to_owned() };
    let circular = |b: &str| {
        let files = [
            file("room/mod.rs", "mod a; mod b; pub use a::A; pub(crate) use b::{B, made};"),
            file("room/a.rs", "use super::B; pub struct A(B);"),
            file("room/b.rs", b),
        ];
        circle(&needs(&files)).is_some()
    };
    assert!(circular("use crate::room::A; pub struct B; pub fn made(_: A) {}"));
    assert!(circular("pub struct B; pub fn made() -> super::a::A { loop {} }"));
    assert!(!circular("pub struct B; pub fn made() {}"));
}

/// The law of folders: a circle of two folders whose files are none, one through a file beside them
/// and one through a folder's own file; a needless excuse is none.
#[test]
fn circles_of_folders_are_seen() {
    let file = |path: &str, code: &str| Source { path: path.into(), code: code.to_owned() };
    let seen = |last: (&str, &str), excused| {
        let files = [
            file("house/mod.rs", "mod hall; mod yard; mod gate;"),
            file("house/hall/mod.rs", "mod door; mod lamp;"),
            file(
                "house/hall/door.rs",
                "use crate::house::yard::tree::Tree; pub struct Door(Tree);",
            ),
            file("house/hall/lamp.rs", "pub struct Lamp;"),
            file("house/yard.rs", "mod tree; mod bench; mod pond;"),
            file("house/yard/tree.rs", "pub struct Tree;"),
            file("house/yard/bench.rs", "pub struct Bench;"),
            file(last.0, last.1),
        ];
        let needs = needs(&files);
        assert_eq!(circle(&needs), None, "no circle of files");
        let all = needs_in_folders(&needs);
        let all: Vec<_> = all.iter().map(|folder| knots(folder, excused)).collect();
        (all.iter().any(|(circle, _)| circle.is_some()), all.iter().map(|one| one.1.len()).sum())
    };
    let lamp = ("house/yard/pond.rs", "use crate::house::hall::lamp::Lamp;");
    assert_eq!(seen(lamp, &[]), (true, 0));
    assert_eq!(
        seen(("house/yard/pond.rs", "fn f(_: super::super::hall::lamp::Lamp) {}"), &[]),
        (true, 0)
    );
    assert_eq!(seen(("house/yard/pond.rs", "use super::bench::Bench;"), &[]), (false, 0));
    assert_eq!(seen(("house/gate.rs", "use crate::house::hall::door::Door;"), &[]), (false, 0));
    let excuse = [("house::yard", "house::hall", "a lamp in the pond")];
    assert_eq!(seen(lamp, &excuse), (false, 1));
    assert_eq!(seen(("house/yard/pond.rs", "use super::bench::Bench;"), &excuse), (false, 0));
    let other = [("house::gate", "house::hall", "a lamp at the gate")];
    assert_eq!(seen(lamp, &other), (true, 0));
    let through = "use crate::house::yard::tree::Tree; use crate::house::hall::lamp::Lamp;";
    assert_eq!(seen(("house/gate.rs", through), &[]), (false, 0));
}

/// What is named of crates that draw randomness outside of `sampler/rng.rs`, each with its reason.
/// No answer depends on it.
const RANDOMNESS: [(&str, &str, &str); 3] = [
    ("sampler/mod.rs", "getrandom::Error", "an error says that the system gave no entropy"),
    (
        "server/self_signed.rs",
        "rcgen",
        "the key of a certificate is made by the crate that signs it",
    ),
    (
        "exec/source/postgres/tls.rs",
        "ring::default_provider",
        "TLS draws the keys of its connections",
    ),
];

#[test]
fn foreign_crates_stay_where_they_belong() {
    let mut violations = Vec::new();
    let mut used = BTreeSet::<&(&str, &str, &str)>::new();
    for source in sources() {
        let (top, file) = (source.top(), source.path.to_str().unwrap().to_owned());
        for path in source.paths() {
            let second = path[1].as_str();
            let fine = match path[0].as_str() {
                "getrandom" | "rand" | "rand_chacha" | "rand_core" | "rcgen" | "ring" => {
                    let named = path.join("::");
                    let excused = |(at, what, _): &&(&str, &str, &str)| {
                        *at == file
                            && named
                                .strip_prefix(what)
                                .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
                    };
                    let excuse = RANDOMNESS.iter().find(excused);
                    used.extend(excuse);
                    excuse.is_some() || file == "sampler/rng.rs"
                }
                // A table of an SQLite file is a source of rows, as a file in another format is.
                "rusqlite" => {
                    ["ledger", "catalog"].contains(&top.as_str())
                        || file == "exec/source/sqlite_table.rs"
                }
                "datafusion" | "arrow" if ["ledger", "sampler"].contains(&top.as_str()) => false,
                "datafusion" => {
                    let runs = ["aggregate", "encoded_rows", "exec", "gather", "operator"];
                    runs.contains(&top.as_str()) || !second.starts_with("physical_")
                }
                // What tools ask of PostgreSQL's catalog is no query of the engine's: the server
                // reads it by itself.
                "sqlparser" => {
                    top != "cli" && (top != "server" || file.starts_with("server/catalog/"))
                }
                "clap" | "clap_complete" | "clap_mangen" | "rustyline" | "comfy_table"
                | "indicatif" | "sqllogictest" => top == "cli",
                "rmcp" => top == "mcp",
                "hyper" | "hyper_util" | "http_body_util" => {
                    ["console", "mcp"].contains(&top.as_str())
                }
                _ => true,
            };
            if !fine || (PROGRAM.contains(&top.as_str()) && path[0] == "datafusion") {
                violations.push(format!("{file}: {}", path.join("::")));
            }
        }
    }
    assert_none("crates out of place", violations);
    let unused = RANDOMNESS.iter().filter(|excuse| !used.contains(excuse));
    assert_none("no longer there", unused.map(|excuse| format!("{excuse:?}")).collect());
}

/// What of the synthetic tables decides about privacy: the rest is computed from what these
/// release.
const EXACT: [&str; 6] = ["budget", "columns", "door", "noise", "small", "task"];

/// The noise and the account are integers and rationals; how accurate an answer is may be said in
/// floats, and models of released values may be made of them.
#[test]
fn no_float_is_in_the_sampler_or_the_ledger() {
    let mut violations = Vec::new();
    let is_exact = |source: &&Source| match source.top().as_str() {
        "sampler" | "ledger" => true,
        "synthetic" => {
            EXACT.iter().any(|file| source.path.ends_with(format!("synthetic/{file}.rs")))
        }
        _ => false,
    };
    let sources = sources();
    let exact: Vec<&Source> = sources.iter().filter(is_exact).collect();
    assert_eq!(exact.iter().filter(|s| s.top() == "synthetic").count(), EXACT.len());
    for source in exact {
        for (number, line) in source.code.lines().enumerate() {
            if tokens(line).iter().any(|token| ["f32", "f64"].contains(&token.as_str())) {
                violations.push(format!("{}:{}: {line}", source.path.display(), number + 1));
            }
        }
    }
    assert_none("floats", violations);
}

/// Synthetic tables are made of what one file releases: no other one counts private rows, or makes
/// a released value.
#[test]
fn one_door_leads_to_the_rows_of_synthetic_tables() {
    let (mut violations, mut seen) = (Vec::new(), 0);
    for source in sources().iter().filter(|source| source.top() == "synthetic") {
        let file = source.path.display();
        let tokens = tokens(&source.code);
        for words in tokens.windows(5) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let counts = matches!(words[..], [".", "count", "(", "&", _]);
            let names = matches!(words[..], [_, "dyn", "Count", ..]);
            seen += usize::from(counts);
            if counts && !source.path.ends_with("door.rs") {
                violations.push(format!("{file} counts"));
            }
            if names && !["door.rs", "plan.rs"].iter().any(|known| source.path.ends_with(known)) {
                violations.push(format!("{file} knows who counts"));
            }
        }
    }
    assert_eq!(seen, 1, "the door counts in one place");
    assert_none("ways around the door", violations);
}

/// Where the frame looks at all declarations, beside the owner's room, and why.
const WHOLE: [(&str, &str); 10] = [
    ("engine/visible_catalog.rs", "makes what exists for a reader"),
    ("engine/shown_grants.rs", "shows to each what exists for them"),
    ("engine/show.rs", "shows the history within what exists, and the rest to owners"),
    ("engine/shown_requests.rs", "shows to each the requests of their own"),
    ("engine/reloads.rs", "reloads the tables of its owner"),
    ("engine/mod.rs", "a program registers a table for its owner"),
    ("engine/answer_files.rs", "no export folder may hold any table"),
    ("engine/query/declared.rs", "compares versions alone"),
    ("engine/release_tables.rs", "a name that any view reads is taken"),
    ("instance/entry_numbers.rs", "whether readers are kept apart"),
];

/// A session finds tables, views and budgets in a `VisibleCatalog`: nothing else asks the vault for
/// all of them.
#[test]
fn one_place_decides_what_a_session_sees() {
    let asks = ["catalog", "declarations", "release_tables", "inventory", "budgets", "roles"];
    let (mut violations, mut seen) = (Vec::new(), BTreeSet::new());
    for source in sources_of(&root("crates/hushql-engine")) {
        let file = source.path.display().to_string();
        let tokens = tokens(&source.code);
        for words in tokens.windows(4) {
            let [vault, dot, name, open] = words else { continue };
            let is_call = (dot.as_str(), open.as_str()) == (".", "(");
            if vault != "vault" || !is_call || !asks.contains(&name.as_str()) {
                continue;
            }
            match WHOLE.iter().any(|(known, _)| *known == file) || file.starts_with("owner/") {
                true => drop(seen.insert(file.clone())),
                false => violations.push(format!("{file}: vault.{name}()")),
            }
        }
    }
    assert_none("look-ups beside what exists for the reader", violations);
    for (file, reason) in WHOLE {
        assert!(seen.contains(file), "{file} ({reason}) asks for nothing any more");
    }
}

#[test]
fn nothing_panics_on_purpose() {
    let mut violations = Vec::new();
    for source in sources() {
        for (number, line) in source.code.lines().enumerate() {
            let calls = [".unwrap()", ".expect(", ".unwrap_err()", ".expect_err("];
            let macros =
                ["panic!", "unreachable!", "todo!", "unimplemented!", "assert!", "assert_eq!"];
            if calls.iter().chain(&macros).any(|call| line.contains(call))
                && !line.contains("debug_assert")
            {
                violations.push(format!(
                    "{}:{}: {}",
                    source.path.display(),
                    number + 1,
                    line.trim()
                ));
            }
        }
    }
    assert_none("panics", violations);
}

/// A file is asked about itself at 600 lines, tests aside.
#[test]
fn no_file_is_too_long_to_read() {
    let long = |source: &Source| {
        let end = source.code.trim_end().lines().count();
        (end > 600).then(|| format!("{} has {end} lines", source.path.display()))
    };
    assert_none("long files", sources().iter().filter_map(long).collect());
}

/// A reader who meets a name knows the type, or looks in two places at most.
#[test]
fn no_type_name_exists_three_times() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources() {
        let code = source.code.lines().filter(|line| {
            // The types of an implementation are indented, and named by its trait.
            !(line.starts_with(' ') && line.trim_start().starts_with("type "))
        });
        let tokens = tokens(&code.collect::<Vec<_>>().join("\n"));
        for pair in tokens.windows(2) {
            let declares = ["struct", "enum", "trait", "union", "type"].contains(&pair[0].as_str());
            if declares && pair[1].starts_with(char::is_uppercase) {
                places.entry(pair[1].clone()).or_default().push(source.path.display().to_string());
            }
        }
    }
    assert!(places.len() > 500, "only {} types were found", places.len());
    let often = places.into_iter().filter(|(_, places)| places.len() > 2);
    assert_none("names of three types", often.map(|(n, p)| format!("{n}: {p:?}")).collect());
}

/// The enums whose every new variant somebody must decide about.
fn watched(sources: &[Source]) -> BTreeSet<String> {
    let mut enums: BTreeSet<String> =
        ["LogicalPlan", "Expr", "Operator"].map(ToOwned::to_owned).into_iter().collect();
    for source in sources {
        let tokens = tokens(&source.code);
        enums
            .extend(tokens.windows(2).filter(|pair| pair[0] == "enum").map(|pair| pair[1].clone()));
    }
    enums
}

/// The arms' patterns of every `match` in a file, with the words between `match` and its brace.
fn matches(tokens: &[String]) -> Vec<(String, Vec<Vec<String>>)> {
    let mut found = Vec::new();
    for (start, _) in tokens.iter().enumerate().filter(|(_, token)| *token == "match") {
        let mut i = start + 1;
        let mut depth = 0_i32;
        while i < tokens.len() && !(depth == 0 && tokens[i] == "{") {
            depth += nesting(&tokens[i]);
            i += 1;
        }
        let scrutinee = tokens[start + 1..i].join(" ");
        (i, depth) = (i + 1, 0);
        let (mut arms, mut pattern) = (Vec::new(), Vec::new());
        let mut in_pattern = true;
        while i < tokens.len() && depth >= 0 {
            let token = tokens[i].as_str();
            if in_pattern && depth == 0 && token == "=>" {
                arms.push(std::mem::take(&mut pattern));
                in_pattern = false;
                // An arm that is a block ends with it.
                if tokens.get(i + 1).is_some_and(|next| next == "{") {
                    i = block_end(tokens, i + 1);
                    in_pattern = true;
                }
            } else if !in_pattern && depth == 0 && token == "," {
                in_pattern = true;
            } else {
                depth += nesting(token);
                if in_pattern && !(pattern.is_empty() && token == ",") {
                    pattern.push(token.to_owned());
                }
            }
            i += 1;
        }
        found.push((scrutinee, arms));
    }
    found
}

fn nesting(token: &str) -> i32 {
    match token {
        "{" | "(" | "[" => 1,
        "}" | ")" | "]" => -1,
        _ => 0,
    }
}

/// Where the bracket that opens at `i` closes.
fn block_end(tokens: &[String], mut i: usize) -> usize {
    let mut depth = 0;
    loop {
        depth += tokens.get(i).map_or(-1, |token| nesting(token));
        if depth <= 0 {
            return i;
        }
        i += 1;
    }
}

/// Matches with a wildcard that may stay, by file and what is matched. Each looks for one shape,
/// and anything else gives less knowledge or a refusal, never more permission.
const SHAPES: [(&str, &str, &str); 34] = [
    ("analysis/keys/cuts.rs", "op", "not known to keep the order: the column is not cut"),
    ("analysis/above/plain_selection.rs", "below", "no plain selection: the numbers are released"),
    ("analysis/splitter/scalar_subquery.rs", "plan", "not known to have one row: refused"),
    (
        "analysis/below/join_conditions.rs",
        "condition",
        "no equality of two columns: it joins nothing",
    ),
    ("analysis/below/mod.rs", "node", "only scans and releases decide what is public"),
    ("analysis/below/mod.rs", "plan", "no join below: the filter is one of rows"),
    ("analysis/below/semi_join.rs", "condition", "no whole condition: its subqueries are values"),
    ("analysis/below/correlation.rs", "expr", "no subquery"),
    ("analysis/below/relation.rs", "expr", "no column of the scan: nothing raw is said"),
    (
        "analysis/below/relation.rs",
        "conjunct",
        "a predicate of another shape says nothing of the raw column",
    ),
    ("analysis/expr/shape.rs", "( keys , & facts . keys )", "not both listed: keys unknown"),
    (
        "analysis/expr/functions.rs",
        "args . get ( i ) . map ( | a | & a . expr )",
        "no literal: refused",
    ),
    ("analysis/expr/functions.rs", "& t . expr", "CLAMP without literal bounds: refused"),
    ("analysis/expr/facts.rs", "conjunct", "a predicate of another shape narrows nothing"),
    ("analysis/expr/facts.rs", "expr", "no constant"),
    ("analysis/above/rr_count.rs", "expr", "no estimate: nothing to replace"),
    ("analysis/above/rr_count.rs", "column", "no column of released answers: refused"),
    ("analysis/measure/read.rs", "( lo , hi )", "bounds that are no numbers: refused"),
    ("analysis/splitter.rs", "below", "a better sentence for what `cut` refuses anyway"),
    (
        "analysis/splitter.rs",
        "plan",
        "not known to have several rows: its value is looked at as it runs",
    ),
    ("analysis/above/origin.rs", "plan", "an output of unknown origin has no accuracy"),
    ("analysis/above/origin.rs", "below", "not known how many rows there are: the LIMIT cuts"),
    ("analysis/expr/aggregate_call.rs", "expr", "no aggregate call: refused"),
    (
        "analysis/call/read_calls.rs",
        "( name , function . params . args . as_slice ( ) )",
        "one argument",
    ),
    (
        "analysis/above/plain_selection.rs",
        "( limit . skip . as_deref ( ) , limit . fetch . as_deref ( ) )",
        "no plain selection: the numbers are released",
    ),
    (
        "analysis/above/plain_selection.rs",
        "projection . expr . get ( i ) ? . clone ( ) . unalias ( )",
        "the same",
    ),
    (
        "analysis/selection/quantile.rs",
        "( aggregate . function , aggregate . fractions . first ( ) )",
        "a median: the quantile of 1/2",
    ),
    ("analysis/call/input_columns.rs", "expr", "a group key's own name"),
    ("analysis/above/error_bars/error_interval.rs", "op", "no sum and no product: no ± is claimed"),
    ("analysis/expr/domain.rs", "op", "no comparison in order: nothing raw is said"),
    ("analysis/expr/facts.rs", "op", "an operator of another shape narrows nothing"),
    ("analysis/expr/mod.rs", "op", "the caller lists the five operators of arithmetic"),
    (
        "analysis/expr/date_arithmetic.rs",
        "( op , is_temporal ( & types . 0 ) , is_temporal ( & types . 1 ) )",
        "no moment and an interval: arithmetic of numbers",
    ),
    ("analysis/selection/by_rank.rs", "threshold . op", "the parser takes four comparisons"),
];

#[test]
fn no_wildcard_lets_a_new_variant_through() {
    let sources = sources();
    let enums = watched(sources);
    let (mut violations, mut used) = (Vec::new(), BTreeSet::new());
    let mut seen = 0;
    for source in sources {
        if !["bind", "analysis"].contains(&source.top().as_str()) {
            continue;
        }
        for (scrutinee, arms) in matches(&tokens(&source.code)) {
            seen += 1;
            let names = |arm: &Vec<String>| {
                arm.windows(2).any(|pair| enums.contains(&pair[0]) && pair[1] == "::")
            };
            let wild = |arm: &Vec<String>| arm.first().is_some_and(|token| token == "_");
            if arms.iter().any(wild) && arms.iter().any(names) {
                let file = source.path.to_str().unwrap();
                match SHAPES.iter().find(|(a, b, _)| (*a, *b) == (file, scrutinee.as_str())) {
                    Some(shape) => drop(used.insert(shape)),
                    None => violations.push(format!("{file}: match {scrutinee}")),
                }
            }
        }
    }
    assert!(seen > 80, "only {seen} matches were seen");
    assert_none("wildcards", violations);
    let unused = SHAPES.iter().filter(|shape| !used.contains(shape));
    assert_none("no longer there", unused.map(|shape| format!("{shape:?}")).collect());
}
