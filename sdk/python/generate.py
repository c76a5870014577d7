#!/usr/bin/env python3
"""Makes what of the package is made of protocol/openapi.json: `schemas.py`, by datamodel-code-generator, and `codes.py`.

generate.py            writes both
generate.py --check    ends with 1 where a committed file is not what the document gives
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parents[1] / "protocol/openapi.json"
PACKAGE = HERE / "src/gateway_client"
SCHEMAS_HEADER = '''"""Types of requests and answers. Made of protocol/openapi.json by generate.py: do not edit."""

# ruff: noqa'''
CODES_HEADER = '''"""The error codes that operations answer with. Made of protocol/openapi.json by generate.py: do not edit."""

from typing import Final

#: Status and retry classification of each code.
CODES: Final[dict[str, tuple[int, str]]] = {'''


def schemas() -> str:
    """The schemas as TypedDicts."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "schemas.py"
        header = Path(directory) / "header"
        header.write_text(SCHEMAS_HEADER)
        command = [sys.executable, "-m", "datamodel_code_generator", "--input", str(DOCUMENT), "--output", str(output)]
        command += ["--input-file-type", "openapi", "--openapi-scopes", "schemas"]
        command += ["--output-model-type", "typing.TypedDict", "--target-python-version", "3.11"]
        command += ["--enum-field-as-literal", "all", "--use-standard-collections", "--use-union-operator"]
        command += ["--use-schema-description", "--use-field-description", "--formatters", "ruff-format"]
        command += ["--custom-file-header-path", str(header)]
        subprocess.run(command, check=True)
        return output.read_text()


def codes() -> str:
    """Every code that a response shows in an example."""
    document = json.loads(DOCUMENT.read_text())
    found: dict[str, tuple[int, str]] = {}
    for path in document["paths"].values():
        for operation in path.values():
            for status, response in operation.get("responses", {}).items():
                if int(status) >= 400:
                    for error in errors(response):
                        found[error["code"]] = (int(status), error["retry_classification"])
    lines = [f'    "{code}": ({status}, "{retry}"),' for code, (status, retry) in sorted(found.items())]
    return "\n".join([CODES_HEADER, *lines, "}\n"])


def errors(response: dict[str, Any]) -> list[dict[str, Any]]:
    content = response.get("content", {}).get("application/json", {})
    examples = [example["value"] for example in content.get("examples", {}).values()]
    return [example for example in examples if "retry_classification" in example]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    stale = []
    for name, text in (("schemas.py", schemas()), ("codes.py", codes())):
        file = PACKAGE / name
        if not is_check:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            stale.append(name)
    if stale:
        print(f"not what protocol/openapi.json gives, run generate.py: {', '.join(stale)}", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
