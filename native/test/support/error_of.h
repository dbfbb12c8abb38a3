// What a part of the library throws, as text.
#ifndef NVRAR_TEST_SUPPORT_ERROR_OF_H
#define NVRAR_TEST_SUPPORT_ERROR_OF_H

#include <functional>
#include <string>

#include "common/error.h"

namespace nvrar::test {

// The error that the body threw, as "<status> <sentence>"; "" if it threw none.
inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::to_string(error.status()) + " " + error.what();
  }
  return "";
}

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_ERROR_OF_H
