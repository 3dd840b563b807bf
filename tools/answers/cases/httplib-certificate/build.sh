c++ -std=c++14 -w $CXXFLAGS -DCPPHTTPLIB_OPENSSL_SUPPORT -I. "$CASE/clients.cpp" \
  -lssl -lcrypto -lpthread -o "$OUT/clients"
