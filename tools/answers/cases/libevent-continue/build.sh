./autogen.sh
./configure --prefix="$OUT" --disable-samples --disable-openssl --disable-libevent-regress --disable-static
make -j"$JOBS" install
cc $CFLAGS "$CASE/exchange.c" -I"$OUT/include" -L"$OUT/lib" -Wl,-rpath,"$OUT/lib" -levent -o "$OUT/exchange"
