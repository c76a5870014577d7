#!/usr/bin/env bash
# Builds contracts/artifacts from contracts/src, offline. With --check it writes nothing and fails when the
# committed artefacts are not what the sources give. The Solana program, which needs other tools, is only checked here;
# solana/build.sh builds it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
../scripts/tools.sh contracts
if [[ "${1:-}" == --check ]]; then
  solana/build.sh --check
fi
exec node build.mjs "$@"
