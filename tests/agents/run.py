"""Official clients of the Model Context Protocol against `hushql mcp` and `hushql serve --mcp`.

    python3 tests/agents/run.py PROGRAM FOLDER

FOLDER gets an environment of Python and one of Node with pinned packages, once. CI does not run this: it needs the network. What
the tests of Rust show (tests/it/contract/agents.rs) needs neither.
"""

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PYTHON = ["mcp==2.3.0"]
NODE = ["@modelcontextprotocol/client@2.4.0", "@modelcontextprotocol/sdk@1.32.0"]

DECLARE = """
CREATE EXTERNAL TABLE people STORED AS CSV LOCATION 'people.csv';
ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE;
ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 100);
CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=1000, delta=1e-5);
CREATE ROLE lab LOGIN PASSWORD 'correct horse';
"""


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, **options)


def main(program: Path, folder: Path) -> int:
    here = Path(__file__).resolve().parent
    python = folder / "python" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "python", with_pip=True)
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PYTHON)
    node = folder / "node"
    node.mkdir(parents=True, exist_ok=True)
    run("npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", node, *NODE)
    for script in here.glob("*.mjs"):
        (node / script.name).write_text(script.read_text())
    with tempfile.TemporaryDirectory() as study:
        study = Path(study)
        (study / "people.csv").write_text("id,age\n" + "".join(f"{i},{20 + i % 60}\n" for i in range(500)))
        (study / "declare.sql").write_text(DECLARE)
        run(program, "init", "study.db", cwd=study, capture_output=True)
        run(program, "study.db", "--owner", "-f", "declare.sql", cwd=study, capture_output=True)
        token = run(program, "token", "study.db", "lab", cwd=study, capture_output=True).stdout.strip()
        arguments = ["serve", "study.db", "--listen", "127.0.0.1:0", "--mcp", "127.0.0.1:0"]
        served = subprocess.Popen([str(program), *arguments], cwd=study, stderr=subprocess.PIPE, text=True)
        try:
            address = ""
            while not address:
                line = served.stderr.readline()
                found = re.search(r"listening on (\S+) for agents", line)
                address = found.group(1) if found else ""
            run(python, here / "python_client.py", program, study, address, token)
            for script in sorted(here.glob("*.mjs")):
                run("node", node / script.name, program, study, address, token)
        finally:
            served.terminate()
            served.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()))
