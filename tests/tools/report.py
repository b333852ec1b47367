"""One line for each step of a tool."""

import json
import sys

# The place, as run.py names it.
HOST, PORT, USER, PASSWORD, QUESTION = sys.argv[1:6]
MORE = sys.argv[6:]
DATABASE = "hushql"


def version(text):
    say({"step": "version", "version": str(text)})


def step(name, run):
    """Runs a step. What it returns is its own affair; what it raises is said."""
    try:
        found = run()
    except BaseException as error:  # Some tools end the program.
        say({"step": name, "error": f"{type(error).__name__}: {error}".replace("\n", " ")[:500]})
        return None
    say({"step": name})
    return found


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def say(line):
    print(json.dumps(line), flush=True)
