#!/usr/bin/env bash
# Looks through the contracts, offline once scripts/tools.sh has fetched what it needs:
#
#   Slither    every finding is explained in triage.json
#   Halmos     the properties and proofs beside this file hold for all amounts, times and windows
#   gas        what each call costs is what gas/ says, to the unit
#   coverage   the tests run every line, branch and function (coverage.sh)
#
# With --all Halmos proves what takes minutes, too: the contracts whose names end with Nightly. With --write-gas it writes gas/ anew
# instead: look at the difference before you commit it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scripts/tools.sh analysis
# Halmos looks for its solver on the path.
export PATH="$PWD/.tools/bin:$PWD/.tools/contract-checks/bin:$PATH" FOUNDRY_CONFIG=contracts/foundry.toml FOUNDRY_PROFILE=checks

# In a place of its own: what Halmos had built holds the properties alone.
measure() {
  forge test --root . --out .tools/forge/gas --cache-path .tools/forge/gas-cache --match-contract 'EscrowGas|VerifierSetGas|OfferGas|BatchGas|MandateGas' --isolate
}

if [[ "${1:-}" == --write-gas ]]; then
  FORGE_SNAPSHOT_EMIT=true measure >/dev/null
  cat contracts/checks/gas/*.json
  exit
fi
python3 contracts/checks/slither.py .tools
# A property that cannot be decided in time counts as failed, and so does one whose loops go further than its bound says.
mkdir -p .tools/forge
nightly=
[[ "${1:-}" != --all ]] || nightly='|.*Nightly'
halmos --root . --forge-build-out .tools/forge/checks --match-contract "^(EscrowProperties|(Exit|Refund|Delivery|VerifierSet|Authority|Address|Offer|Batch|Mandate)Proofs$nightly)\$" |
  tee .tools/forge/halmos.log
if grep -q 'not been fully explored' .tools/forge/halmos.log; then
  echo 'halmos: a loop goes further than its bound' >&2
  exit 1
fi
FORGE_SNAPSHOT_CHECK=true FORGE_SNAPSHOT_EMIT=false measure
FOUNDRY_PROFILE=default contracts/checks/coverage.sh
