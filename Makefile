# demo   a local network of real chains, and real payments across them (ONCE=1: stop after the showcase)
# sdks   the payments of sdk/scenarios.json by the SDKs in TypeScript, Python and Rust, on a local network of their own
# check  formatting, lints, dependencies, the arrows between crates and between modules, links of the documents, that the committed
#        contract artefacts, protocol documents and pages are what the sources give, Slither, Halmos and the gas of each call over the
#        contracts, how much of them tests run, and deploy/: alerts, dashboards, container, compose file, units and manifests
# advisories  dependencies with known vulnerabilities; needs the advisory database, which is fetched
# test   every test: contracts, crates, and the real binary end to end (QUICK=1: units and tests in memory)
# sim    the engine under SEEDS=n simulated worlds (or one, SEED=s, with everything that happens in it)
# sim-nightly  the same until a million payments have ended (PAYMENTS=n), in some ten hours of two processors; FROM=seed goes on
# models the protocols of payment and journal, every state of them at the larger bounds (ONLY="payment-set journal-pair": these)
# sim-nats  the auction and the stores on a real nats-server whose failure modes strike, in SEEDS=n runs each (or one, SEED=s)
# proofs what Halmos proves of the contracts, with what takes minutes
# chaos  faults of every kind against a whole network for SECONDS=3600 (SEED=s: which), and its history checked
# fuzz   every reader of bytes from outside, guided by coverage, SECONDS=60 each (TARGET=one alone; CHANGED=1: those that are changed
#        since they were fuzzed, or with WITHIN=480 instead of SECONDS in so many seconds in all, with the build)
# bench  what is measured against the design (BRIEF=1: only that it works; ONLY="baseline sagas"; see tools/bench/README.md); PEERS=1:
#        the engine over PostgreSQL beside JetStream instead (see bench/peers/README.md)
# clients  clients that common generators make of the OpenAPI document: linted, compiled, and each pays (needs Java)
# docs   the manual as a book with search, in target/book
# tools  fetch the pinned development tools into .tools/
#
# LINTED=1: what is compiled is looked at by Clippy at once, and `check` leaves it out (scripts/cargo)

.PHONY: programs demo sdks check check-tools check-crates check-contracts check-deploy advisories test-build test sim sim-nightly models sim-nats proofs chaos fuzz bench bench-gateway bench-peers clients docs tools

# One package alone would be built with fewer features of its dependencies than all together, and so nearly everything twice.
build := scripts/cargo build --locked --workspace
target = $${CARGO_TARGET_DIR:-target}

# BUILT=1: `make programs` was run, and the lock of the build folder is somebody else's.
programs:
	scripts/stage "build of the programs" $(build) --bin gw --bin gw-dev --bin bench --example scenarios

demo:
	scripts/stage "tools to run" scripts/tools.sh run
	$(if $(BUILT),,scripts/stage "build of gw and gw-dev" $(build) --bin gw --bin gw-dev)
	scripts/stage demo "$(target)/debug/gw-dev" $(if $(filter 1 true yes,$(ONCE)),--once)

sdks:
	scripts/stage "tools to run" scripts/tools.sh run
	scripts/stage "tools for the SDKs" scripts/tools.sh sdks
	$(if $(BUILT),,scripts/stage "build of gw, gw-dev and the scenarios" $(build) --bin gw --bin gw-dev --example scenarios)
	scripts/stage "scenarios of the SDKs" sdk/check.sh network

# Compilers and the provers of contracts leave each other time: `make -j2 check`.
check: check-crates check-contracts check-deploy

check-tools:
	scripts/stage "tools to check" scripts/tools.sh check

check-crates: check-tools
	cargo fmt --all --check
	scripts/check-arrows
	scripts/check-cycles
	scripts/stage "pages are what they say" web/build.sh --check
	scripts/stage "x402 package is what it says" examples/x402/packages/gw-escrow/build.sh --check
	scripts/stage "links of the documents" scripts/check-links.py --paths
	$(if $(LINTED),,scripts/stage clippy cargo clippy --workspace --all-targets --locked -- -D warnings)
	scripts/stage cargo-deny .tools/bin/cargo-deny --workspace --locked check --hide-inclusion-graph licenses bans sources
	scripts/stage "build of gw" $(build) --bin gw
	"$(target)/debug/gw" protocol --check protocol

