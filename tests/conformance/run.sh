#!/usr/bin/env bash
# Runs the official MCP conformance suite against examples/conformance_{server,client}.rs, one
# scenario after the other since some of them measure time. Needs Rust, and Node.js with npm: that
# fetches the suite and the Node.js it runs on, at the versions of package-lock.json.
#
#   tests/conformance/run.sh            every run of the table below
#   tests/conformance/run.sh WORD       only the rows that contain WORD
#   tests/conformance/run.sh --install  fetches the suite if it is not there, and runs nothing
#   CI=true tests/conformance/run.sh    a suite that cannot be fetched is a failure, not a skip
#
# A run passes only if nothing failed, nothing was warned of, and as many checks succeeded as its
# row says. Exit status 0 alone says little: a peer that sends nothing passes some scenarios without
# a single check, and a scenario that its revision does not have is skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=tests/conformance
modules=$here/node_modules
node=$modules/.bin/node
suite=$modules/@modelcontextprotocol/conformance/dist/index.js

# The side under test, the revisions, the scenario, the least number of successes; then, if some
# checks of it are out of scope, how many fail: those that expected-failures.yml names.
table() {
    cat <<'END'
server 2025-06-18,2025-11-25            server-initialize                3
server 2025-03-26,2025-06-18,2025-11-25 server-session-lifecycle         3
server 2025-06-18,2025-11-25            ping                             2
server 2025-06-18                       tools-list                       2
server 2025-11-25                       tools-list                       3
server 2025-06-18,2025-11-25            tools-call-simple-text           2
server 2025-06-18,2025-11-25            tools-call-image                 2
server 2025-06-18,2025-11-25            tools-call-audio                 2
server 2025-06-18,2025-11-25            tools-call-embedded-resource     2
server 2025-06-18,2025-11-25            tools-call-mixed-content         2
server 2025-06-18,2025-11-25            tools-call-error                 2
server 2025-06-18,2025-11-25            tools-call-with-progress         2
server 2025-11-25                       json-schema-2020-12              8
server 2025-11-25                       server-sse-multiple-streams      2
server 2025-11-25                       dns-rebinding-protection         2
server 2025-11-25                       server-sse-polling               3
server 2026-07-28                       server-stateless                 25
server 2026-07-28                       tools-list                       4
server 2026-07-28                       tools-call-simple-text           2
server 2026-07-28                       tools-call-image                 2
server 2026-07-28                       tools-call-audio                 2
server 2026-07-28                       tools-call-embedded-resource     2
server 2026-07-28                       tools-call-mixed-content         2
server 2026-07-28                       tools-call-error                 2
server 2026-07-28                       tools-call-with-progress         2
server 2026-07-28                       json-schema-2020-12              8
server 2026-07-28                       server-sse-multiple-streams      2
server 2026-07-28                       dns-rebinding-protection         2
server 2026-07-28                       http-header-validation           14
server 2026-07-28                       http-custom-header-server-validation 10
server 2026-07-28                       input-required-result-unsupported-methods 2
server 2026-07-28                       input-required-result-validate-input 3
server 2026-07-28                       caching                          4 3
client 2025-06-18,2025-11-25            initialize                       1
client 2025-06-18,2025-11-25,2026-07-28 tools_call                       2
client 2025-11-25                       sse-retry                        3
client 2025-11-25,2026-07-28            json-schema-2020-12-preservation 9
client 2026-07-28                       request-metadata                 5
client 2026-07-28                       http-standard-headers            3
client 2026-07-28                       http-custom-headers              18
client 2026-07-28                       http-invalid-tool-headers        12
client 2026-07-28                       json-schema-ref-no-deref         1
END
}

install() {
    if cmp -s "$here/package-lock.json" "$modules/installed.json" && "$node" --version; then
        return
    fi
    command -v npm || { echo "there is no npm"; return 1; }
    # The lock file is copied last, so that a half-made installation is made again.
    (cd "$here" && npm ci) && "$node" --version && cp "$here/package-lock.json" "$modules/installed.json"
}

run() { # SIDE URL_OR_COMMAND REVISION SCENARIO LEAST_SUCCESSES [FAILURES]
    local side=$1 target=$2 revision=$3 scenario=$4 least=$5 failures=${6:-0} option=--url status=0
    local said allowed=()
    [ "$side" = server ] || option=--command
    # With such a list the suite fails for any other failure, and for one of these that passes.
    [ "$failures" -eq 0 ] || allowed=(--expected-failures "$here/expected-failures.yml")
    said=$("$node" "$suite" "$side" "$option" "$target" --scenario "$scenario" \
        --spec-version "$revision" "${allowed[@]}" 2>&1 </dev/null) || status=$?
    if [ "$status" -eq 0 ] &&
        [[ $said =~ Passed:\ ([0-9]+)/([0-9]+),\ ([0-9]+)\ failed,\ 0\ warnings ]] &&
        [ "${BASH_REMATCH[1]}" -eq "$((BASH_REMATCH[2] - failures))" ] &&
        [ "${BASH_REMATCH[3]}" -eq "$failures" ] &&
        [ "${BASH_REMATCH[1]}" -ge "$least" ]; then
        passed=$((passed + 1))
        echo "ok   $side $revision $scenario: ${BASH_REMATCH[1]}"
    else
        failed=$((failed + 1))
        echo "FAIL $side $revision $scenario: exit status $status, $least successes wanted"
        # Without colours, and what matters is said last.
        tail -n 30 <<<"$said" | sed $'s/\e\\[[0-9;]*m//g; s/^/     /'
    fi
}

case "${1:-}" in
    --install)
        install
        exit
        ;;
    -*)
        sed -n '/^#!/d; /^#/!q; s/^# \{0,1\}//p' "$here/run.sh" >&2
        exit 2
        ;;
esac
if ! install >&2; then
    [ "${CI:-}" != true ] || exit 1
    echo "SKIPPED: the conformance suite could not be fetched; it needs Node.js with npm"
    exit
fi

# As the tests have built them, so that this builds nothing after them.
cargo build --quiet --all-features --examples
built=${CARGO_TARGET_DIR:-target}/debug/examples
scratch=$(mktemp -d)
mkfifo "$scratch/said"
"$built/conformance_server" 0 2>"$scratch/said" </dev/null &
server=$!
trap 'kill "$server" || true; rm -rf "$scratch"' EXIT
exec 3<"$scratch/said" # stays open, so that the server can go on writing
read -r -t 10 said <&3 || true
url=${said#listening on }
if [ "$url" = "$said" ]; then
    echo "the server did not say that it listens, but: $said"
    exit 1
fi

passed=0
failed=0
while read -r side revisions scenario least failures; do
    target=$url
    [ "$side" = server ] || target=$(printf %q "$built/conformance_client") # a shell reads it
    for revision in ${revisions//,/ }; do
        run "$side" "$target" "$revision" "$scenario" "$least" "${failures:-0}"
    done
done < <(table | grep -e "${1:-}")
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
