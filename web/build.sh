#!/usr/bin/env bash
# Builds web/dist, which is built into the gateway, from web/src, web/data and sdk/typescript/src. The packages are those of
# web/package-lock.json, and are fetched once.
#
#   web/build.sh          writes web/dist
#   web/build.sh --check  checks the types and tells whether web/dist is what the sources give, byte for byte
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
command -v npm >/dev/null || {
  echo "web: npm is needed; install it with Node.js 20 or later" >&2
  exit 1
}
# npm writes this file last, so that packages which were fetched in part are fetched again.
if ! [[ node_modules/.package-lock.json -nt package-lock.json ]]; then
  npm ci --ignore-scripts --no-audit --no-fund --silent
fi
if [[ "${1:-}" == --check ]]; then
  node_modules/.bin/tsc --project .
fi
exec node build.mjs "$@"
