#!/usr/bin/env bash
# The official inspector lists and calls what `agent-hub echo` offers: its command line over HTTP and
# stdio, and its web form in a browser, where only an origin that was named gets an answer. Needs
# Rust, Node.js 22.19 or newer (the conformance suite brings one) with npm, and Chromium.
#
#   tests/inspector/run.sh             all of it
#   tests/inspector/run.sh --install   fetches the inspector if it is not there, and runs nothing
#   CHROMIUM=/path tests/inspector/run.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=tests/inspector
modules=$here/node_modules

node=
for candidate in ${NODE:-node tests/conformance/node_modules/.bin/node}; do
    if "$candidate" -e 'const [a, b] = process.versions.node.split("."); process.exit(Number(a * 100 + +b < 2219))' 2>/dev/null; then
        node=$("$candidate" -p process.execPath)
        break
    fi
done
[ -n "$node" ] || { echo "no Node.js 22.19 or newer, on the machine or with the conformance suite; NODE can name one"; exit 1; }
PATH=$(dirname "$node"):$PATH

if ! cmp -s "$here/package-lock.json" "$modules/installed.json"; then
    # Not `npm ci`: the lock file lacks a package for Windows that the registry does not have.
    (cd "$here" && npm install --no-save --ignore-scripts --no-audit --no-fund)
    cp "$here/package-lock.json" "$modules/installed.json" # last, so that a half-made one is made again
fi
chromium=
for candidate in ${CHROMIUM:-chromium chromium-browser google-chrome}; do
    chromium=$(command -v "$candidate") && break
done
[ -n "$chromium" ] || { echo "no Chromium; CHROMIUM can name one"; exit 1; }
[ "${1:-}" != --install ] || exit 0

cargo build --quiet --features cli
program=${CARGO_TARGET_DIR:-target}/debug/agent-hub
work=$(mktemp -d)
"$program" echo --port 0 2>"$work/echo" &
trap 'kill %1 2>/dev/null; rm -rf "$work"' EXIT
until url=$(sed -n 's/^listening on //p' "$work/echo" 2>/dev/null) && [ -n "$url" ]; do
    kill -0 %1 2>/dev/null || { cat "$work/echo"; exit 1; } # it will never say so
    sleep 0.1
done

passed=0
failed=0
check() { # NAME WORD COMMAND...
    local name=$1 word=$2 said
    shift 2
    if said=$("$@" 2>&1 </dev/null) && grep -q -- "$word" <<<"$said"; then
        echo "ok     $name"
        passed=$((passed + 1))
    else
        printf 'FAILED %s:\n%s\n' "$name" "$said"
        failed=$((failed + 1))
    fi
}
inspect() { HOME=$work timeout 60 "$node" "$modules/inspector/clients/launcher/build/index.js" --cli "$@"; }
call=(--method tools/call --tool-name echo --tool-arg "text=say me back")
check "the command line lists over HTTP" '"echo"' inspect "$url" --method tools/list
check "the command line calls over HTTP" 'say me back' inspect "$url" "${call[@]}"
check "the command line lists over stdio" '"echo"' inspect --method tools/list -- "$program" echo --stdio
check "the command line calls over stdio" 'say me back' inspect "${call[@]}" -- "$program" echo --stdio

web=$(HOME=$work timeout 120 "$node" "$here/web.mjs" "$program" "$chromium" 2>&1) || true
echo "$web"
ok=$(grep -c '^ok' <<<"$web" || true)
passed=$((passed + ok))
failed=$((failed + 2 - ok))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
