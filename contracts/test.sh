#!/usr/bin/env bash
# Runs the contract tests, offline. Arguments go to `forge test`, e.g. --match-test Cancel -vvv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/tools.sh contracts
FOUNDRY_CONFIG=contracts/foundry.toml exec .tools/bin/forge test --root . "$@"
