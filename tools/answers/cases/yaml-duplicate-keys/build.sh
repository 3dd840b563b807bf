export CXXFLAGS="-std=c++98 -w -include cstdlib -include cstring -include climits $CXXFLAGS -Iinclude"
ls src/*.cpp | xargs -P "$JOBS" -I{} sh -c 'c++ $CXXFLAGS -c {} -o {}.o'
c++ $CXXFLAGS "$CASE/parse.cpp" src/*.o -o "$OUT/parse"
