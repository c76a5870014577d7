#!/usr/bin/env bash
# Builds dist/ and types/, which the package is installed with. The packages are those of the lock files of examples/x402 and web,
# and are fetched once.
#
#   build.sh          writes them
#   build.sh --check  checks the page's types, and tells whether they are what the sources give, byte for byte
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
command -v npm >/dev/null || {
  echo "x402-gw-escrow: npm is needed; install it with Node.js 20 or later" >&2
  exit 1
}
for folder in ../.. ../../../../web; do
  # npm writes this file last, so that packages which were fetched in part are fetched again.
  if ! [[ "$folder/node_modules/.package-lock.json" -nt "$folder/package-lock.json" ]]; then
    (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --silent)
  fi
done
if [[ "${1:-}" == --check ]]; then
  ../../../../web/node_modules/.bin/tsc --project page
fi
exec node build.mjs "$@"
