echo 'm4_define([VERSION_NUMBER], [1.6.0])' >version.m4
autoreconf -fi
./configure --prefix="$OUT" --disable-docs --disable-coverage
make -j"$JOBS" memcached CFLAGS="$CFLAGS -pthread -Wno-error"
cp memcached "$OUT/"
