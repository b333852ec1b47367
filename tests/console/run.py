"""The console in real Chromium: every path as a person would click it, at 360 and 1,600 pixels, with pictures.

    python3 tests/console/run.py PROGRAM FOLDER

FOLDER gets the pictures. Chromium and its driver are Debian's packages `chromium` and `chromium-driver`; without them this says so and ends
well. Only the standard library is needed: the driver speaks WebDriver, which is JSON over HTTP. Where npm is installed, every page of which a
picture is taken is also held to the accessibility rules of axe-core: a serious finding fails.
"""

import base64
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

PASSWORD = "correct horse"
DECLARE = """
CREATE EXTERNAL TABLE visits STORED AS CSV LOCATION 'visits.csv';
ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 3;
ALTER TABLE visits ALTER COLUMN ward SET PRIVACY DOMAIN IN ('north', 'south', 'west');
ALTER TABLE visits ALTER COLUMN day SET PRIVACY DOMAIN BETWEEN (DATE '2025-01-01', DATE '2025-01-31');
ALTER TABLE visits ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 120);
CREATE PRIVACY BUDGET study FOR visits LIMIT (epsilon=3, delta=1e-6) PER QUERY (default=0.1);
CREATE EXTERNAL TABLE "<b>hostile</b>" STORED AS CSV LOCATION 'hostile.csv';
ALTER TABLE "<b>hostile</b>" SET PUBLIC;
CREATE ROLE lab LOGIN PASSWORD 'correct horse';
CREATE ROLE team LOGIN PASSWORD 'correct horse';
"""
# A value that no page may show: no analyst asked for it, and no declaration names it.
CANARY = 987_654


AXE = "axe-core@4.11.0"


def axe_script():
    """The accessibility rules as a script; None where npm is missing or has no network."""
    if not shutil.which("npm"):
        return None
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["npm", "pack", AXE, "--silent"], cwd=folder, capture_output=True, text=True)
        if packed.returncode:
            return None
        with tarfile.open(Path(folder) / packed.stdout.split()[-1]) as archive:
            return archive.extractfile("package/axe.min.js").read().decode()


class Element:
    def __init__(self, browser, number):
        self.browser, self.number = browser, number

    def _at(self, what):
        return f"/element/{self.number}/{what}"

    def click(self):
        self.browser.send("POST", self._at("click"), {})

    def type(self, text):
        self.browser.send("POST", self._at("value"), {"text": text})

    def clear(self):
        self.browser.send("POST", self._at("clear"), {})

    def text(self):
        return self.browser.send("GET", self._at("text"))


