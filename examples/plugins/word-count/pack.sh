#!/bin/sh
# Builds the server and puts it together with the manifest into the folder PACKAGE, which can then be installed.
#   ./pack.sh PACKAGE
set -eu
[ $# -eq 1 ] || { sed -n '2,3p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
(cd "$here" && cargo build --release --package word-count)
built=$(cd "$here" && cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
mkdir -p "$1/bin" "$1/.muse-plugin"
cp "$here/.muse-plugin/plugin.json" "$1/.muse-plugin/"
cp "$built/release/word-count" "$1/bin/"
echo "packed into $1; next: muster plugins install $1"
