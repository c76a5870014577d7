# demo   a local network of real chains, and real payments across them (ONCE=1: stop after the showcase)
# check  formatting, lints, and that the committed contract artefacts are what the sources give
# test   every test: contracts, crates, and the real binary end to end
# tools  fetch the pinned development tools into .tools/

.PHONY: demo check test tools

demo:
	scripts/tools.sh run
	cargo build --bin gw
	target="$${CARGO_TARGET_DIR:-target}"; "$$target/debug/gw" dev $(if $(filter 1 true yes,$(ONCE)),--once)

check:
	scripts/tools.sh contracts
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	contracts/build.sh --check

test:
	scripts/tools.sh all
	scripts/test.sh

tools:
	scripts/tools.sh all
