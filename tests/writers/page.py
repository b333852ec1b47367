"""The tables of docs/formats.md.

In: the notes of writers, and the outcome of each file. Out: the part of the page between two marks: for each format a table of kinds of
values and writers, then the options, and the sentences of what is refused.
"""

import re

from ask import Outcome
from people import KINDS

OUT = "<!-- What COPY writes. -->"
BEGIN, END = "<!-- The run writes what follows. -->", "<!-- The run wrote what stands above. -->"
FORMATS = ["CSV", "JSON", "Parquet", "Arrow"]


def tables(notes: list, results: list) -> str:
    """All tables, as Markdown."""
    formats = FORMATS + sorted({note["format"] for note in notes} - set(FORMATS))
    return "\n\n".join(table(format, notes, results) for format in formats if any(note["format"] == format for note in notes))


def table(format: str, notes: list, results: list) -> str:
    cells = {(note["writer"], note["kind"]): (note, result) for note, result in zip(notes, results) if note["format"] == format}
    cells = with_versions_joined(cells)
    writers = list(dict.fromkeys(writer for writer, _ in cells))
    sentences = []
    lines = [f"### {format}", "", "Writers:", ""]
    for number, writer in enumerate(writers, 1):
        options = next(note["options"] for (name, _), (note, _) in cells.items() if name == writer)
        shown = ", ".join(f"`'{word}' '{value}'`" for word, value in options.items())
        partitioned = next(note["partitioned"] for (name, _), (note, _) in cells.items() if name == writer)
        shown = f"`PARTITIONED BY ({partitioned})`" if partitioned else shown
        lines.append(f"{number}. {writer}" + (f": {shown}" if shown else ""))
    refused = {result.sentence for _, result in cells.values() if result.how != "unwritten"}
    if len(refused) == 1 and refused != {""}:
        return "\n".join([*lines, "", f"All of them are refused: {refused.pop()}"])
    lines += ["", f"| | {' | '.join(str(n) for n in range(1, len(writers) + 1))} |", "|---" * (len(writers) + 1) + "|"]
    for kind in KINDS:
        row = [shown_cell(cells[writer, kind.name][1], sentences) if (writer, kind.name) in cells else "" for writer in writers]
        lines.append(f"| {kind.name} | {' | '.join(row)} |")
    if sentences:
        lines += ["", "Refused:", ""]
        lines += [f"- {letter(number)}: {sentence}" for number, sentence in enumerate(sentences)]
    return "\n".join(lines)


def with_versions_joined(cells: dict) -> dict:
    """pandas 2 and 3 as one writer, where all of their files end alike."""
    old = {(writer.replace("pandas 2", "pandas 3"), kind): result for (writer, kind), (_, result) in cells.items() if writer.startswith("pandas 2")}
    alike = {writer for writer, _ in old if all(cells[writer, kind][1] == old[writer, kind] for name, kind in old if name == writer)}
    joined = {}
    for (writer, kind), cell in cells.items():
        if writer in alike:
            joined[writer.replace("pandas 3", "pandas 2, 3"), kind] = cell
        elif writer.replace("pandas 2", "pandas 3") not in alike:
            joined[writer, kind] = cell
    return joined


def shown_cell(result: Outcome, sentences: list) -> str:
    if result.how == "refused":
        if result.sentence not in sentences:
            sentences.append(result.sentence)
        return letter(sentences.index(result.sentence))
    return {"unwritten": "·", "wrong": "WRONG", "typed option": "option, typed"}.get(result.how, result.how)


def letter(number: int) -> str:
    return f"**{chr(ord('a') + number)}**" if number < 26 else f"**{chr(ord('a') + number // 26 - 1)}{chr(ord('a') + number % 26)}**"


def answers(lines: list) -> str:
    """The types in which each reader sees what COPY writes, with a table for each format."""
    return "\n\n".join(answer_table(format, [line for line in lines if line["format"] == format]) for format in dict.fromkeys(line["format"] for line in lines))


def answer_table(format: str, lines: list) -> str:
    readers = list(lines[0]["types"])
    rows = [f"### Written as .{format}", "", f"| | {' | '.join(readers)} |", "|---" * (len(readers) + 1) + "|"]
    short = lambda type: re.sub(r"\w+=", "", type.replace("[pyarrow]", "").replace("[day]", ""))
    rows += [f"| {line['kind']} | {' | '.join(short(line['types'][reader]) for reader in readers)} |" for line in lines]
    return "\n".join(rows)


def replaced(page: str, made: str, begin: str = BEGIN) -> str:
    """The page with new tables behind a mark."""
    before, rest = page.split(begin)
    _, after = rest.split(END, 1)
    return f"{before}{begin}\n\n{made}\n\n{END}{after}"
