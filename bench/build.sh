# Sourced: builds the load generator and the bare server. Sets azload and bare_server.
cargo build --release --quiet --locked --manifest-path "$here/Cargo.toml" --target-dir "$here/target" || exit 1
azload=$here/target/release/azload bare_server=$here/target/release/bare-server
