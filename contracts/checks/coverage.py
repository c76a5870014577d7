"""Whether every line, branch and function of contracts/src was run, by a report in lcov's form.

    python3 coverage.py REPORT
"""

import re
import sys
from pathlib import Path


def read(report):
    """For each source its hits: (kind, line, detail) to how often it ran."""
    found, source = {}, None
    for line in report.read_text().splitlines():
        tag, _, rest = line.partition(":")
        fields = rest.split(",")
        if tag == "SF":
            source = found.setdefault(rest, {})
        elif tag == "DA":
            source[("line", int(fields[0]), "")] = int(fields[1])
        elif tag == "BRDA":
            source[("branch", int(fields[0]), f"{fields[1]}.{fields[2]}")] = 0 if fields[3] == "-" else int(fields[3])
        elif tag == "FNDA":
            source[("function", 0, fields[1])] = int(fields[0])
    return found


def main(report):
    found = {path: hits for path, hits in read(Path(report)).items() if path.startswith("contracts/src/")}
    sources = {f"contracts/src/{path.name}" for path in Path("contracts/src").glob("*.sol")}
    # A file of declarations alone has nothing that runs.
    runs = re.compile(r"^(abstract contract|contract|library) ", re.MULTILINE)
    unseen = {path for path in sources - set(found) if runs.search(Path(path).read_text())}
    failures = [f"{path}: not in the report" for path in sorted(unseen)]
    print(f"{'':36}{'lines':>12}{'branches':>12}{'functions':>12}")
    for path, hits in sorted(found.items()):
        counts = []
        for kind in ("line", "branch", "function"):
            of = {place: hit for place, hit in hits.items() if place[0] == kind}
            counts.append(f"{sum(hit > 0 for hit in of.values())}/{len(of)}")
            failures += [
                f"{path}:{line}: {kind} {detail} is not run"
                for (_, line, detail), hit in of.items()
                if not hit
            ]
        print(f"{path.removeprefix('contracts/src/'):36}{counts[0]:>12}{counts[1]:>12}{counts[2]:>12}")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
