# Sourced: builds the load generators and the bare server. Sets azload, clientload and bare_server.
cargo build --release --quiet --locked --manifest-path "$here/Cargo.toml" --target-dir "$here/target" || exit 1
azload=$here/target/release/azload clientload=$here/target/release/clientload bare_server=$here/target/release/bare-server
