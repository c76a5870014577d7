"""Slither over the contracts, against the findings that somebody has judged.

    python3 slither.py TOOLS           fails on a finding that triage.json does not explain, and on an explanation that has no
                                       finding any more
    python3 slither.py TOOLS --list    prints what there is, for writing triage.json

TOOLS is the repository's .tools. A finding is known by its detector and by the function or variable it is about, so that
moving lines does not bring it back.
"""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def place(element):
    """Where an element is: `Contract.function`, `Contract.variable` or `Contract`."""
    parent = element.get("type_specific_fields", {}).get("parent", {})
    inside = parent.get("name", "") if parent.get("type") in ("contract", "function") else ""
    return f"{inside}.{element['name']}" if inside else element["name"]


def findings(tools):
    folder = tools / "slither"
    subprocess.run(["node", HERE.parent / "build.mjs", "--input", folder], check=True)
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    run = subprocess.run(
        [tools / "bin" / "slither", "input.json", "--compile-force-framework", "solc-json", "--solc", tools / "bin" / "solc",
         "--filter-paths", "@openzeppelin", "--exclude-informational", "--exclude-optimization", "--json", report],
        cwd=folder, capture_output=True, text=True, check=False,
    )
    if not report.exists():
        sys.exit(f"slither did not run:\n{run.stderr[-4000:]}")
    outcome = json.loads(report.read_text())
    if not outcome["success"]:
        sys.exit(f"slither did not finish: {outcome['error']}")
    found = {}
    for result in outcome["results"].get("detectors", []):
        key = f"{result['check']}: {place(result['elements'][0])}"
        found.setdefault(key, result["description"].strip())
    return found


def main():
    tools = Path(sys.argv[1]).resolve()
    found = findings(tools)
    if "--list" in sys.argv:
        print("\n".join(sorted(found)))
        return
    triage = json.loads((HERE / "triage.json").read_text())
    reasons = {}
    for group in triage:
        for key in group["findings"]:
            reasons[key] = group["reason"]
    fresh, gone = sorted(found.keys() - reasons.keys()), sorted(reasons.keys() - found.keys())
    for key in fresh:
        print(f"slither: {key}\n{found[key]}\n")
    for key in gone:
        print(f"slither: triage.json explains what is not found any more: {key}")
    if fresh or gone:
        sys.exit("slither: judge what is new, with a reason in contracts/checks/triage.json")
    print(f"slither: {len(found)} findings, all explained in contracts/checks/triage.json")


main()
