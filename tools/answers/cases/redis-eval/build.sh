make -C src -j"$JOBS" MALLOC=libc OPTIMIZATION=-O2 redis-server
cp src/redis-server "$OUT/"
