rm -f rust-toolchain*
# Newer compilers than that of the time reject the cast to a pointer without a lifetime.
old='NonNull::new_unchecked(recorder as \*const _ as \*mut _)'
new='std::mem::transmute::<\&dyn Recorder, NonNull<dyn Recorder>>(recorder)'
sed -i "s/$old/$new/" metrics/src/recorder/mod.rs
mkdir driver
cp "$CASE/Cargo.toml" "$CASE/service.rs" driver/
cat >Cargo.toml <<'END'
[workspace]
resolver = "2"
members = ["metrics", "metrics-util", "metrics-exporter-prometheus", "driver"]

[profile.release]
debug = true
END
if grep -q run_upkeep metrics-exporter-prometheus/src/recorder.rs; then features=upkeep; else features=; fi
CARGO_TARGET_DIR="$PWD/target" cargo build --release --package service --jobs "$JOBS" --features "$features"
cp target/release/service "$OUT/"
