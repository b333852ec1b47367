//! The page in a browser, over plain HTTP: who gets in, what is shown to whom, and what it costs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::{PASSWORD, Served};
use crate::contract::program::Study;

/// A browser without scripts.
struct Browser {
    port: u16,
    cookie: String,
    token: String,
}

/// What a browser got.
#[derive(Debug)]
struct Page {
    status: u16,
    head: String,
    body: String,
}

impl Page {
    fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }

    #[track_caller]
    fn has(&self, status: u16, words: &[&str]) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        for word in words {
            assert!(self.body.contains(word), "no `{word}` in {self:?}");
        }
        self
    }
}

fn sent(port: u16, request: &str) -> Page {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Page { status, head: head.to_owned(), body: body.to_owned() }
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

fn form(fields: &[(&str, &str)]) -> String {
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    fields.join("&")
}

impl Browser {
    fn at(port: u16) -> Self {
        Self { port, cookie: String::new(), token: String::new() }
    }

    fn of_role(port: u16, role: &str, password: &str) -> Self {
        let mut browser = Self::at(port);
        let page = browser.post("/log-in", &[("role", role), ("password", password)]);
        assert_eq!((page.status, page.header("location")), (303, "/ask"), "{page:?}");
        browser.enters(&page);
        browser
    }

    /// Takes the cookie of a log-in, and the token of the page behind it.
    fn enters(&mut self, page: &Page) {
        let cookie = page.header("set-cookie");
        assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        self.cookie = cookie.split(';').next().unwrap().to_owned();
        let asking = self.get("/ask");
        let (_, rest) = asking.body.split_once("name=\"token\" value=\"").unwrap();
        self.token = rest.split('"').next().unwrap().to_owned();
    }

    fn get(&self, path: &str) -> Page {
        let Self { port, cookie, .. } = self;
        sent(
            *port,
            &format!(
                "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
            ),
        )
    }

    fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let origin = format!("http://127.0.0.1:{}", self.port);
        self.post_from(path, fields, &format!("Origin: {origin}\r\n"))
    }

    fn post_from(&self, path: &str, fields: &[(&str, &str)], headers: &str) -> Page {
        let Self { port, cookie, .. } = self;
        let body = form(fields);
        sent(
            *port,
            &format!(
                "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n{headers}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            ),
        )
    }

    fn sends(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let token = [("token", self.token.as_str())];
        self.post(path, &[&token, fields].concat())
    }

    /// Asks, and opens what came of it.
    fn asks(&self, sql: &str) -> Page {
        let page = self.sends("/ask", &[("sql", sql), ("do", "run")]);
        match page.status {
            303 => self.get(page.header("location").split('#').next().unwrap()),
            _ => page,
        }
    }

    fn price(&self, sql: &str) -> Value {
        let page = self.sends("/price", &[("sql", sql)]);
        assert_eq!(page.status, 200, "{page:?}");
        serde_json::from_str(&page.body).unwrap()
    }
}

fn served() -> Served {
    Served::with(&["--console", "127.0.0.1:0", "--audit", "audit.log"])
}

const COUNT: &str = "SELECT LAPLACE(eps=100) COUNT(*) AS n FROM people";

/// How much the role has spent, by the shell.
fn spent(study: &Study) -> usize {
    let paid = "SELECT sequence FROM hushql.ledger WHERE kind = 'paid'";
    study.owner(paid).out.matches('\n').count()
}

#[test]
fn a_role_logs_in_asks_and_leaves() {
    let served = served();
    let port = served.browsers();
    let stranger = Browser::at(port);
    for path in [
        "/",
        "/ask",
        "/tune",
        "/budgets",
        "/history",
        "/tables",
        "/links.svg",
        "/declare",
        "/answers/1",
        "/answers/1.csv",
    ] {
        let page = stranger.get(path);
        assert_eq!((page.status, page.header("location")), (303, "/log-in"), "{page:?}");
        assert!(!page.body.contains("people"), "{page:?}");
    }
    stranger.get("/log-in").has(200, &["Password"]);
    for (role, password) in
        [("lab", "wrong horse"), ("nobody", PASSWORD), ("owner", PASSWORD), ("", "")]
    {
        let page = stranger.post("/log-in", &[("role", role), ("password", password)]);
        page.has(401, &["The role or the password is wrong"]);
        assert_eq!(page.header("set-cookie"), "");
    }
    let lab = Browser::of_role(port, "lab", PASSWORD);
    let page = lab.asks(COUNT);
    page.has(200, &["<td class=\"number\">4</td>", "± 95 %", "cost ε = 100"]);
    assert_eq!(page.header("cache-control"), "no-store");
    let policy = page.header("content-security-policy");
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    assert!(lab.get("/answers/1.csv").body.starts_with("n,n_error\n4,"));
    lab.get("/answers/1.json").has(200, &["\"columns\":[\"n\"]"]);
    let file = lab.get("/answers/1.parquet");
    assert_eq!(file.header("content-disposition"), "attachment; filename=\"answer.parquet\"");
    assert!(file.body.starts_with("PAR1") && file.body.ends_with("PAR1"));
    // Asked again of a file that did not change, it is charged once.
    served.study.write("fixed.csv", "id\n1\n2\n");
    served
        .study
        .owner(
            "CREATE EXTERNAL TABLE fixed STORED AS CSV LOCATION 'fixed.csv';
             ALTER TABLE fixed SET PRIVACY UNIT ROW;
             CREATE PRIVACY BUDGET f FOR fixed LIMIT (epsilon=1000)",
        )
        .says(0, &[]);
    let sql = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM fixed";
    let before = spent(&served.study);
    lab.asks(sql).has(200, &["cost ε = 1 "]);
    let once = spent(&served.study);
    assert!(once > before);
    lab.asks(sql).has(200, &["replayed for nothing"]);
    assert_eq!(spent(&served.study), once);
    // The session ends with the role's own will.
    let page = lab.sends("/log-out", &[]);
    assert_eq!(page.header("location"), "/log-in");
    assert_eq!(lab.get("/ask").header("location"), "/log-in");
    let log = std::fs::read_to_string(served.study.path("audit.log")).unwrap();
    assert!(log.contains("\"event\":\"log-in\"") && log.contains("28P01"), "{log}");
    assert!(log.contains("\"role\":\"lab\"") && !log.contains("COUNT"), "{log}");
}

#[test]
fn a_price_charges_nothing_and_tells_what_running_would_cost() {
    let served = served();
    let lab = Browser::of_role(served.browsers(), "lab", PASSWORD);
    let before = spent(&served.study);
    let price = lab.price("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM people");
    assert_eq!(price["cost"], "ε = 0.5", "{price}");
    assert_eq!(price["columns"][0]["column"], "n");
    assert!(price["columns"][0]["text"].as_str().unwrap().starts_with("± 6"), "{price}");
    assert!(price["left"][0].as_str().unwrap().contains("after"), "{price}");
    let sql = "SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM people";
    let page = lab.sends("/price", &[("sql", sql), ("of", "curve")]);
    let curve: Value = serde_json::from_str(&page.body).unwrap();
    let curve = curve["curve"].as_array().unwrap();
    let own = curve.iter().find(|one| one["factor"] == 1.0).unwrap();
    assert_eq!(own["cost"], "ε = 0.5");
    assert!(curve.len() > 4);
    for (sql, field) in
        [("SELECT age FROM people", "HQ001"), ("SELEC 1", ""), ("SELECT oops FROM people", "")]
    {
        let refused = lab.price(sql);
        assert!(refused["refused"].is_string(), "{refused}");
        assert_eq!(refused["code"].as_str().unwrap_or(""), field, "{refused}");
    }
    assert_eq!(lab.price("SELECT oops FROM people")["place"], serde_json::json!([1, 8]));
    assert_eq!(spent(&served.study), before);
    let page = lab.sends("/complete", &[("sql", "SELECT ag FROM people"), ("at", "9")]);
    page.has(200, &["\"age\"", "\"start\":7"]);
    lab.sends("/ask", &[("sql", COUNT), ("do", "explain")]).has(200, &["cost ", "Explanation"]);
    assert_eq!(spent(&served.study), before);
}

#[test]
fn what_is_tried_side_by_side_costs_nothing() {
    let served = served();
    let lab = Browser::of_role(served.browsers(), "lab", PASSWORD);
    let before = spent(&served.study);
    let tried = |sql: &str, eps: &str, bound: &str, what: &str| {
        lab.sends("/tune", &[("sql", sql), ("eps", eps), ("bound", bound), ("do", what)])
    };
    let count = "SELECT LAPLACE(eps={eps}) COUNT(*) AS n FROM people";
    let page = tried(count, "0.5, 2", "", "predict");
    page.has(200, &["Side by side", "ε = 0.5", "± 6", "ε = 2"]);
    assert!(!page.body.contains("lost groups"), "{page:?}");
    // A refusal of one pair stands in its row.
    tried("SELECT LAPLACE(eps={eps}) {bound} FROM people", "1", "COUNT", "predict")
        .has(200, &["people"]);
    // What runs, runs on the built-in tables, whatever the vault holds.
    let sums = "SELECT LAPLACE(eps={eps}, rows={bound}) SUM(price) AS s FROM orders";
    let page = tried(sums, "1", "2 20", "try");
    page.has(200, &["lost groups", "ε = 1"]);
    // Two rows of twenty hold a small part of the sums; all of them are not off in the mean.
    let cells: Vec<&str> = page.body.split("<td class=\"number\">").skip(1).collect();
    let number = |at: usize| cells[at].split('<').next().unwrap().parse::<f64>().unwrap();
    let (few, all) = (number(4), number(10));
    // 20 answers with a scale of 2000 each.
    assert!(few < -30_000.0 && all.abs() < 6_000.0, "{few} {all} {cells:?}");
    tried(count, "1", "", "try").has(422, &["people"]);
    for (sql, eps, bound, says) in [
        ("SELECT 1", "1", "", "write {eps} where the ε stands"),
        (count, "", "", "at least one value of ε"),
        (count, "1);", "", "is no value of ε"),
        (count, "1 2 3 4 5 6", "", "at most 5 values"),
        (sums, "1", "", "at least one value of the bound"),
    ] {
        tried(sql, eps, bound, "predict").has(422, &[says]);
    }
    assert_eq!(spent(&served.study), before);
    assert!(!lab.get("/history").body.contains("orders"));
}

#[test]
fn no_other_page_sends_forms() {
    let served = served();
    let lab = Browser::of_role(served.browsers(), "lab", PASSWORD);
    let port = lab.port;
    let before = spent(&served.study);
    let fields = [("token", lab.token.as_str()), ("sql", COUNT)];
    for headers in [
        "Origin: http://evil.example\r\n".to_owned(),
        "Origin: null\r\n".to_owned(),
        format!("Origin: https://127.0.0.1:{port}\r\n"),
        format!("Origin: http://127.0.0.1:{}\r\n", port ^ 1),
        "Sec-Fetch-Site: cross-site\r\n".to_owned(),
        "Sec-Fetch-Site: same-site\r\n".to_owned(),
    ] {
        lab.post_from("/ask", &fields, &headers).has(403, &["another page"]);
    }
    for token in ["", "0", &"0".repeat(64)] {
        lab.post("/ask", &[("token", token), ("sql", COUNT)]).has(403, &["another session"]);
    }
    // The token of one session is worth nothing in another.
    let other = Browser::of_role(port, "lab", PASSWORD);
    lab.post("/ask", &[("token", &other.token), ("sql", COUNT)]).has(403, &[]);
    // Neither does a log-in come from elsewhere, nor a name that leads to this machine.
    let log_in = [("role", "lab"), ("password", PASSWORD)];
    lab.post_from("/log-in", &log_in, "Origin: http://evil.example\r\n").has(403, &[]);
    for host in ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example"] {
        let page = sent(
            port,
            &format!(
                "GET /ask HTTP/1.1\r\nHost: {host}\r\nCookie: {}\r\nConnection: close\r\n\r\n",
                lab.cookie
            ),
        );
        assert_eq!(page.status, 421, "{host}: {page:?}");
    }
    for method in ["PUT", "DELETE", "OPTIONS"] {
        let page = sent(
            port,
            &format!(
                "{method} /ask HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
            ),
        );
        assert_eq!(page.status, 405, "{page:?}");
    }
    assert_eq!(lab.get(&format!("/ask?sql={}", encoded(COUNT))).status, 200);
    assert_eq!(spent(&served.study), before);
}

