#!/usr/bin/env bash
# Makes a release of the commit that is checked out: one archive with the binary, its manual and what it is run with, a bill of
# materials (CycloneDX), and the SHA-256 of both. Built again from the same commit by the same compiler, in whatever folder and at
# whatever time, each file is the same, byte for byte (docs/releases.md).
#
#   scripts/release.sh FOLDER                  build, and write into FOLDER
#   scripts/release.sh --binary FILE FOLDER    the same with a binary that is built already: to try the rest without the wait
#
# Nothing is published. What is not committed is not in it: the sources are exported first.
set -euo pipefail

say() { printf 'release: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
binary=
if [[ "${1:-}" == --binary ]]; then
  [[ $# == 3 ]] || die "--binary needs a file, and then the folder to write into"
  binary="$(realpath "$2")"
  shift 2
fi
[[ $# == 1 && "$1" != -* ]] || die "use scripts/release.sh [--binary FILE] FOLDER"
mkdir -p "$1"
out="$(cd "$1" && pwd)"
tar --version 2>/dev/null | grep -q GNU || die "GNU tar is needed: its archives can be the same twice"

"$root/scripts/tools.sh" release
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
source="$work/source"
mkdir "$source"
commit="$(git -C "$root" rev-parse HEAD)"
git -C "$root" archive --format=tar "$commit" | tar -x -C "$source"
[[ -z "$(git -C "$root" status --porcelain)" ]] || say "what is not committed is left out"

# Every time that is written anywhere is the commit's, by C compilers (`__TIME__`), too.
SOURCE_DATE_EPOCH="$(git -C "$root" log -1 --format=%ct "$commit")"
export SOURCE_DATE_EPOCH
target="$(rustc -vV | sed -n 's/^host: //p')"
version="$(sed -n 's/^version = "\(.*\)"$/\1/p' "$source/Cargo.toml" | head -n 1)"
name="gateway-$version-$target"
cargo_home="${CARGO_HOME:-$HOME/.cargo}"

# Paths of this machine get into panics and into what C compilers note, so they are called by other names.
build() {
  local maps=("$source=/gateway" "$work/target=/target" "$cargo_home=/cargo") rust=() c=() map
  for map in "${maps[@]}"; do
    rust+=("--remap-path-prefix=$map")
    c+=("-ffile-prefix-map=$map")
  done
  (
    cd "$source"
    # Nothing of a developer's own settings gets in.
    unset RUSTFLAGS RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER CARGO_BUILD_TARGET
    CARGO_ENCODED_RUSTFLAGS="$(IFS=$'\x1f' && printf '%s' "${rust[*]}")"
    export CARGO_ENCODED_RUSTFLAGS CFLAGS="${c[*]}" CXXFLAGS="${c[*]}" CARGO_TARGET_DIR="$work/target" CARGO_INCREMENTAL=0
    # Symbols stay: a panic in a log names its functions by them.
    export CARGO_PROFILE_RELEASE_STRIP=debuginfo
    cargo build --locked --release --package gateway --bin gw
  ) >&2
  binary="$work/target/release/gw"
}

# cargo-cyclonedx writes a file into the folder of each crate; the gateway's is the product's.
list_materials() {
  (cd "$source" && "$root/.tools/bin/cargo-cyclonedx" cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps \
    --target "$target" --override-filename gw.cdx) >&2
  sed "s|file://$source|file:///gateway|g" "$source/gw.cdx.json"
}

# Lays out what is in the archive.
stage() {
  local to="$1" share="$1/share" shell
  mkdir -p "$to/bin" "$to/config" "$share/doc/gateway" "$share/bash-completion/completions" "$share/zsh/site-functions" \
    "$share/fish/vendor_completions.d"
  cp "$binary" "$to/bin/gw"
  cp "$source"/{LICENSE,README.md,CHANGELOG.md,SECURITY.md,nats.conf} "$to/"
  cp "$source"/config/*.example.toml "$source/config/nats.cluster.conf" "$to/config/"
  cp -R "$source/config/policies" "$to/config/"
  cp -R "$source/deploy" "$source/docs" "$to/"
  "$binary" man "$share/man/man1"
  for shell in bash:bash-completion/completions/gw zsh:zsh/site-functions/_gw fish:fish/vendor_completions.d/gw.fish; do
    "$binary" completions "${shell%%:*}" >"$share/${shell#*:}"
  done
  cp "$work/gw.cdx.json" "$work/third-party.txt" "$share/doc/gateway/"
  printf 'commit %s\n%s\n' "$commit" "$(rustc -vV)" >"$share/doc/gateway/build.txt"
}

# Nothing of who packs, when, or in what order a folder is read, is in the archive.
pack() {
  local into="$1"
  rm -rf "${work:?}/packed"
  mkdir "$work/packed"
  stage "$work/packed/$name"
  tar -C "$work/packed" --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX -cf - "$name" | gzip -n -9 >"$into"
}

[[ -n "$binary" ]] || build
list_materials >"$work/gw.cdx.json"
"$source/scripts/third-party.py" "$target" >"$work/third-party.txt"
printf '\n==== What the pages are made of ====\n\n' >>"$work/third-party.txt"
cat "$source/web/dist/LICENSES.txt" >>"$work/third-party.txt"
pack "$work/one.tar.gz"
(umask 077 && export TZ=Pacific/Kiritimati LC_ALL=C && pack "$work/two.tar.gz")
cmp "$work/one.tar.gz" "$work/two.tar.gz" || die "the archive was packed twice, and the two differ"
if grep -q -F -e "$source" -e "$work/target" -e "$cargo_home/registry" "$binary"; then
  [[ "$binary" != "$work/"* ]] || die "paths of this machine are in the binary"
  say "paths of a machine are in this binary, which was not built here"
fi
cp "$work/one.tar.gz" "$out/$name.tar.gz"
cp "$work/gw.cdx.json" "$out/$name.cdx.json"
(cd "$out" && sha256sum "$name.tar.gz" "$name.cdx.json" >SHA256SUMS)
cat "$out/SHA256SUMS"
