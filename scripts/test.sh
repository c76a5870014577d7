#!/usr/bin/env bash
# Runs every test and ends with one line that counts them: contracts by forge, crates and the binary by cargo-nextest
# (by `cargo test` where it is not installed), the SDKs, and the examples in the documentation.
#
#   scripts/test.sh build   builds them, and no more
#
#   QUICK=1         what a developer wants after each change: units, tests in memory, and few simulated worlds
#   SIM_SEEDS=n     how many worlds the simulation plays, from the first seed on
#   TEST_THREADS=n  how many tests run at a time
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

nextest=(scripts/cargo nextest run --workspace --locked)
have_nextest() { cargo nextest --version >/dev/null 2>&1; }

if [[ "${1:-}" == build ]]; then
  if have_nextest; then tests=("${nextest[@]}"); else tests=(scripts/cargo test --workspace --locked --lib --bins --tests); fi
  scripts/stage "build of the tests" "${tests[@]}" --no-run || exit 1
  # The only targets that no test needs; Clippy looks at them, too.
  if [[ -n "${LINTED:-}" ]]; then scripts/stage "build of benches" scripts/cargo build --workspace --locked --bench quote; fi
  exit
fi

log="$(mktemp -d)"
broken="$(mktemp)"
authorities="$(mktemp)"
tests_in=(env)
# What was started here, each in a process group of its own, so that nothing is left of it when this is interrupted.
children=()
cleanup() {
  local child tries
  for child in ${children[@]+"${children[@]}"}; do
    kill -- "-$child" 2>/dev/null || continue
    # nextest ends its tests first, and kills after ten seconds those that do not end.
    for ((tries = 0; tries < 150; tries++)); do
      kill -0 -- "-$child" 2>/dev/null || break
      sleep 0.1
    done
  done
  rm -rf "$log" "$broken" "$authorities"
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Begins a child, whose process id is then the last of `children`. It reads nothing, for it is not in the terminal's group.
begin() {
  set -m
  "$@" </dev/null &
  children+=("$!")
  set +m
}

# Waits for every child. They note what failed in them; one that ends otherwise was killed, and counts, too.
finish() {
  local child
  for child in ${children[@]+"${children[@]}"}; do
    wait "$child" || printf 'a run that was killed, process %s\n' "$child" >>"$broken"
  done
  children=()
}

# Shows the output of a command as it comes, keeps it for counting, and notes by its name that it failed.
show() {
  local name="$1"
  shift
  printf '== %s\n' "$name"
  scripts/stage "$name" "$@" 2>&1 | tee "$log/$name"
  if [[ "${PIPESTATUS[0]}" -ne 0 ]]; then
    printf '%s\n' "$name" >>"$broken"
  fi
}

# Runs a command and waits for it; what was begun before goes on beside it.
run() {
  begin show "$@"
  local last=$((${#children[@]} - 1))
  wait "${children[last]}" || printf '%s\n' "$1, which was killed" >>"$broken"
  unset "children[last]"
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

# One authority instead of all that the system trusts: nothing here is asked outside this machine, and each process of each
# network would read all of them for each of its clients.
few_authorities() {
  local bundle
  for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
    [[ -r "$bundle" ]] || continue
    sed -n '/BEGIN CERTIFICATE/,/END CERTIFICATE/p; /END CERTIFICATE/q' "$bundle" >"$authorities"
    tests_in=(env "SSL_CERT_FILE=$authorities")
    return
  done
}

quick() {
  # Units and programs of tests in memory; a few units start a nats-server or anvil.
  local targets=(--lib --bins --test events --test interface --test projections --test proofs --test sagas --test seeds
    --test settler)
  export SIM_SEEDS="${SIM_SEEDS:-50}"
  if have_nextest; then
    run build "${nextest[@]}" "${targets[@]}" --no-run
    run crates "${tests_in[@]}" "${nextest[@]}" "${targets[@]}" --profile quick --no-fail-fast
  else
    run crates scripts/cargo test --workspace --locked --no-fail-fast "${targets[@]}" -- \
      --skip every_broken_variant --skip a_death_at_any_call_does_no_harm --skip nothing_breaks_where_everything_happens
  fi
}

simulation_and_examples() {
  beside sdks sdk/check.sh
  beside simulation "${nextest[@]}" --no-fail-fast -E 'package(simulation)'
  beside examples scripts/cargo test --workspace --locked --no-fail-fast --doc
}

everything() {
  # What only computes has the time in which the networks wait for blocks, servers and clocks.
  begin beside contracts contracts/test.sh
  if have_nextest; then
    run build "${nextest[@]}" --no-run
    begin simulation_and_examples
    # A test of a network takes about a quarter of a processor: it waits for blocks.
    local threads="${TEST_THREADS:-$((7 * $(getconf _NPROCESSORS_ONLN) / 2))}"
    run crates "${tests_in[@]}" "${nextest[@]}" --no-fail-fast -E 'not package(simulation)' --test-threads "$threads"
  else
    run crates scripts/cargo test --workspace --locked --no-fail-fast --lib --bins --tests
    run examples scripts/cargo test --workspace --locked --no-fail-fast --doc
    run sdks sdk/check.sh
  fi
  finish
}

few_authorities
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
