# Not by setup.py, which strips the names.
echo '#define UJSON_VERSION "5.11.0"' >src/ujson/python/version.h
include=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
deps=src/ujson/deps/double-conversion/double-conversion
objects=
for file in "$deps"/*.cc src/ujson/lib/*.c src/ujson/lib/*.cc src/ujson/python/*.c; do
  case $file in *.cc) compiler=c++ ;; *) compiler=cc ;; esac
  $compiler $CFLAGS -w -fPIC -D_GNU_SOURCE -I"$include" -I"$deps" -Isrc/ujson/lib -Isrc/ujson/python \
    -c "$file" -o "$file.o"
  objects="$objects $file.o"
done
c++ -shared $objects -o "$OUT/ujson.so"
