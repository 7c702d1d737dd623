#include "host/modes.h"

#include <cstdio>
#include <tuple>

#include "device/failure.h"

namespace reference {

const char* name_of(Mode mode) { return mode == Mode::concurrent ? "concurrent" : "serialized"; }

Mode decide_mode(const std::string& host_version, const char* override_value) {
  int major = 0;
  int minor = 0;
  int patch = 0;
  if (std::sscanf(host_version.c_str(), "%d.%d.%d", &major, &minor, &patch) != 3)
    throw Failure(Code::invalid_argument,
                  "the host's version is not of the form 1.2.3: " + host_version);
  const std::string forced = override_value == nullptr ? "" : override_value;
  if (!forced.empty() && forced != "0" && forced != "1")
    throw Failure(Code::invalid_argument,
                  std::string(override_variable) + " must be 1, 0 or empty, not " + forced);
  if (forced == "1") return Mode::serialized;
  const auto version = std::make_tuple(major, minor, patch);
  const bool concurrent = version >= std::make_tuple(1, 31, 0) ||
                          (major == 1 && minor == 28 && patch >= 3) ||
                          (major == 1 && minor == 30 && patch >= 1);
  return concurrent ? Mode::concurrent : Mode::serialized;
}

}  // namespace reference
