#!/usr/bin/env bash
# Builds contracts/artifacts/solana/gateway_escrow.so from program/ and interface/, and writes beside it what it was
# built from.
#
#   contracts/solana/build.sh          builds and writes; needs the compiler named below
#   contracts/solana/build.sh --check  writes nothing. It fails when the committed program is not the one recorded, or was
#                                      built from other sources. Where the compiler is, it also builds anew and compares.
#
# The compiler is Debian's: apt-get install rustc-web cargo-web rust-web-src (bookworm-security). The vendor's
# toolchain is not needed. The linker is fetched into .tools/ by cargo on first use.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

RUST_VERSION=1.96.0
LLVM_VERSION=22.1.8
LINKER_VERSION=0.2.6
rustc=/usr/bin/rustc
cargo=/usr/bin/cargo

root="$(cd ../.. && pwd)"
artifacts="$root/contracts/artifacts/solana"
program="$artifacts/gateway_escrow.so"
record="$artifacts/gateway_escrow.json"
tools="$root/.tools/sbpf"

say() { printf 'solana: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}
hash_of() { sha256sum "$1" | cut -d' ' -f1; }

# Names and contents of all that the program is made of; of the interface, what is not for hosts only.
sources_hash() {
  find build.sh program/Cargo.toml program/Cargo.lock program/src interface/Cargo.toml interface/src -type f \
    -not -path 'interface/src/host/*' |
    LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d' ' -f1
}

have_compiler() {
  [[ -x "$rustc" && -x "$cargo" && -d /usr/lib/rustlib/src/rust/library ]] || return 1
  local version
  version="$("$rustc" -vV)"
  [[ "$version" == *"release: $RUST_VERSION"* && "$version" == *"LLVM version: $LLVM_VERSION"* ]]
}

# The linker speaks to LLVM by its shared library, the one that the compiler uses.
fetch_linker() {
  if [[ ! -x "$tools/bin/sbpf-linker" || "$(cat "$tools/linker" 2>/dev/null)" != "$LINKER_VERSION $LLVM_VERSION" ]]; then
    say "fetching sbpf-linker $LINKER_VERSION"
    RUSTFLAGS="-Clink-arg=-lLLVM-${LLVM_VERSION%%.*}" cargo install sbpf-linker --quiet --locked --force \
      --version "$LINKER_VERSION" --root "$tools" --no-default-features \
      --features bpf-linker/llvm-22,bpf-linker/no-llvm-linking
    printf '%s' "$LINKER_VERSION $LLVM_VERSION" >"$tools/linker"
  fi
}

# Builds from a copy, so that nothing but the copied sources and the pinned tools has a say, and prints where the
# program is.
build() {
  fetch_linker
  rm -rf "$tools/build"
  mkdir -p "$tools/build/contracts/solana"
  cp -R program interface "$tools/build/contracts/solana/"
  # What the interface's manifest inherits, and no other members.
  {
    printf '[workspace]\nmembers = ["contracts/solana/interface"]\nexclude = ["contracts/solana/program"]\nresolver = "3"\n\n'
    sed -n '/^\[workspace.package\]/,/^$/p; /^\[workspace.lints/,/^$/p; /^\[workspace.dependencies\]/,/^$/p' "$root/Cargo.toml"
  } >"$tools/build/Cargo.toml"
  (
    cd "$tools/build/contracts/solana/program"
    unset CARGO_ENCODED_RUSTFLAGS RUSTUP_TOOLCHAIN
    # The linker advises a crate of arithmetic that the program does not need; that line is left out below.
    # A stack frame has 4096 bytes; the linker refuses what is larger. The runtime reads and writes numbers at any
    # address; without the CPU feature every key would be copied byte by byte, in three times the code.
    RUSTC="$rustc" RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$tools/target" CARGO_INCREMENTAL=0 \
      RUSTFLAGS="-Clinker=$tools/bin/sbpf-linker -Crelocation-model=static -Clink-arg=--arch=v0 -Clink-arg=--cpu-features=+allows-misaligned-mem-access -Clink-arg=--llvm-args=--bpf-stack-size=4096 -Clink-arg=--deploy=false --remap-path-prefix=$tools/build=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo" \
      "$cargo" build --quiet --release --locked --target bpfel-unknown-none -Zbuild-std=core,alloc
  ) 2> >(grep -v 'solana-compiler-builtins' >&2) || return
  printf '%s' "$tools/target/bpfel-unknown-none/release/deps/libgateway_escrow.so"
}

write_record() {
  cat <<JSON
{
  "program": "gateway_escrow.so",
  "sha256": "$(hash_of "$program")",
  "sources_sha256": "$(sources_hash)",
  "architecture": "sBPF v0",
  "compiler": "rustc $RUST_VERSION, LLVM $LLVM_VERSION, sbpf-linker $LINKER_VERSION",
  "command": "contracts/solana/build.sh"
}
JSON
}

recorded() { sed -n "s/^ *\"$1\": \"\(.*\)\",\$/\1/p" "$record"; }

case "${1:-}" in
"")
  have_compiler || die "building needs rustc-web, cargo-web and rust-web-src $RUST_VERSION with LLVM $LLVM_VERSION (Debian bookworm-security)"
  mkdir -p "$artifacts"
  built="$(build)"
  cp "$built" "$program"
  chmod 644 "$program"
  write_record >"$record"
  say "$(hash_of "$program") $(stat -c %s "$program") bytes"
  ;;
--check)
  # The program is no member of the workspace, whose formatting is checked elsewhere.
  rustfmt --edition 2024 --config-path "$root" --check program/src/lib.rs
  [[ -f "$program" && -f "$record" ]] || die "contracts/artifacts/solana is missing; run contracts/solana/build.sh"
  [[ "$(hash_of "$program")" == "$(recorded sha256)" ]] || die "gateway_escrow.so is not the recorded program"
  [[ "$(sources_hash)" == "$(recorded sources_sha256)" ]] ||
    die "the sources changed since gateway_escrow.so was built; run contracts/solana/build.sh"
  if have_compiler; then
    built="$(build)"
    [[ "$(hash_of "$built")" == "$(recorded sha256)" ]] || die "the sources give another program than the committed one"
    say "the committed program is what the sources give"
  else
    say "the committed program is the recorded one (no compiler here to build it anew)"
  fi
  ;;
*)
  die "usage: build.sh [--check]"
  ;;
esac
