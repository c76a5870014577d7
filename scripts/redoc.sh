#!/usr/bin/env bash
# The script of the API reference in api/src/docs/redoc: Redoc's bundle, compressed, as it is in the npm package that
# scripts/tools.sh has fetched into .tools/redoc. It is in the repository so that the gateway is built without npm.
#
#   scripts/redoc.sh          brings it here, after the version in scripts/tools.sh was raised; the version in
#                             api/src/docs/reference_page.rs and the style's hash there follow by hand
#   scripts/redoc.sh --check  tells whether it is the same, byte for byte
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
package="$root/.tools/redoc"
here="$root/api/src/docs/redoc"
bundle=redoc.standalone.js

[[ -f "$package/bundles/$bundle" ]] || {
  echo "redoc: there is no .tools/redoc; run scripts/tools.sh test" >&2
  exit 1
}
case "${1:-}" in
  --check)
    gzip -dc "$here/$bundle.gz" | cmp - "$package/bundles/$bundle" >&2
    cmp "$here/$bundle.LICENSE.txt" "$package/bundles/$bundle.LICENSE.txt" >&2
    cmp "$here/LICENSE" "$package/LICENSE" >&2
    ;;
  "")
    gzip -9 -n -c "$package/bundles/$bundle" >"$here/$bundle.gz"
    cp "$package/bundles/$bundle.LICENSE.txt" "$package/LICENSE" "$here/"
    ;;
  *)
    echo "redoc: unknown argument '$1'" >&2
    exit 1
    ;;
esac
