cmake -S . -B build -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="$CFLAGS" -DCMAKE_INSTALL_PREFIX="$OUT" \
  -DBUILD_TESTING=OFF -DBUILD_STATIC_LIBS=OFF -DDISABLE_WERROR=ON
cmake --build build -j"$JOBS" --target install
cc $CFLAGS "$CASE/status.c" -I"$OUT/include" -L"$OUT/lib" -Wl,-rpath,"$OUT/lib" -ljson-c -o "$OUT/status"