const HOSTILE: &str = "<script>alert(1)</script>\"'&";

#[test]
fn hostile_names_and_values_are_text() {
    let study = Study::with_people();
    study.owner(&format!("CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}'")).says(0, &[]);
    study.write("pub.csv", format!("word\n\"{}\"\n", HOSTILE.replace('"', "\"\"")));
    let name = HOSTILE.replace('"', "\"\"");
    study
        .owner(&format!(
            "CREATE EXTERNAL TABLE \"{name}\" STORED AS CSV LOCATION 'pub.csv'; ALTER TABLE \"{name}\" SET PUBLIC"
        ))
        .says(0, &[]);
    let served = Served::of(study, &["--console", "127.0.0.1:0"]);
    let lab = Browser::of_role(served.browsers(), "lab", PASSWORD);
    let sql = format!("SELECT word AS \"{name}\" FROM \"{name}\"");
    for page in [
        lab.asks(&sql),
        lab.get("/tables"),
        lab.get("/history"),
        lab.get("/ask"),
        lab.asks(&format!("SELECT \"{name}\" FROM people")),
        lab.asks(&format!("SELECT '{}' FROM nowhere", HOSTILE.replace('\'', "''"))),
        lab.sends("/ask", &[("sql", "</textarea><script>"), ("do", "edit")]),
    ] {
        assert!(!page.body.contains("<script>"), "{page:?}");
        assert!(page.body.contains("&lt;script&gt;"), "{page:?}");
        assert!(!page.body.contains("style="), "{page:?}");
        // Every script is the console's own file.
        assert_eq!(page.body.matches("<script").count(), 1);
    }
    let page = Browser::at(lab.port).get(&format!("/enter/{}", encoded(HOSTILE)));
    assert!(page.status == 403 && !page.body.contains("alert"), "{page:?}");
}

