#!/usr/bin/env bash
# Runs every test and ends with one line that counts them: contracts by forge, crates and the binary by cargo-nextest
# (by `cargo test` where it is not installed), and the examples in the documentation.
#
#   scripts/test.sh build   builds them, and no more
#
#   QUICK=1      what a developer wants after each change: no network, no chain but in memory, and few simulated worlds
#   SIM_SEEDS=n  how many worlds the simulation plays
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

log="$(mktemp -d)"
broken="$(mktemp)"
trap 'rm -rf "$log" "$broken"' EXIT

# Shows the output of a test run and keeps it for counting.
run() {
  local name="$1"
  shift
  printf '== %s\n' "$name"
  scripts/stage "$name" "$@" 2>&1 | tee "$log/$name"
  if [[ "${PIPESTATUS[0]}" -ne 0 ]]; then
    printf '%s\n' "$name" >>"$broken"
  fi
}

# The same with the processor time that nobody else wants, shown once it is over.
beside() {
  local name="$1"
  shift
  if ! nice -n 15 scripts/stage "$name (beside)" "$@" >"$log/$name" 2>&1; then
    printf '%s\n' "$name" >>"$broken"
  fi
  printf '== %s\n' "$name"
  cat "$log/$name"
}

nextest=(cargo nextest run --workspace --locked)
have_nextest() { cargo nextest --version >/dev/null 2>&1; }

if [[ "${1:-}" == build ]]; then
  if have_nextest; then tests=("${nextest[@]}"); else tests=(cargo test --workspace --locked --lib --bins --tests); fi
  exec scripts/stage "build of the tests" "${tests[@]}" --no-run
fi

quick() {
  # Programs of tests in memory; the names of two crates are those of programs, too.
  local targets=(--lib --bins --test events --test interface --test projections --test proofs --test sagas --test seeds
    --test settler)
  export SIM_SEEDS="${SIM_SEEDS:-50}"
  if have_nextest; then
    run crates "${nextest[@]}" "${targets[@]}" --profile quick --no-fail-fast
  else
    run crates cargo test --workspace --locked --no-fail-fast "${targets[@]}" -- \
      --skip every_broken_variant --skip a_death_at_any_call_does_no_harm
  fi
}

everything() {
  # What only computes has the time in which the networks wait for blocks, servers and clocks.
  { beside contracts contracts/test.sh; } &
  local computing=("$!")
  if have_nextest; then
    run build "${nextest[@]}" --no-run
    {
      beside simulation "${nextest[@]}" --no-fail-fast -E 'package(simulation)'
      beside examples cargo test --workspace --locked --no-fail-fast --doc
    } &
    computing+=("$!")
    # Twice as many as there are processors: most wait longer than they compute.
    local threads="$((2 * $(getconf _NPROCESSORS_ONLN)))"
    run crates "${nextest[@]}" --no-fail-fast -E 'not package(simulation)' --test-threads "$threads"
  else
    run crates cargo test --workspace --locked --no-fail-fast --lib --bins --tests
    run examples cargo test --workspace --locked --no-fail-fast --doc
  fi
  wait "${computing[@]}"
}

if [[ "${QUICK:-}" =~ ^(1|true|yes)$ ]]; then quick; else everything; fi

# forge: "N tests passed, N failed"; nextest: "N tests run: N passed, N failed"; libtest: "test result: … N passed; N failed".
plain() { sed 's/\x1b\[[0-9;]*m//g' "$log"/*; }
sum() { grep -oE "$1" | grep -oE '[0-9]+' | awk '{ total += $1 } END { print total + 0 }'; }
lines="$(plain | grep -E 'tests? passed, [0-9]+ failed, .*total tests|tests? run: |^test result: ')"
passed="$(printf '%s\n' "$lines" | sed -E 's/([0-9]+) tests? passed/\1 passed/' | sum '[0-9]+ passed')"
failed="$(printf '%s\n' "$lines" | sum '[0-9]+ (failed|timed out)')"
# What failed without a line that counts it, as what does not build or a simulated world that breaks, counts as one.
while read -r name; do
  printf '== FAILED: %s\n' "$name"
done <"$broken"
least="$(wc -l <"$broken")"
if [[ "$failed" -lt "$least" ]]; then
  failed="$least"
fi
printf '%s passed, %s failed\n' "$passed" "$failed"
[[ "$failed" -eq 0 && "$passed" -gt 0 ]]