class Browser:
    """One window of Chromium."""

    axe = None

    def __init__(self, driver, width, dark=False):
        self.folder = tempfile.TemporaryDirectory()
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
        arguments += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        arguments += [f"--user-data-dir={self.folder.name}", f"--window-size={width},1000", "--hide-scrollbars"]
        if dark:
            arguments += ["--blink-settings=preferredColorScheme=0"]
        options = {"args": arguments, "binary": shutil.which("chromium")}
        # Narrower than a window may be.
        if width < 500:
            options["mobileEmulation"] = {"deviceMetrics": {"width": width, "height": 1600, "pixelRatio": 1, "touch": False}}
        self.base = driver
        wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}}
        self.base = f"{driver}/session/" + self.send("POST", "/session", wanted)["sessionId"]

    def send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error

    def open(self, address):
        self.send("POST", "/url", {"url": address})

    def address(self):
        return self.send("GET", "/url")

    def all(self, css):
        found = self.send("POST", "/elements", {"using": "css selector", "value": css})
        return [Element(self, next(iter(one.values()))) for one in found]

    def one(self, css):
        return self.until(lambda: self.all(css), f"no {css}")[0]

    def run(self, script, *arguments):
        return self.send("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def page(self):
        return self.run("return document.documentElement.innerText")

    def until(self, holds, why):
        end = time.monotonic() + 30
        while True:
            try:
                found = holds()
            except AssertionError as error:
                # The page is being replaced.
                gone = ("stale", "no such", "does not belong to the document")
                if not any(word in str(error) for word in gone):
                    raise
                found = None
            if found:
                return found
            if time.monotonic() > end:
                raise AssertionError(f"{why}: {self.address()}\n{self.page()[:2000]}")
            time.sleep(0.05)

    def shows(self, *words):
        for word in words:
            self.until(lambda: word in self.page(), f"no {word!r}")

    def write(self, text):
        """Replaces the statement, as keys do."""
        self.one("#sql").clear()
        self.one("#sql").type(text)

    def press(self, text):
        buttons = [button for button in self.all("button") if button.text() == text]
        assert buttons, f"no button {text}: {self.page()}"
        buttons[0].click()

    def accessible(self, name):
        """No rule of axe is broken seriously."""
        if self.axe is None:
            return
        self.run(self.axe)
        found = self.send("POST", "/execute/async", {
            "script": "const done = arguments[0]; axe.run().then(a => done(a.violations.filter("
                      "v => ['serious', 'critical'].includes(v.impact)).map(v => [v.id, v.nodes.map(n => n.html)])))",
            "args": [],
        })
        assert not found, f"{name}: {found}"

    def picture(self, path):
        """A picture of the whole page, which must not be wider than its window, and is accessible."""
        self.accessible(path.name)
        wide = self.run("return document.documentElement.scrollWidth > document.documentElement.clientWidth + 1")
        assert not wide, f"{path.name}: the page is wider than its window"
        height = self.run("return Math.min(document.documentElement.scrollHeight, 4000)")
        width = self.run("return window.innerWidth")
        if width >= 500:
            self.send("POST", "/window/rect", {"width": width, "height": max(700, height + 100)})
        path.write_bytes(base64.b64decode(self.send("GET", "/screenshot")))

    def complaints(self):
        """What the browser complains about, such as a script that the page's policy forbids."""
        lines = self.send("POST", "/se/log", {"type": "browser"})
        # A refusal of a form is a page with the status 422.
        return [line["message"] for line in lines if "the server responded with a status of 4" not in line["message"]]

    def close(self):
        self.send("DELETE", "")
        self.folder.cleanup()


def ask(browser, sql):
    browser.write(sql)
    browser.press("Run")
    browser.one("#answer")


def analyst(browser, base, name, pictures, prefix):
    """Everything that a role may click."""
    browser.open(base)
    browser.shows("Password")
    browser.picture(pictures / f"{prefix}-log-in.png")
    browser.one("#role").type(name)
    browser.one("#password").type(PASSWORD + "x\n")
    browser.shows("The role or the password is wrong")
    browser.one("#role").type(name)
    browser.one("#password").type(PASSWORD + "\n")
    browser.shows("Statement", "<b>hostile</b>")
    browser.picture(pictures / f"{prefix}-ask.png")
    # Price while one types; the dial; the error that one wants.
    browser.write("SELECT ward, LAPLACE(eps=0.2) COUNT(*) AS n, LAPLACE(eps=0.2) AVG(age) AS mean FROM visits GROUP BY ward")
    browser.shows("costs ε = 0.4", "after")
    browser.until(lambda: browser.all("#curve circle"), "no curve")
    browser.picture(pictures / f"{prefix}-price.png")
    browser.run("const f = document.getElementById('factor'); f.value = 1; f.dispatchEvent(new Event('input')); f.dispatchEvent(new Event('change'))")
    browser.shows("costs ε = 0.8")
    assert "eps=0.4" in browser.run("return document.getElementById('sql').value")
    before = browser.run("return document.getElementById('sql').value")
    browser.run("const w = document.getElementById('within'); w.value = 100; w.dispatchEvent(new Event('change'))")
    browser.until(lambda: browser.run("return document.getElementById('sql').value") != before, "the error moves nothing")
    # Completion by keys alone.
    browser.write("SELECT LAPLACE(eps=0.1) COUNT(*) FROM vis")
    browser.one("#sql").type("\ue009 \ue000")
    browser.until(lambda: "visits" in browser.run("return document.getElementById('sql').value"), "no completion")
    # A refusal, and what to write put in by one click.
    browser.write("SELECT age FROM visits")
    browser.shows("HQ001")
    browser.press("Run")
    browser.shows("Refused (HQ001)", "What to write:")
    browser.picture(pictures / f"{prefix}-refusal.png")
    browser.press("Put it in")
    browser.shows("costs ε")
    browser.write("SELECT warp FROM visits")
    browser.until(lambda: browser.run("return !document.getElementById('place').hidden"), "no mark below the word")
    # Answers: keys run it, a chart stands below, and again it costs nothing.
    browser.write("SELECT ward, LAPLACE(eps=0.1) COUNT(*) AS n FROM visits GROUP BY ward")
    browser.one("#sql").type("\ue009\ue007\ue000")
    browser.shows("Answer", "north", "± 95 %")
    browser.until(lambda: browser.run("const i = document.querySelector('img.chart'); return i && i.complete && i.naturalWidth"), "no chart")
    browser.picture(pictures / f"{prefix}-answer.png")
    browser.press("Run")
    browser.shows("replayed for nothing")
    if prefix.startswith("wide"):
        ask(browser, "SELECT day, LAPLACE(eps=0.1) COUNT(*) AS n FROM visits GROUP BY day")
        browser.shows("2025-01-02")
        browser.picture(pictures / f"{prefix}-lines.png")
    browser.write("SELECT LAPLACE(eps=0.1) SUM(age) AS s FROM visits")
    browser.press("Explain for nothing")
    browser.shows("Explanation", "derivation")
    ask(browser, "SELECT LAPLACE(eps=100) COUNT(*) FROM visits")
    browser.shows("The budget does not allow it")
    # Side by side, for nothing: predictions on one's own tables, runs on the built-in ones.
    browser.one("nav a[href='/tune']").click()
    browser.shows("Try ε and bounds")
    browser.press("Try on the built-in tables")
    browser.shows("Side by side", "lost groups")
    browser.picture(pictures / f"{prefix}-tune.png")
    browser.one("#tuned").clear()
    browser.one("#tuned").type("SELECT LAPLACE(eps={eps}, rows={bound}) SUM(age) AS s FROM visits")
    browser.one("#bound").clear()
    browser.one("#bound").type("1 3")
    browser.press("Predict on my tables")
    browser.until(lambda: len(browser.all("#answer tbody tr")) == 6, "no prediction for each pair")
    assert "lost groups" not in browser.page()
    for link in ["Budgets", "History", "Tables"]:
        browser.one(f"nav a[href='/{link.lower()}']").click()
        browser.shows(link)
        browser.picture(pictures / f"{prefix}-{link.lower()}.png")
        if link == "Budgets":
            browser.shows("of today's median price")
        if link == "History":
            again = [button for button in browser.all("button") if button.text() == "Ask again"]
            again[0].click()
            browser.shows("costs ε", "Statement")
    crawl(browser, base)
    complaints = browser.complaints()
    assert not complaints, complaints


def log_in(browser, base, name):
    browser.open(base)
    browser.one("#role").type(name)
    browser.one("#password").type(PASSWORD + "\n")
    browser.shows("Statement")


def two_at_once(driver, program, study, running):
    """Two analysts of one budget; the budget ends while one of them types; the server is killed and started again."""
    for arguments in (["init", "two.db"], ["two.db", "--owner", "-f", "declare.sql"]):
        subprocess.run([str(program), *arguments], cwd=study, check=True, capture_output=True)
    serve = ["serve", "two.db", "--listen", "127.0.0.1:0", "--console"]
    served, address = started(program, study, [*serve, "127.0.0.1:0"], r"(http://\S+)")
    running.append(served)
    with closing(Browser(driver, 1200)) as lab, closing(Browser(driver, 1200)) as team:
        log_in(lab, address, "lab")
        log_in(team, address, "team")
        for browser, epsilon in [(lab, 0.3), (team, 0.5)]:
            browser.write(f"SELECT LAPLACE(eps={epsilon}) COUNT(*) AS n FROM visits")
            browser.shows(f"costs ε = {epsilon}")
        for browser in (lab, team):
            browser.press("Run")
        for browser in (lab, team):
            browser.shows("Answer", "cost ε")
            browser.open(address.rstrip("/") + "/budgets")
            browser.shows("ε = 2.2")
        # Neither sees what the other asked.
        lab.open(address.rstrip("/") + "/history")
        lab.shows("eps=0.3")
        assert "eps=0.5" not in lab.page()
        lab.open(address.rstrip("/") + "/ask")
        lab.write("SELECT LAPLACE(eps=1) SUM(age) AS s FROM visits")
        lab.shows("costs ε = 1")
        team.open(address.rstrip("/") + "/ask")
        ask(team, "SELECT LAPLACE(eps=2) SUM(age) AS s FROM visits")
        team.shows("cost ε = 2")
        lab.press("Run")
        lab.shows("The budget does not allow it")
        served.kill()
        served.wait()
        lab.write("SELECT 1 AS x")
        lab.until(lambda: lab.all("#priced .refused"), "nothing says that the server is gone")
        at = re.search(r"//([^/]+)", address).group(1)
        served, again = started(program, study, [*serve, at], r"(http://\S+)")
        running.append(served)
        assert again == address
        lab.open(address.rstrip("/") + "/budgets")
        lab.shows("Password")
        log_in(lab, address, "lab")
        lab.open(address.rstrip("/") + "/budgets")
        lab.shows("ε = 0.2")
        lab.open(address.rstrip("/") + "/ask")
        ask(lab, "SELECT LAPLACE(eps=0.3) COUNT(*) AS n FROM visits")
        lab.shows("replayed for nothing")
    print("two analysts, a budget that ended, a server that was killed")


def crawl(browser, base):
    """Follows every link: no page holds a cell of the private table."""
    waiting, seen = [base], set()
    while waiting:
        address = waiting.pop().split("#")[0]
        if address in seen or not address.startswith(base):
            continue
        seen.add(address)
        found = browser.run("return fetch(arguments[0]).then(a => a.text())", address)
        assert str(CANARY) not in found, address
        waiting += [base.rstrip("/") + link for link in re.findall(r'(?:href|src)="(/[^"]*)"', found)]
    assert len(seen) > 6, seen


def owner(browser, link, pictures, prefix):
    """From a file to a first question."""
    browser.open(link)
    browser.shows("Statement", "owner")
    browser.one("nav a[href='/declare']").click()
    browser.one("#path").type("people.csv")
    browser.picture(pictures / f"{prefix}-declare.png")
    browser.press("Show the statement")
    browser.shows("CREATE EXTERNAL TABLE IF NOT EXISTS people")
    browser.picture(pictures / f"{prefix}-declare-statement.png")
    browser.press("Run it")
    browser.one("a[href='/declare/people']").click()
    browser.shows("Who is a person?")
    browser.picture(pictures / f"{prefix}-declare-unit.png")
    browser.run("document.getElementById('unit').value = '(id)'")
    browser.one("#rows").type("1")
    browser.press("Show the statement")
    browser.shows("SET PRIVACY UNIT")
    browser.press("Run it")
    browser.shows("What may the columns hold?")
    browser.picture(pictures / f"{prefix}-declare-domains.png")
    browser.one("#domain-age").clear()
    browser.one("#domain-age").type("0 120\n")
    browser.shows("BETWEEN (0, 120)")
    browser.press("Run it")
    browser.one("#budget").type("\n")
    browser.shows("CREATE PRIVACY BUDGET")
    browser.press("Run it")
    browser.one("a[href='/declare']").click()
    browser.one("#path").type("orders.csv")
    browser.press("Show the statement")
    browser.press("Run it")
    browser.one("a[href='/declare/orders']").click()
    browser.shows("Or: the people of another table")
    browser.accessible("declare-link")
    browser.run("document.getElementById('link').value = 'person'")
    browser.run("document.getElementById('link-table').value = 'people'")
    browser.one("#link-key").type("id")
    browser.one("#link-rows").type("3\n")
    browser.shows("SET PRIVACY UNIT VIA (person) REFERENCES people(id) MAX ROWS 3")
    browser.press("Run it")
    browser.shows("private, unit")
    browser.open(browser.address().rsplit("/", 1)[0] + "/people")
    browser.one("a[href='/ask?table=people']").click()
    browser.shows("costs ε = 0.1")
    browser.press("Run")
    browser.shows("Answer", "cost ε = 0.1")
    complaints = browser.complaints()
    assert not complaints, complaints


def started(program, study, arguments, pattern):
    served = subprocess.Popen([str(program), *arguments], cwd=study, stderr=subprocess.PIPE, text=True)
    while line := served.stderr.readline():
        if found := re.search(pattern, line):
            return served, found.group(1)
    raise AssertionError("the server ended")


def main(program, pictures):
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        print("skipped: no Chromium here; apt-get install chromium chromium-driver")
        return 0
    program = program.resolve()
    pictures.mkdir(parents=True, exist_ok=True)
    driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
    port = None
    while port is None:
        found = re.search(r"started successfully on port (\d+)", driver.stdout.readline())
        port = found and found.group(1)
    base = f"http://127.0.0.1:{port}"
    running = [driver]
    Browser.axe = axe_script()
    print("the rules of axe are tried" if Browser.axe else f"skipped: {AXE}, which npm could not fetch")
    try:
        with tempfile.TemporaryDirectory() as study:
            study = Path(study)
            wards = ["north", "south", "west"]
            rows = [f"{i % 300},{wards[i % 3]},2025-01-{1 + i % 31:02},{20 + i % 60},{CANARY + i}" for i in range(900)]
            (study / "visits.csv").write_text("patient,ward,day,age,secret\n" + "\n".join(rows) + "\n")
            (study / "people.csv").write_text("id,age\n" + "".join(f"{i},{20 + i % 60}\n" for i in range(200)))
            (study / "orders.csv").write_text("no,person,paid\n" + "".join(f"{i},{i % 200},{i % 9}\n" for i in range(500)))
            (study / "hostile.csv").write_text('word\n"<script>document.title=1</script>"\n')
            (study / "declare.sql").write_text(DECLARE)
            for arguments in (["init", "study.db"], ["study.db", "--owner", "-f", "declare.sql"]):
                subprocess.run([str(program), *arguments], cwd=study, check=True, capture_output=True)
            arguments = ["serve", "study.db", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"]
            served, address = started(program, study, arguments, r"(http://\S+)")
            running.append(served)
            for prefix, width, dark, name in [("wide", 1600, False, "lab"), ("narrow", 360, False, "team"), ("dark", 1600, True, "lab")]:
                with closing(Browser(base, width, dark)) as browser:
                    analyst(browser, address, name, pictures, prefix)
                print(f"{prefix}: everything was clicked")
            served.kill()
            served.wait()
            two_at_once(base, program, study, running)
            for prefix, width in [("wide", 1600), ("narrow", 360)]:
                subprocess.run([str(program), "init", f"{prefix}.db"], cwd=study, check=True, capture_output=True)
                opened, link = started(program, study, ["console", f"{prefix}.db"], r"(http://\S+)")
                running.append(opened)
                with closing(Browser(base, width)) as browser:
                    owner(browser, link, pictures, prefix + "-owner")
                print(f"{prefix}: the owner declared a table")
    finally:
        for process in running:
            process.kill()
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
