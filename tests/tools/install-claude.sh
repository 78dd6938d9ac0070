#!/bin/sh
# Installs the pinned Claude Code program from npm into a cache folder and prints the path of the program.
# Safe to run again and from several processes at once; a second run does no work. Nothing of it is kept in the repository.
#
#   tests/tools/install-claude.sh [FOLDER]     FOLDER defaults to target/tests/tools/npm
set -eu

version=2.1.332
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-${CARGO_TARGET_DIR:-$here/../../target}/tests/tools/npm}

case "$(uname -s)" in
    Linux) system=linux ;;
    Darwin) system=darwin ;;
    *) echo "install-claude: no build of Claude Code for $(uname -s)" >&2; exit 1 ;;
esac
case "$(uname -m)" in
    x86_64 | amd64) machine=x64 ;;
    aarch64 | arm64) machine=arm64 ;;
    *) echo "install-claude: no build of Claude Code for $(uname -m)" >&2; exit 1 ;;
esac
libc=
if [ "$system" = linux ] && ls /lib/ld-musl-* >/dev/null 2>&1 && ! ls /lib*/ld-linux-* /lib/*/ld-linux-* >/dev/null 2>&1; then
    libc=-musl
fi

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
# The package is a small wrapper; the program itself lies in the package of the platform. The wrapper's install step
# only moves it into place, and npm may be set up not to run such steps, so the program is used where npm puts it.
program=$folder/node_modules/@anthropic-ai/claude-code-$system-$machine$libc/claude
stamp=$folder/claude-code.version

installed() { [ -x "$program" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$version" ]; }

if ! installed; then
    # mkdir is the lock: it works where flock(1) does not exist. A lock whose process is gone is a leftover.
    lock=$folder/install.lock
    until mkdir "$lock" 2>/dev/null; do
        holder=$(cat "$lock/pid" 2>/dev/null || :)
        if [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; then rm -rf "$lock"; fi
        sleep 1
    done
    trap 'rm -rf "$lock"' EXIT
    trap 'exit 1' INT TERM
    echo $$ >"$lock/pid"
    if ! installed; then
        npm install --prefix "$folder" --no-audit --no-fund --no-save --loglevel=error \
            "@anthropic-ai/claude-code@$version" >&2
        [ -x "$program" ] || { echo "install-claude: npm left no program at $program" >&2; exit 1; }
        echo "$version" >"$stamp"
    fi
fi
echo "$program"
