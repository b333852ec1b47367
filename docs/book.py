#!/usr/bin/env python3
"""Builds README.md, grammar.md and the documents of all folders as one book with mdBook.

In: docs/SUMMARY.md (the chapters), docs/book.toml, and the program mdbook as first argument. Out: target/book/html. The chapters, and
the files that they link to, are copied to target/book/src at the paths that they have here, so links mean the same. Afterwards every
relative link and anchor of the pages has to lead somewhere:

    docs/book.py target/tools/bin/mdbook        # prints the first page
"""

import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOOK = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "book"
LINK = re.compile(r"\]\(([^)\s]+)\)")


def links(text):
    """The relative links of a Markdown text, without code and without anchors."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    text = re.sub(r"`[^`\n]*`", "", text)
    targets = (match.group(1).split("#")[0] for match in LINK.finditer(text))
    return [target for target in targets if target and ":" not in target]


def stage(source):
    """Copies chapters and what they link to; the summary begins at the root of the book, and not in docs."""
    summary = (ROOT / "docs/SUMMARY.md").read_text()
    chapters = {os.path.normpath("docs/" + target) for target in links(summary)}
    from_root = LINK.sub(lambda match: f"]({os.path.normpath('docs/' + match.group(1))})", summary)
    source.mkdir(parents=True)
    (source / "SUMMARY.md").write_text(from_root)
    for chapter in sorted(chapters):
        text = (ROOT / chapter).read_text()
        for target in [chapter] + [os.path.normpath(os.path.join(os.path.dirname(chapter), link)) for link in links(text)]:
            place, copy = ROOT / target, source / target
            if place.suffix == ".md" and target not in chapters:
                sys.exit(f"{chapter}: {target} is no chapter of docs/SUMMARY.md")
            copy.parent.mkdir(parents=True, exist_ok=True)
            if place.is_dir():
                shutil.copytree(place, copy, dirs_exist_ok=True)
                names = sorted(path.name for path in place.iterdir())
                listed = "".join(f'<li><a href="{name}">{name}</a></li>' for name in names)
                (copy / "index.html").write_text(f"<!DOCTYPE html><title>{target}</title><h1>{target}</h1><ul>{listed}</ul>")
            else:
                shutil.copyfile(place, copy)


class Page(html.parser.HTMLParser):
    """The anchors of a page, and the links to other places."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.add(attributes.get("id"))
        if tag == "a" and attributes.get("href"):
            self.links.append(urllib.parse.unquote(attributes["href"]))


def check(folder):
    """Every relative link of every page leads to a file, and to an anchor of it where it names one."""
    pages = {path: Page(path) for path in folder.rglob("*.html") if path.name not in ("404.html", "print.html", "toc.html")}
    wrong, found = [], 0
    for path, page in pages.items():
        for link in page.links:
            target, _, anchor = link.partition("#")
            if ":" in target:
                continue
            place = (path.parent / target).resolve() if target else path
            place = place / "index.html" if place.is_dir() else place
            known = pages.get(place)
            if not place.exists() or (anchor and known and anchor not in known.anchors):
                wrong.append(f"{path.relative_to(folder)}: {link} leads nowhere")
            found += 1
    if wrong or found < 500:
        sys.exit("\n".join(wrong) or f"only {found} links")
    return found


def main():
    mdbook = pathlib.Path(sys.argv[1]).resolve()
    shutil.rmtree(BOOK, ignore_errors=True)
    stage(BOOK / "src")
    shutil.copyfile(ROOT / "docs/book.toml", BOOK / "book.toml")
    built = subprocess.run([mdbook, "build", BOOK], stderr=subprocess.PIPE, text=True)
    sys.stderr.write(built.stderr)
    if built.returncode or "WARN" in built.stderr or "ERROR" in built.stderr:
        sys.exit("mdbook: the lines above")
    found = check(BOOK / "html")
    print(f"{BOOK / 'html/index.html'}: {found} links lead somewhere")


main()
