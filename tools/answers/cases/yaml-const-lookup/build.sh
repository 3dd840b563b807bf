export CXXFLAGS="-std=c++11 -w -include boost/next_prior.hpp $CXXFLAGS -Iinclude"
ls src/*.cpp src/contrib/*.cpp | xargs -P "$JOBS" -I{} sh -c 'c++ $CXXFLAGS -c {} -o {}.o'
c++ $CXXFLAGS "$CASE/lookups.cpp" $(find src -name '*.o') -o "$OUT/lookups"
