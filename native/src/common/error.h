// The exception of this library; api.cpp turns it into a status and the thread's last error.
#ifndef NVRAR_COMMON_ERROR_H
#define NVRAR_COMMON_ERROR_H

#include <nvrar.h>

#include <exception>
#include <string>
#include <utility>

namespace nvrar {

class Error : public std::exception {
 public:
  Error(nvrar_status status, std::string sentence) : status_(status), sentence_(std::move(sentence)) {}
  nvrar_status status() const noexcept { return status_; }
  const char* what() const noexcept override { return sentence_.c_str(); }

 private:
  nvrar_status status_;
  std::string sentence_;
};

}  // namespace nvrar

#endif  // NVRAR_COMMON_ERROR_H
