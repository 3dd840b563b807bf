NOCONFIGURE=1 ./autogen.sh
./configure --prefix="$OUT" --without-python --without-lzma --without-zlib --without-iconv --disable-static \
  CFLAGS="$CFLAGS"
make -j"$JOBS" libxml2.la xmllint
make install-libLTLIBRARIES
make install-binPROGRAMS bin_PROGRAMS=xmllint
