cmake -S . -B build -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="$CFLAGS" -DCMAKE_INSTALL_PREFIX="$OUT" \
  -DUSE_SSH=OFF -DUSE_HTTPS=OFF -DUSE_GSSAPI=OFF -DUSE_ICONV=OFF -DBUILD_CLAR=OFF \
  -DUSE_BUNDLED_ZLIB=ON -DSHA1_BACKEND=CollisionDetection -DREGEX=builtin
cmake --build build -j"$JOBS" --target install
cc $CFLAGS "$CASE/merges.c" -I"$OUT/include" -L"$OUT/lib" -Wl,-rpath,"$OUT/lib" -lgit2 -o "$OUT/merges"
