#!/usr/bin/env python3
"""Builds docs/ as a book into target/book. `make docs` runs it; `scripts/tools.sh docs` fetches what it needs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
TOOLS = ROOT / ".tools"
MERMAID = TOOLS / "mermaid/node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js"


def within(page, text):
    """The page with links that lead out of the book turned into the names of the files, which the book does not have."""

    def link(match):
        shown, target = match[1], match[2].partition("#")[0]
        if re.match(r"[a-z][a-z0-9+.-]*:|$", target):
            return match[0]
        led = (page.parent / target).resolve()
        if led.is_relative_to(DOCS):
            return match[0]
        name = str(led.relative_to(ROOT))
        return f"`{name}`" if shown.strip("/`") == name else f"{shown} (`{name}`)"

    parts = re.split(r"(^```.*?^```|`[^`\n]*`(?!\]))", text, flags=re.S | re.M)
    return "".join(part if part.startswith("`") else re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", link, part) for part in parts)


def main():
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    source, book = target / "book-source", target / "book"
    shutil.rmtree(source, ignore_errors=True)
    shutil.rmtree(book, ignore_errors=True)
    shutil.copytree(DOCS, source)
    for page in DOCS.rglob("*.md"):
        copied = source / page.relative_to(DOCS)
        copied.write_text(within(page, page.read_text(encoding="utf-8")), encoding="utf-8")
    shutil.copy(MERMAID, source / "mermaid.js")
    shutil.copy(ROOT / "scripts/tools/mermaid/diagrams.js", source)
    built = subprocess.run([TOOLS / "bin/mdbook", "build", source, "--dest-dir", book.resolve()])
    if built.returncode == 0:
        print(f"the book is in {book / 'index.html'}")
    return built.returncode


if __name__ == "__main__":
    sys.exit(main())