#[test]
fn each_role_sees_what_show_shows_it() {
    let study = Study::with_people();
    study
        .owner(&format!(
            "CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}'; CREATE ROLE team LOGIN PASSWORD 'battery staple'"
        ))
        .says(0, &[]);
    let served = Served::of(study, &["--console", "127.0.0.1:0"]);
    let lab = Browser::of_role(served.browsers(), "lab", PASSWORD);
    let team = Browser::of_role(served.browsers(), "team", "battery staple");
    lab.asks("SELECT LAPLACE(eps=7) COUNT(*) AS lab_asked FROM people").has(200, &["lab_asked"]);
    lab.get("/history").has(200, &["lab_asked", "ε = 7"]);
    let history = team.get("/history");
    assert!(history.status == 200 && !history.body.contains("lab_asked"), "{history:?}");
    // An answer is that of its session.
    team.get("/answers/1").has(404, &["not kept"]);
    team.get("/answers/1.csv").has(404, &[]);
    for page in [
        team.get("/declare"),
        team.sends("/declare", &[("step", "role"), ("typed", "x"), ("password", "long enough")]),
    ] {
        assert_eq!(page.status, 404, "{page:?}");
    }
    team.asks("ALTER TABLE people SET PUBLIC").has(422, &["only the owner"]);
    lab.get("/budgets").has(200, &["ε = 7"]);
    lab.get("/tables").has(200, &["people", "age", "unit row"]);
    // What a role may no longer ask about is not shown from before either.
    let seen = lab.asks("SELECT LAPLACE(eps=7) COUNT(*) AS lab_asked FROM people");
    let path = "/answers/1";
    lab.get(path).has(200, &["lab_asked"]);
    served.study.owner("SET GRANTS REQUIRED").says(0, &[]);
    lab.get(path).has(404, &["not kept"]);
    assert!(!lab.get("/history").body.contains("/answers/"), "{seen:?}");
    served.study.owner("SET GRANTS NOT REQUIRED").says(0, &[]);
    // A role that may not log in any more is sent away.
    served.study.owner("ALTER ROLE lab NOLOGIN").says(0, &[]);
    assert_eq!(lab.get("/ask").header("location"), "/log-in");
    let page = lab.sends("/price", &[("sql", COUNT)]);
    assert_eq!(page.status, 401, "{page:?}");
    let again = [("role", "lab"), ("password", PASSWORD)];
    Browser::at(lab.port).post("/log-in", &again).has(401, &[]);
}

