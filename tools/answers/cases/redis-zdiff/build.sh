# Without debug information: the makefile's DEBUG variable would add -g -ggdb.
make -C src -j"$JOBS" MALLOC=jemalloc OPTIMIZATION=-O2 DEBUG= redis-server
cp src/redis-server "$OUT/"
