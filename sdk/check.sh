#!/usr/bin/env bash
# Looks through the SDKs. The Rust crate's own tests are among the workspace's (`make test`).
#
#   sdk/check.sh            generated files, types, tests, and that the packages install: TypeScript and Python
#   sdk/check.sh network    sdk/scenarios.json by all three, and refunds without a gateway, on a network of gw-dev that ends with it
#
# `scripts/tools.sh sdks` fetches what both need; `network` needs `scripts/tools.sh run` and built programs, too, and is what `make
# sdks` runs. The last line counts the tests in the form of libtest.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root="$PWD"
target="${CARGO_TARGET_DIR:-target}"
kept="$(mktemp -d)"
network=
cleanup() {
  if [[ -n "$network" ]]; then kill "$network" 2>/dev/null && wait "$network" 2>/dev/null; fi
  rm -rf "$kept"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

passed=0
failed=0
# Runs a command, and counts the tests that its output counts: node's "pass 3" and "fail 1", pytest's "3 passed, 1 failed". One that
# counts none counts as one itself.
try() {
  local name="$1" status counts
  shift
  printf '== %s\n' "$name"
  "$@" >"$kept/out" 2>&1
  status=$?
  if [[ "$status" -eq 0 ]]; then tail -n 1 "$kept/out"; else cat "$kept/out"; fi
  counts="$(sed 's/\x1b\[[0-9;]*m//g' "$kept/out" | awk '
    / (pass|fail) [0-9]+$/ { count[$(NF - 1)] += $NF }
    / (passed|failed).* in [0-9.]+s/ {
      for (i = 2; i <= NF; i++) if ($i ~ /^(passed|failed),?$/) count[substr($i, 1, 4)] += $(i - 1)
    }
    END { print count["pass"] + 0, count["fail"] + 0 }')"
  local good="${counts% *}" bad="${counts#* }"
  if [[ "$status" -ne 0 && "$bad" -eq 0 ]]; then bad=1; fi
  if [[ "$status" -eq 0 && "$good" -eq 0 ]]; then good=1; fi
  passed=$((passed + good))
  failed=$((failed + bad))
}

typescript() { npm run --silent --prefix sdk/typescript "$@"; }
python() {
  (cd sdk/python && PATH="$root/.tools/sdk-python/bin:$PATH" PYTHONPATH="$root/.tools/sdk-python:src" PYTHONDONTWRITEBYTECODE=1 "$@")
}
tool() { python python3 -m "$@"; }

wheel() {
  local place="$kept/wheel"
  tool pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$place" . &&
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "$place/installed" "$place"/*.whl &&
    (cd "$kept" && PYTHONPATH="$place/installed:$root/.tools/sdk-python" python3 -c 'import gateway_client; print(gateway_client.__file__)')
}

# A network of its own, without payments of its own.
start() {
  local tries
  "$target/debug/gw-dev" --without-showcase --directory "$kept/dev" --port 0 --nats-port 0 >"$kept/gw-dev" 2>&1 &
  network=$!
  for ((tries = 0; tries < 1200; tries++)); do
    if grep -q GATEWAY_URL "$kept/dev/env" 2>/dev/null; then
      # shellcheck disable=SC1091
      curl -fsS "$(. "$kept/dev/env" && printf '%s' "$GATEWAY_URL")/readyz" >/dev/null 2>&1 && return
    fi
    kill -0 "$network" 2>/dev/null || break
    sleep 0.1
  done
  cat "$kept/gw-dev"
  printf 'gw-dev is not ready\n' >&2
  exit 1
}

case "${1:-}" in
  '')
    try "TypeScript: generated files, types and tests" typescript test
    try "TypeScript: the package" typescript test:package
    try "Python: generated files" python python3 generate.py --check
    try "Python: types" tool mypy --cache-dir "$kept/mypy"
    try "Python: lints" python ruff check --no-cache .
    try "Python: format" python ruff format --no-cache --check .
    try "Python: tests" tool pytest -q -p no:cacheprovider
    try "Python: the package" wheel
    ;;
  network)
    start
    export GW_DEV_DIRECTORY="$kept/dev"
    try "TypeScript: scenarios" typescript test:network -- "$kept/dev"
    try "Python: scenarios" tool pytest -q -p no:cacheprovider -m network
    try "Rust: scenarios" "$target/debug/examples/scenarios"
    ;;
  *)
    printf 'usage: sdk/check.sh [network]\n' >&2
    exit 2
    ;;
esac
word=ok
if [[ "$failed" -gt 0 ]]; then word=FAILED; fi
printf 'test result: %s. %s passed; %s failed\n' "$word" "$passed" "$failed"
[[ "$failed" -eq 0 ]]
