./autogen.sh
./configure --prefix="$OUT" CFLAGS="$CFLAGS" --disable-utf8proc
make -j"$JOBS" tmux
cp tmux "$OUT/"