check-contracts: check-tools
	scripts/stage "contracts are what they say" contracts/build.sh --check
	scripts/stage "contracts looked through" contracts/checks/run.sh

check-deploy: check-tools
	scripts/stage "deploy/ looked through" scripts/check-deploy

advisories:
	scripts/tools.sh check
	.tools/bin/cargo-deny --workspace --locked check --hide-inclusion-graph advisories

test-build:
	scripts/test.sh build

test:
	scripts/stage "tools to test" scripts/tools.sh all
	scripts/test.sh

sim:
	scripts/tools.sh contracts
	$(build) --bin sim
	"$(target)/debug/sim" $(if $(SEED),--seed $(SEED) --trace,--seeds $(or $(SEEDS),1000) --from $(or $(FROM),1))

sim-nightly:
	scripts/tools.sh contracts
	$(build) --bin sim
	nice "$(target)/debug/sim" --payments $(or $(PAYMENTS),1000000) --from $(or $(FROM),1000000) --coverage

models:
	$(build) --bin models
	"$(target)/debug/models" $(ONLY)

sim-nats:
	scripts/tools.sh run
	$(if $(SEED),NATS_SEED=$(SEED),NATS_SEEDS=$(or $(SEEDS),500)) scripts/cargo nextest run --workspace --locked --profile long \
	  --no-capture -E 'test(/hold_under_every_fault/)'

proofs:
	scripts/stage "proofs of the contracts" contracts/checks/run.sh --all

chaos:
	scripts/tools.sh run
	GW_CHAOS_SECONDS=$(or $(SECONDS),3600) $(if $(SEED),GW_CHAOS_SEED=$(SEED)) scripts/cargo nextest run --workspace --locked --profile long \
	  --no-capture -E 'package(gateway) and test(/^chaos::/)'

fuzz:
	scripts/fuzz $(if $(TARGET),run $(TARGET),$(if $(filter 1 true yes,$(CHANGED)),changed,all)) \
	  $(if $(WITHIN),--within $(WITHIN),--seconds $(or $(SECONDS),60))

bench_brief := $(filter 1 true yes,$(BRIEF))
bench_profile := $(if $(bench_brief),dev,$(or $(PROFILE),bench-run))

bench: $(if $(filter 1 true yes,$(PEERS)),bench-peers,bench-gateway)

bench-gateway:
	scripts/tools.sh run
	$(if $(BUILT),,scripts/stage "build of the benches" scripts/cargo build --locked \
	  $(if $(bench_brief),--workspace,-p gateway -p bench) --profile $(bench_profile) --bin gw --bin bench)
	ulimit -n "$$(ulimit -H -n)"; scripts/stage benches \
	  "$(target)/$(if $(filter dev,$(bench_profile)),debug,$(bench_profile))/bench" \
	  --json "$(target)/bench.json" --data "$(target)/bench-data" $(if $(bench_brief),--brief) \
	  $(if $(filter 1 true yes,$(FULL)),--full) $(foreach one,$(ONLY),--only $(one))

bench-peers:
	scripts/tools.sh peers
	scripts/stage "build of the benches" scripts/cargo build --locked \
	  $(if $(bench_brief),--workspace,-p gateway -p bench -p peers) --profile $(bench_profile) --bin peers
	ulimit -n "$$(ulimit -H -n)"; scripts/stage peers \
	  "$(target)/$(if $(filter dev,$(bench_profile)),debug,$(bench_profile))/peers" \
	  --json "$(target)/bench-peers.json" --picture "$(if $(bench_brief),$(target)/bench-peers.svg,docs/peers.svg)" --data "$(target)/bench-data" \
	  $(if $(bench_brief),--brief) $(foreach one,$(ONLY),--only $(one))

clients:
	tests/clients/run.sh needs
	scripts/stage "tools to run" scripts/tools.sh run
	scripts/stage "tools for clients" scripts/tools.sh clients
	$(if $(BUILT),,scripts/stage "build of gw and gw-dev" $(build) --bin gw --bin gw-dev)
	scripts/stage clients tests/clients/run.sh "$(target)/debug/gw" "$(target)/debug/gw-dev"

docs:
	scripts/tools.sh docs
	scripts/book.py

tools:
	scripts/tools.sh all
