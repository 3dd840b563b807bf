// Tests of what root may do, and others may not.
#pragma once

#include <catch2/catch.hpp>

#include <unistd.h>

namespace heapprof::test {

/// Makes this process unprivileged during its lifetime.
class Unprivileged {
 public:
  Unprivileged() : user_(::geteuid()) {
    if (user_ == 0) REQUIRE(::seteuid(65534) == 0);
    REQUIRE(::geteuid() != 0);
  }
  ~Unprivileged() {
    if (user_ == 0 && ::seteuid(0) != 0) ::_exit(1);
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;

 private:
  const uid_t user_;
};

}  // namespace heapprof::test
