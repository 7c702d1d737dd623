// The one exception of this plugin. It becomes a status where it would reach the host.
#pragma once

#include <stdexcept>
#include <string>

namespace reference {

// The numbers are ORT's error codes, so that the device layer needs nothing of ORT.
enum class Code : int {
  fail = 1,
  invalid_argument = 2,
  not_implemented = 9,
  ep_fail = 11,
};

class Failure : public std::runtime_error {
 public:
  Failure(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Code code() const { return code_; }

 private:
  Code code_;
};

}  // namespace reference
