// Which mode the host may drive the device in: the published table of the WebGPU plugin.
#pragma once

#include <string>

namespace reference {

enum class Mode { serialized, concurrent };

constexpr const char* override_variable = "ORT_REFERENCE_EP_FORCE_LEGACY";

const char* name_of(Mode mode);

// By the host's version and the override's value; null stands for an unset variable.
// Throws Failure for a version that cannot be read or a value that is none of "", "0" and "1".
Mode decide_mode(const std::string& host_version, const char* override_value);

}  // namespace reference