#[test]
fn refusals_say_what_to_write_and_a_spent_budget_says_so() {
    let served = served();
    let lab = Browser::of_role(served.browsers(), "lab", PASSWORD);
    let page = lab.asks("SELECT age FROM people");
    page.has(422, &["Refused (HQ001)", "Put it in", "LAPLACE(eps=1) COUNT(*)"]);
    // One click puts it in, and asks nothing.
    let (_, rest) = page.body.rsplit_once("name=\"sql\" value=\"").unwrap();
    let put = rest.split('"').next().unwrap().to_owned();
    lab.sends("/ask", &[("sql", &put), ("do", "edit")]).has(200, &[&put]);
    assert!(lab.price(&put)["cost"].is_string());
    lab.asks("SELECT\n oops FROM people").has(422, &["Not understood", " oops FROM people\n ^"]);
    lab.asks("SELECT 1; SELECT 2").has(422, &["one statement at a time"]);
    // The budget ends while one types.
    let big = "SELECT LAPLACE(eps=100000) COUNT(*) AS n FROM people";
    lab.asks(big).has(422, &["The budget does not allow it"]);
    assert!(lab.price(big)["refused"].as_str().unwrap().contains("budget"));
}

/// The owner's page.
struct Owners {
    process: Child,
    port: u16,
    link: String,
}

