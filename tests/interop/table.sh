#!/usr/bin/env bash
# The rows of the table in README, from what `cargo test` said of the interop tests on standard input:
# how many scenarios passed in the handshake era / in the stateless one, `-` where there are none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/peers"
said=$(grep -E '^test (to|from)_peer::' || true)

passed() { # ROW, as in main.rs
    grep -q "^test $1::" <<<"$said" || { echo - && return; }
    grep -c "^test $1::.* ok\$" <<<"$said" || true
}

row() { # PEER NAME
    local cells="" side
    for side in to_peer::"$1"_{http,stdio} from_peer::"$1"_{http,stdio}; do
        cells+=" $(passed "${side}_legacy") / $(passed "${side}_modern") |"
    done
    printf '| %s |%s\n' "$2" "$cells"
}

python() { # GENERATION
    sed -n 's/^mcp==//p' "python/requirements-$1.txt"
}

typescript() { # PACKAGE
    sed -n 's|^ *"@modelcontextprotocol/'"$1"'": "\(.*\)",*$|\1|p' typescript/package.json
}

row python_1 "Python \`mcp\` $(python 1)"
row python_2 "Python \`mcp\` $(python 2)"
row typescript_1 "TypeScript \`sdk\` $(typescript sdk)"
row typescript_2 "TypeScript \`server\`, \`client\` $(typescript server)"
row rust_3 "Rust \`rmcp\` $(sed -n 's/^rmcp = .*"=\([0-9.]*\)".*/\1/p' rust/Cargo.toml)"
