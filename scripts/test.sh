#!/usr/bin/env bash
# Runs every test and ends with one line that counts them: contracts by forge, crates and the binary by cargo-nextest
# (by `cargo test` where it is not installed), and the examples in the documentation.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

log="$(mktemp -d)"
trap 'rm -rf "$log"' EXIT
broken=()

# Shows the output of a test run and keeps it for counting.
run() {
  local name="$1"
  shift
  printf '== %s\n' "$name"
  scripts/stage "$name" "$@" 2>&1 | tee "$log/$name"
  if [[ "${PIPESTATUS[0]}" -ne 0 ]]; then
    broken+=("$name")
  fi
}

run contracts contracts/test.sh
if cargo nextest --version >/dev/null 2>&1; then
  run build cargo nextest run --workspace --locked --no-run
  # Half as many more than there are processors: many wait for blocks, servers and clocks longer than they compute.
  cores="$(getconf _NPROCESSORS_ONLN)"
  run crates cargo nextest run --workspace --locked --no-fail-fast --test-threads "$((cores + (cores + 1) / 2))"
else
  run crates cargo test --workspace --locked --no-fail-fast --lib --bins --tests
fi
run examples cargo test --workspace --locked --no-fail-fast --doc
# The engine in thousands of simulated worlds, and the proof that these notice what is broken.
target="${CARGO_TARGET_DIR:-target}"
run sim-build cargo build --quiet --locked --workspace --bin sim
run sim "$target/debug/sim" --seeds "${SIM_SEEDS:-1000}"
run mutants cargo test --locked --workspace --features simulation/mutants --test mutants -- --nocapture

# forge: "N tests passed, N failed"; nextest: "N tests run: N passed, N failed"; libtest: "test result: … N passed; N failed".
plain() { sed 's/\x1b\[[0-9;]*m//g' "$log"/*; }
sum() { grep -oE "$1" | grep -oE '[0-9]+' | awk '{ total += $1 } END { print total + 0 }'; }
lines="$(plain | grep -E 'tests? passed, [0-9]+ failed, .*total tests|tests? run: |^test result: ')"
passed="$(printf '%s\n' "$lines" | sed -E 's/([0-9]+) tests? passed/\1 passed/' | sum '[0-9]+ passed')"
failed="$(printf '%s\n' "$lines" | sum '[0-9]+ (failed|timed out)')"
# What failed without a line that counts it, as what does not build or a simulated world that breaks, counts as one.
for name in "${broken[@]}"; do
  printf '== FAILED: %s\n' "$name"
done
if [[ "$failed" -lt "${#broken[@]}" ]]; then
  failed="${#broken[@]}"
fi
printf '%s passed, %s failed\n' "$passed" "$failed"
[[ "$failed" -eq 0 && "$passed" -gt 0 ]]