impl Owners {
    fn open(study: &Study, arguments: &[&str]) -> Self {
        let all = [["console"].as_slice(), arguments].concat();
        let mut process = study.command(&all).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        let (_, rest) = line.split_once("http://127.0.0.1:").expect(&line);
        let (port, path) = rest.split_once('/').unwrap();
        Self { process, port: port.parse().unwrap(), link: format!("/{path}") }
    }

    fn enter(&self) -> Browser {
        let mut browser = Browser::at(self.port);
        let page = browser.get(&self.link);
        assert_eq!(page.header("location"), "/ask", "{page:?}");
        browser.enters(&page);
        browser
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_owner_enters_once_and_walks_from_a_file_to_a_question() {
    let study = Study::new();
    study.write("visits.csv", "patient,ward,age\n1,north,30\n1,south,30\n2,north,77\n");
    let owners = Owners::open(&study, &["study.db"]);
    let owner = owners.enter();
    Browser::at(owners.port).get(&owners.link).has(403, &["works once"]);
    Browser::at(owners.port)
        .post("/log-in", &[("role", "lab"), ("password", PASSWORD)])
        .has(403, &[]);
    // Each step shows its statement, and runs it when it is sent again.
    let step = |fields: &[(&str, &str)], sql: &str| {
        let shown = owner.sends("/declare", fields);
        let mut value = String::new();
        for c in sql.chars() {
            match c {
                '\'' => value.push_str("&#39;"),
                '"' => value.push_str("&quot;"),
                c => value.push(c),
            }
        }
        shown.has(200, &[&value]);
        let page = owner.sends("/declare", &[fields, &[("sql", sql)]].concat());
        assert_eq!(page.status, 303, "{sql}: {page:?}");
    };
    step(
        &[("step", "file"), ("typed", "visits.csv")],
        "CREATE EXTERNAL TABLE IF NOT EXISTS visits STORED AS CSV LOCATION 'visits.csv'",
    );
    let table = ("table", "visits");
    owner.get("/declare/visits").has(200, &["Who is a person?", "patient"]);
    // What the rows hold is not shown, even where they break a declaration.
    let wrong = "ALTER TABLE visits SET PRIVACY UNIT (patient) UNIQUE";
    let page = owner.sends("/declare", &[("step", "unit"), table, ("sql", wrong)]);
    page.has(422, &["Not declared", "said in a terminal alone"]);
    step(
        &[("step", "unit"), table, ("typed", "(patient)"), ("rows", "2")],
        "ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 2",
    );
    step(
        &[("step", "domain"), table, ("column", "age"), ("type", "BIGINT"), ("typed", "0 120")],
        "ALTER TABLE visits ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 120)",
    );
    let page = owner.sends("/declare", &[("step", "budget"), table, ("typed", "1")]);
    page.has(200, &["CREATE PRIVACY BUDGET ", "LIMIT (epsilon=1)"]);
    let (_, rest) = page.body.rsplit_once("name=\"sql\" value=\"").unwrap();
    let sql = rest.split('"').next().unwrap().to_owned();
    let page = owner.sends("/declare", &[("step", "budget"), table, ("sql", &sql)]);
    assert_eq!(page.status, 303, "{page:?}");
    owner
        .asks("SELECT LAPLACE(eps=0.1) COUNT(DISTINCT patient) AS people FROM visits")
        .has(200, &["people", "cost ε = 0.1"]);
    let page =
        owner.sends("/declare", &[("step", "role"), ("typed", "lab"), ("password", PASSWORD)]);
    assert_eq!(page.status, 303, "{page:?}");
    step(
        &[("step", "grant"), ("typed", "visits"), ("role", "lab")],
        "GRANT SELECT ON visits TO lab",
    );
    let slice = [("step", "slice"), ("budget", "visits"), ("role", "lab"), ("typed", "0.5")];
    step(&slice, "ALTER PRIVACY BUDGET visits ADD SLICE lab LIMIT (epsilon=0.5)");
    let wrong = [&slice[..3], &[("typed", "0.5)")]].concat();
    owner.sends("/declare", &wrong).has(422, &["is no ε"]);
    let page = owner.get("/declare");
    page.has(200, &["visits", "lab", "<td class=\"short\">SELECT</td>", "What they may ask about"]);
    assert!(!page.body.contains(PASSWORD));
    owner.get("/budgets").has(200, &["9 more questions of today&#39;s median price (0.100) fit"]);
    let history = owner.get("/history");
    history.has(200, &["Ask again", "COUNT(DISTINCT patient)"]);
    // A table of other names belongs to the people of one that is declared.
    study.write("people.csv", "id,born\n1,1960\n2,1970\n");
    study.write("stays.csv", "person,nights\n1,3\n2,4\n");
    for (name, table) in [("people.csv", "people"), ("stays.csv", "stays")] {
        step(
            &[("step", "file"), ("typed", name)],
            &format!("CREATE EXTERNAL TABLE IF NOT EXISTS {table} STORED AS CSV LOCATION '{name}'"),
        );
    }
    step(
        &[("step", "unit"), ("table", "people"), ("typed", "(id)"), ("rows", "1")],
        "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
    );
    owner
        .get("/declare/stays")
        .has(200, &["the people of another table", "option value=\"people\""]);
    let link = [("step", "link"), ("table", "stays"), ("typed", "person"), ("other", "people")];
    owner.sends("/declare", &link).has(422, &["choose both columns"]);
    step(
        &[&link[..], &[("key", "id"), ("rows", "1")]].concat(),
        "ALTER TABLE stays SET PRIVACY UNIT VIA (person) REFERENCES people(id) MAX ROWS 1",
    );
    // No page shows a value of a private table.
    for path in ["/declare", "/declare/visits", "/tables", "/history", "/budgets", "/ask"] {
        let page = owner.get(path);
        assert!(!page.body.contains("north") && !page.body.contains(">77<"), "{path}: {page:?}");
    }
}

#[test]
fn other_machines_need_tls_and_never_reach_the_owners_page() {
    let study = Study::with_people();
    study
        .run(&["serve", "study.db", "--listen", "127.0.0.1:0", "--console", "0.0.0.0:0"])
        .says(1, &["log-ins need TLS"]);
    study.run(&["console", "study.db", "--listen", "0.0.0.0:0"]).says(1, &["for this one alone"]);
}
