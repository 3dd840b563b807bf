mkdir driver
cp -r "$CASE/Cargo.toml" "$CASE/service.rs" driver/
rm Cargo.toml
grep -q run_upkeep metrics-exporter-prometheus/src/recorder.rs && features=upkeep || features=
CARGO_TARGET_DIR="$PWD/target" cargo build --release --manifest-path driver/Cargo.toml --jobs "$JOBS" --features "$features"
cp target/release/service "$OUT/"
