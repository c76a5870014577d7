#!/usr/bin/env bash
# Makes clients of protocol/openapi.json with generators that are common, compiles them, and lets each pay on a network that
# gw-dev starts: what `make clients` runs. Everything that is made is in target/clients, or where CLIENTS_DIR says.
#
#   tests/clients/run.sh GW GW_DEV
#   tests/clients/run.sh needs        only looks whether the machine has what is not fetched
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
here="$root/tests/clients"
work="${CLIENTS_DIR:-$root/target/clients}"
document="$root/protocol/openapi.json"
npm="$root/.tools/clients/node_modules"
pip="$root/.tools/clients-python"
# Seconds that the network may take to start.
START_SECONDS_MAX=300
JAVA_MIN=11

say() { printf 'clients: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}

node -e 'const [major, minor] = process.versions.node.split("."); process.exit(major > 20 || (major == 20 && minor >= 19) ? 0 : 1)' \
  2>/dev/null || die "Node.js 20.19 or later is needed by the generators of clients in TypeScript"
command -v cargo >/dev/null || die "cargo is needed for the client in Rust; install Rust"
# `java` of a system without a Java is there, too, and says that there is none.
java="$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' || true)"
[[ "${java:-0}" -ge "$JAVA_MIN" ]] ||
  die "java $JAVA_MIN or later is needed by OpenAPI Generator, which makes the client in Rust; install a JRE, as openjdk-17-jre-headless"

[[ "${1:-}" != needs ]] || exit 0
gw="$(realpath "$1")"
gw_dev="$(realpath "$2")"

rm -rf "$work/typescript" "$work/python" "$work/rust" "$work/network"
mkdir -p "$work/typescript" "$work/python" "$work/rust"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$pip" PATH="$pip/bin:$PATH"
# Runs a command; what it says is shown where it fails.
quietly() {
  local said status=0
  said="$("$@" 2>&1)" || status=$?
  [[ "$status" -eq 0 ]] || { printf '%s\n' "$said" >&2 && die "failed: $*"; }
}

say "the document is the code's, and Redocly and Spectral have nothing to say"
"$gw" protocol --check "$root/protocol"
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
quietly "$npm/.bin/redocly" lint --config "$here/redocly.yaml" "$document"
quietly "$npm/.bin/spectral" lint --ruleset "$here/spectral.yaml" --fail-severity hint "$document"

say "TypeScript: openapi-typescript, hey-api"
cp "$here"/typescript/* "$work/typescript/"
ln -sfn "$npm" "$work/typescript/node_modules"
(
  cd "$work/typescript"
  mkdir generated
  quietly node_modules/.bin/openapi-typescript "$document" -o generated/openapi-typescript.ts
  DOCUMENT="$document" quietly node_modules/.bin/openapi-ts --file hey-api.config.mjs --no-log-file
  quietly node_modules/.bin/tsc -p .
)

say "Python: openapi-python-client"
quietly python3 -m openapi_python_client generate --path "$document" --output-path "$work/python/gateway_client" \
  --meta none --fail-on-warning
# What is general in the client, client.py, is the generator's own, and is not as strict.
(
  cd "$work/python"
  export MYPYPATH="$work/python"
  types=(python3 -m mypy --strict --follow-imports=silent --cache-dir "$work/mypy")
  quietly "${types[@]}" -p gateway_client.api -p gateway_client.models
  quietly "${types[@]}" "$here/python/pay.py"
)

say "Rust: OpenAPI Generator"
quietly java -jar "$pip/openapi_generator_cli/openapi-generator.jar" generate -g rust -i "$document" \
  -o "$work/rust/generated" --additional-properties=packageName=gateway-client,library=reqwest,supportAsync=false
cp -R "$here"/rust/* "$work/rust/"
(cd "$work/rust" && CARGO_TARGET_DIR="$work/rust-target" quietly cargo build --locked)

network=
stop() {
  if [[ -n "$network" ]]; then
    kill "$network" 2>/dev/null || true
    wait "$network" 2>/dev/null || true
  fi
}
trap stop EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
say "a network to pay on"
"$gw_dev" --gw "$gw" --without-showcase --without-solana --without-tron --port 0 --nats-port 0 \
  --directory "$work/network" >"$work/network.log" 2>&1 &
network=$!
begun="$SECONDS"
until grep -q '^Logs and configuration' "$work/network.log"; do
  if ! kill -0 "$network" 2>/dev/null || ((SECONDS - begun > START_SECONDS_MAX)); then
    cat "$work/network.log" >&2
    die "the network does not start"
  fi
  sleep 0.2
done
# shellcheck disable=SC1091  # written by gw-dev
. "$work/network/env"

# Runs a payer. It tells in one line what came of it, and ends with 0 where the payment completed.
pays() { "$@" "$GATEWAY_URL" "$EVM_RPC_URL" "$work/network/examples/evm.key" "$work/network/examples/evm.json"; }
pays node "$work/typescript/built/allow.js"
pays node "$work/typescript/built/openapi-fetch.js"
pays node "$work/typescript/built/hey-api.js"
PYTHONPATH="$work/python:$pip" pays python3 "$here/python/pay.py"
pays "$work/rust-target/debug/gateway-client-pays"
say "every client paid"
