#!/usr/bin/env python3
"""Writes what the licences of the crates in `gw` ask for: each crate with its licence, and the texts that its authors gave along.
scripts/release.sh puts it into the archive.

    scripts/third-party.py TARGET

Crates of builds and of tests are in no binary and are left out.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = re.compile(r"(un)?licen[cs]e|copying|copyright|notice", re.I)


def linked(target):
    """The packages that the gateway links, without those of this workspace."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    members = set(metadata["workspace_members"])
    (gateway,) = (id for id in members if packages[id]["name"] == "gateway")
    seen, open_ = {gateway}, [gateway]
    while open_:
        for to in nodes[open_.pop()]["deps"]:
            if to["pkg"] not in seen and any(kind["kind"] is None for kind in to["dep_kinds"]):
                seen.add(to["pkg"])
                open_.append(to["pkg"])
    return sorted((packages[id] for id in seen - members), key=lambda package: (package["name"], package["version"]))


def main():
    texts = {}
    print("What is linked into gw, with the licence of each crate. The texts follow, each once, under the crates that brought it.\n")
    for package in linked(sys.argv[1]):
        name = f"{package['name']} {package['version']}"
        print(f"{name}: {package['license'] or 'see its text'}")
        folder = Path(package["manifest_path"]).parent
        for path in sorted(path for path in folder.iterdir() if path.is_file() and TEXT.match(path.name)):
            text = path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n").strip()
            texts.setdefault(text, []).append(name)
    for text, names in texts.items():
        print(f"\n{'-' * 100}\n{', '.join(dict.fromkeys(names))}\n\n{text}")


if __name__ == "__main__":
    main()
