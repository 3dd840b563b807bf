echo 'm4_define([VERSION_NUMBER], [1.4.36])' >version.m4
autoreconf -fi
./configure --prefix="$OUT" --disable-docs --disable-coverage
make -j"$JOBS" memcached CFLAGS="$CFLAGS -pthread -fcommon -Wno-error"
cp memcached "$OUT/"
