#!/usr/bin/env bash
# Runs the contract tests and fails when a line, branch or function of contracts/src is not run by them. Offline, once
# scripts/tools.sh has fetched what it needs. The optimizer is off meanwhile, since it moves code. What is random runs a few times only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scripts/tools.sh contracts
mkdir -p .tools/forge/coverage
FOUNDRY_CONFIG=contracts/foundry.toml FOUNDRY_FUZZ_RUNS=16 FOUNDRY_INVARIANT_RUNS=4 \
  .tools/bin/forge coverage --root . --out .tools/forge/coverage/out --cache-path .tools/forge/coverage/cache \
  --no-match-coverage 'contracts/test|contracts/checks' \
  --report summary --report lcov --report-file .tools/forge/coverage/lcov.info >.tools/forge/coverage/log || {
  cat .tools/forge/coverage/log >&2
  exit 1
}
python3 contracts/checks/coverage.py .tools/forge/coverage/lcov.info
