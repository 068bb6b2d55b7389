#!/usr/bin/env python3
"""Lists the public API of tepui-client, from what rustdoc makes of it, so that changes of it are seen in reviews.

    docs/api/listing.py            writes docs/api/tepui-client.txt
    docs/api/listing.py --check    fails if it is not up to date

Every public item with its declaration, its methods, and the traits it implements, but for those that the compiler adds. Needs
nothing but stable Rust: the JSON of rustdoc, which would be easier to read, is for nightly compilers.
"""

import difflib
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LISTING = Path(__file__).resolve().parent / "tepui-client.txt"
PAGES = ROOT / "target" / "doc" / "tepui_client"
# Lists of what is implemented, by their ids in a page: our own methods, and traits. Those of Deref are in the page of the
# target.
OWN, TRAITS = "implementations-list", "trait-implementations-list"
LEFT_OUT = ("synthetic-implementations-list", "blanket-implementations-list")
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Page(HTMLParser):
    """Reads one page of an item: its declaration, and the headers of what follows."""

    def __init__(self):
        super().__init__()
        self.stack = []
        self.section = None
        self.depth = None
        self.texts = []
        self.lines = []
        self.items = []

    def handle_starttag(self, tag, attributes):
        if tag in VOID:
            return
        attributes = dict(attributes)
        self.stack.append(tag)
        names = (attributes.get("class") or "").split()
        identifier = attributes.get("id") or ""
        if identifier in (OWN, TRAITS, *LEFT_OUT) or identifier.startswith("deref-methods"):
            self.section = identifier
        if tag == "a" and attributes.get("href") and self.depth is None:
            self.items.append(attributes["href"])
        is_header = "code-header" in names or "item-decl" in names
        if self.depth is None and is_header:
            kind = "declaration" if "item-decl" in names else tag
            self.depth, self.texts, self.kind = len(self.stack), [], kind

    def handle_endtag(self, tag):
        if tag in VOID or tag not in self.stack:
            return
        if self.depth is not None and len(self.stack) == self.depth and self.stack[-1] == tag:
            self.lines.append((self.section, self.kind, "".join(self.texts)))
            self.depth = None
        while self.stack and self.stack.pop() != tag:
            pass

    def handle_data(self, data):
        # What unfolds a long list is in a summary.
        if self.depth is not None and "summary" not in self.stack[self.depth :]:
            self.texts.append(data)


def read(path):
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def declaration(text):
    lines = [line.rstrip() for line in text.replace("\u00a0", " ").strip().splitlines()]
    return [line for line in lines if line]


def one_line(text):
    return re.sub(r"\s+", " ", text.replace("\u00a0", " ")).strip()


def listed(path):
    """The lines of one item."""
    page = read(path)
    lines, impls = [], []
    for section, kind, text in page.lines:
        if kind == "declaration":
            lines += declaration(text)
        elif section == OWN:
            lines.append(("    " if kind == "h4" else "") + one_line(text))
        elif section == TRAITS and kind == "h3":
            impls.append(one_line(text))
    return lines + sorted(set(impls))


def reexports(path, module):
    """What a module hands on from other crates, or from private modules, without a page of its own."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(r'<dt id="reexport\.[^"]*">(.*?)</dt>', text, re.DOTALL)
    return [f"{module}: {one_line(re.sub(r'<[^>]+>', '', line))}" for line in found]


def listing():
    command = ["cargo", "doc", "--quiet", "--package", "tepui-client", "--no-deps", "--all-features"]
    subprocess.run(command, cwd=ROOT, check=True)
    items = {item for item in read(PAGES / "all.html").items if re.fullmatch(r"(?:[\w]+/)*\w+\.\w+\.html", item)}
    # Not all folders that are there: rustdoc does not take away the pages of what is gone.
    modules = {PAGES, *((PAGES / item).parent for item in items)}
    out = []
    for module in sorted(modules):
        name = "::".join(["tepui_client", *module.relative_to(PAGES).parts])
        out += reexports(module / "index.html", name)
    for item in sorted(items, key=lambda item: (item.count("/"), item)):
        *folders, file = item.split("/")
        kind, name, _ = file.split(".")
        out += ["", f"# {kind} {'::'.join(['tepui_client', *folders, name])}", *listed(PAGES / item)]
    return "\n".join(out).strip() + "\n"


def main():
    now = listing()
    if "--check" not in sys.argv:
        LISTING.write_text(now, encoding="utf-8")
        return
    before = LISTING.read_text(encoding="utf-8") if LISTING.is_file() else ""
    if now != before:
        sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), now.splitlines(True), "committed", "now"))
        sys.exit("the public API has changed: look at it, and run docs/api/listing.py")


if __name__ == "__main__":
    main()
