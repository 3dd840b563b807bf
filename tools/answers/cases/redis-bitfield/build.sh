make -C src -j"$JOBS" MALLOC=libc OPTIMIZATION=-O2 CFLAGS=-fcommon redis-server
cp src/redis-server "$OUT/"
