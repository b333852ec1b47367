"""A vault, a server on it, and what its ledger holds."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PASSWORD = "correct horse"
DATABASE = "hushql"

DECLARATIONS = f"""
CREATE EXTERNAL TABLE people STORED AS CSV LOCATION 'people.csv' OPTIONS ('content_hash' 'false');
ALTER TABLE people SET PRIVACY UNIT ROW;
ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 100);
ALTER TABLE people ALTER COLUMN city SET PRIVACY DOMAIN IN ('Rome', 'Oslo');
CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=100000, delta=1e-5) PER QUERY (max=50000);
CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}';
CREATE ROLE own LOGIN PASSWORD '{PASSWORD}';
"""

# With this ε, the noise is 0 but for one chance in 10⁴³.
COUNT = "SELECT LAPLACE(eps=100) COUNT(*) AS n FROM people"


class Served:
    """A server, with TLS and the certificate that it makes for itself."""

    def __init__(self, binary: Path):
        self.binary = binary
        self.folder = Path(tempfile.mkdtemp(prefix="hushql-clients-"))
        rows = [(1, 30, "Rome"), (2, 41, "Oslo"), (3, 52, "Rome"), (4, 63, "Bonn")]
        lines = ["id,age,city", *(f"{id},{age},{city}" for id, age, city in rows)]
        (self.folder / "people.csv").write_text("\n".join(lines) + "\n")
        self.hushql("init", "study.db")
        self.hushql("study.db", "--owner", "-c", DECLARATIONS)
        arguments = ["serve", "study.db", "--listen", "127.0.0.1:0", "--tls-self-made"]
        self.certificate = self.folder / "self-made.crt"
        self.process = subprocess.Popen(
            [self.binary, *arguments], cwd=self.folder, env=self.environment(), stderr=subprocess.PIPE, text=True
        )
        for line in self.process.stderr:
            if "for roles" in line:
                self.port = int(line.split("127.0.0.1:")[1].split(" ")[0].split(",")[0])
                break
        else:
            raise RuntimeError("the server did not start")

    def environment(self):
        return {**os.environ, "HUSHQL_CONFIG": "", "RUST_BACKTRACE": "0"}

    def hushql(self, *arguments) -> str:
        run = subprocess.run(
            [self.binary, *arguments], cwd=self.folder, env=self.environment(), capture_output=True, text=True
        )
        if run.returncode != 0:
            raise RuntimeError(run.stderr)
        return run.stdout

    def spent(self):
        """How many entries the ledger holds, and what is left."""
        asked = "SELECT COUNT(*) AS n FROM hushql.ledger; SHOW PRIVACY BUDGET"
        lines = self.hushql("study.db", "--owner", "--format", "json", "-c", asked).splitlines()
        return [json.loads(line)["rows"] for line in lines]

    @contextlib.contextmanager
    def costs(self, charges: int):
        """What runs within is charged so often."""
        before = self.spent()
        yield
        after = self.spent()
        more = int(after[0][0][0]) - int(before[0][0][0])
        assert more == charges, f"{more} charges instead of {charges}"
        assert charges or before == after, (before, after)

    def url(self, driver: str = "postgresql", **more) -> str:
        if self.certificate and "sslmode" not in more and driver == "postgresql":
            more = {"sslmode": "verify-full", "sslrootcert": str(self.certificate), **more}
        query = "&".join(f"{name}={value}" for name, value in more.items())
        return f"{driver}://lab:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{self.port}/{DATABASE}?{query}"

    def settings(self) -> dict:
        """The arguments of clients that are made from libpq."""
        tls = {"sslmode": "verify-full", "sslrootcert": str(self.certificate)} if self.certificate else {}
        own = dict(host="127.0.0.1", port=self.port, user="lab", password=PASSWORD, dbname=DATABASE)
        return {**own, **tls}

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)
