NOCONFIGURE=1 ./autogen.sh
./configure --prefix="$OUT" --without-python --without-lzma --without-zlib --without-iconv --disable-static \
  CFLAGS="$CFLAGS"
make -j"$JOBS" libxml2.la
make install-libLTLIBRARIES
make -C include install
cc $CFLAGS "$CASE/validate.c" -I"$OUT/include/libxml2" -L"$OUT/lib" -Wl,-rpath,"$OUT/lib" -lxml2 -o "$OUT/validate"
