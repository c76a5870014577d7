#!/usr/bin/env python3
"""Checks the documents of this repository, with nothing but the standard library. `make check` runs it.

- relative links of every Markdown file lead to a file or folder, and their anchors to a heading;
- docs/SUMMARY.md names every page of docs/, once;
- docs/adr has one file a number, each with date, status, context, decision and consequences, and its index names each;
- a decision that the code names (`ADR 73`) has a file;
- every crate has a README;
- with --paths also: what ARCHITECTURE.md, docs/ and the READMEs of folders name in backticks as a path is there, and a
  test that is named as `file`::`name` is in that file.

A file is there when git has it or would add it: what one machine has besides, as what is built, is not.

Ends with 1 and a line for each fault.
"""

import re
import subprocess
import sys
import unicodedata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
# Third-party texts that are kept as they came.
FOREIGN = ("contracts/lib/",)
CODE_SUFFIXES = {".rs", ".sol", ".py", ".sh", ".js", ".cjs", ".mjs", ".toml", ".conf", ".md", ".json", ".yml", ""}
ADR_HEADINGS = ("## Context", "## Decision", "## Consequences")

faults = []


def fault(path, line, text):
    faults.append(f"{path.relative_to(ROOT)}:{line}: {text}")


def tracked():
    """Every file of the repository, also those that are not yet committed, and none that is ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True
    )
    names = sorted({name for name in listed.stdout.decode().split("\0") if name and not name.startswith(FOREIGN)})
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def known_paths(files):
    """The files and each folder that holds one."""
    return {path for file in files for path in (file, *file.parents) if path.is_relative_to(ROOT)}


def prose(text):
    """The lines outside code blocks, with their numbers."""
    fence = None
    for number, line in enumerate(text.split("\n"), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark:
            if fence is None:
                fence = mark[1]
            elif mark[1].startswith(fence):
                fence = None
            continue
        if fence is None:
            yield number, line


def anchors(path, known={}):
    """The anchors of a Markdown file, made from its headings as GitHub and mdBook do."""
    if path not in known:
        found, counts = set(), {}
        for _, line in prose(path.read_text(encoding="utf-8")):
            heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
            if heading:
                text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
                kept = "".join(c for c in text if c in "-_ " or unicodedata.category(c)[0] in "LN")
                anchor = kept.strip().replace(" ", "-")
                count = counts.get(anchor, 0)
                counts[anchor] = count + 1
                found.add(f"{anchor}-{count}" if count else anchor)
            found.update(re.findall(r'<a (?:id|name)="([^"]+)"', line))
        known[path] = found
    return known[path]


def links(text):
    """The targets of inline links, images and reference definitions, with their lines."""
    for number, line in prose(text):
        bare = re.sub(r"`[^`]*`", lambda code: " " * len(code[0]), line)
        for match in re.finditer(r"\]\(\s*<?([^)<>\s]+)>?(?:\s+\"[^\"]*\")?\s*\)", bare):
            yield number, match[1]
        definition = re.match(r"\s{0,3}\[[^\]]+\]:\s+(\S+)", bare)
        if definition:
            yield number, definition[1]


def check_links(path, there):
    for number, target in links(path.read_text(encoding="utf-8")):
        if re.match(r"[a-z][a-z0-9+.-]*:", target) or target.startswith("//"):
            continue
        file, _, anchor = target.partition("#")
        if file.startswith("/"):
            fault(path, number, f"{target}: a link within the repository is relative")
            continue
        led = (path.parent / file).resolve() if file else path
        if not led.is_relative_to(ROOT):
            fault(path, number, f"{target}: leads out of the repository")
        elif led not in there:
            fault(path, number, f"{target}: is not there")
        elif anchor and led.suffix == ".md" and anchor not in anchors(led):
            fault(path, number, f"{target}: there is no such heading")


def check_summary():
    summary = DOCS / "SUMMARY.md"
    named = [(number, (DOCS / target).resolve()) for number, target in links(summary.read_text(encoding="utf-8"))]
    for number, page in named:
        if [other for _, other in named].count(page) > 1:
            fault(summary, number, f"{page.relative_to(DOCS)} is named more than once")
    pages = {page.resolve() for page in DOCS.rglob("*.md")} - {summary}
    for page in sorted(pages - {page for _, page in named}):
        fault(summary, 1, f"does not name {page.relative_to(DOCS)}")


def check_decisions():
    """The numbers that have a file."""
    numbers, index = {}, DOCS / "adr" / "README.md"
    indexed = {target for _, target in links(index.read_text(encoding="utf-8"))}
    for page in sorted((DOCS / "adr").glob("[0-9]*.md")):
        name = re.fullmatch(r"(\d{4})-[a-z0-9-]+\.md", page.name)
        if not name:
            fault(page, 1, "is not named NNNN-a-few-words.md")
            continue
        number, text = int(name[1]), page.read_text(encoding="utf-8")
        if number in numbers:
            fault(page, 1, f"ADR {number} is also {numbers[number].name}")
        numbers[number] = page
        if not text.startswith(f"# ADR {number}: "):
            fault(page, 1, f"does not begin with its number, ADR {number}")
        if not re.search(r"^- Date: \d{4}-\d\d-\d\d$", text, re.M) or not re.search(r"^- Status: \S", text, re.M):
            fault(page, 3, "lacks its date or its status")
        if [line for line in text.split("\n") if line.startswith("## ")][:3] != list(ADR_HEADINGS):
            fault(page, 1, f"does not have the headings {', '.join(ADR_HEADINGS)}")
        if page.name not in indexed:
            fault(index, 1, f"does not name {page.name}")
    return set(numbers)


def check_numbers(path, numbers):
    """The decisions that a file names: `ADR 73`, `ADRs 75 to 82`, `ADR 9, 36`."""
    if "ADR" not in (text := path.read_text(encoding="utf-8", errors="ignore")):
        return
    for at, line in enumerate(text.split("\n"), 1):
        for named in re.finditer(r"\bADRs?[ -]((?:\d+)(?:(?:, | and | to )\d+)*)", line):
            for number in re.findall(r"\d+", named[1]):
                if int(number) not in numbers:
                    fault(path, at, f"ADR {number} has no file in docs/adr")


def check_paths(path, there):
    """Paths in backticks, with `{a,b}` for several, from the root or, in a crate, from there; placeholders are not paths."""
    tops = {entry.name for entry in there if entry.parent == ROOT}
    roots = {ROOT, path.parent}
    for at, line in prose(path.read_text(encoding="utf-8")):
        for code in re.findall(r"`([^`\s]+)`", line):
            options = re.match(r"(.*)\{([^{}]+,[^{}]+)\}(.*)$", code)
            for name in [options[1] + one + options[3] for one in options[2].split(",")] if options else [code]:
                looks = "/" in name and name.split("/")[0] in tops | {"src", "tests"} and not re.search(r"[<>*{}…]", name)
                if looks and not any((root / name.rstrip("/")).resolve() in there for root in roots):
                    fault(path, at, f"`{name}` is not there")
        for file, test in re.findall(r"`([^`\s]+)`::`(\w+)`", line):
            source = ROOT / file
            if source.is_file() and not re.search(rf"\b(fn|function) {test}\b", source.read_text(encoding="utf-8")):
                fault(path, at, f"`{file}` has no test `{test}`")


def main():
    files = tracked()
    there = known_paths(files)
    for path in files:
        if path.suffix == ".md":
            check_links(path, there)
    check_summary()
    numbers = check_decisions()
    for path in files:
        if path.suffix in CODE_SUFFIXES and path.stat().st_size < 1 << 20:
            check_numbers(path, numbers)
        if path.name == "Cargo.toml" and path.parent != ROOT and not (path.parent / "README.md").exists():
            fault(path, 1, "the crate has no README.md beside it")
    if "--paths" in sys.argv[1:]:
        roots = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "AGENTS.md"]
        for path in sorted({*roots, *DOCS.glob("*.md"), *(path for path in files if path.name == "README.md")}):
            check_paths(path, there)
    for line in faults:
        print(line, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
