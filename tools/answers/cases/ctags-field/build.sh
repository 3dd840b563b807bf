./autogen.sh
./configure --prefix="$OUT" --disable-iconv --disable-seccomp --disable-xml --disable-json --disable-yaml
make -j"$JOBS" install
