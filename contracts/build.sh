#!/usr/bin/env bash
# Builds contracts/artifacts from contracts/src, offline. With --check it writes nothing and fails when the
# committed artefacts are not what the sources give.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
../scripts/tools.sh contracts
exec node build.mjs "$@"
