mkdir driver
cp "$CASE/Cargo.toml" "$CASE/pages.rs" driver/
CARGO_TARGET_DIR="$PWD/target" cargo build --release --manifest-path driver/Cargo.toml --jobs "$JOBS"
cp target/release/pages "$OUT/"
