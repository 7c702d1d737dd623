// The host that loaded this plugin: its API, and the way between exceptions and statuses.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

extern "C" {
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ort_c_api.h"
#include "ort_ep_api.h"
}

#include "device/failure.h"

namespace reference {

// What ORT numbers.
constexpr int device_type_cpu = 0;
constexpr int device_type_gpu = 1;
constexpr int hardware_type_cpu = 0;
constexpr int memory_type_default = 0;
constexpr int allocator_type_device = 0;
constexpr int mem_type_cpu_input = -2;
constexpr int mem_type_cpu_output = -1;
constexpr int element_float32 = 1;
constexpr int attribute_int = 1;

constexpr std::uint32_t newest_level = 28;  // what this plugin was written for
constexpr std::uint32_t oldest_level = 24;

// For a fault; see hostile.h.
void after_error() noexcept;

struct Host {
  const OrtApi* api = nullptr;
  const OrtEpApi* ep_api = nullptr;
  std::uint32_t level = 0;  // the smaller of newest_level and what the host offers
  std::string version;

  // Throws Failure for a status that is not success; releases it.
  void check(OrtStatus* status) const;
  OrtStatus* status(Code code, const char* message) const;

  // Runs what a callback does and turns what it throws into a status.
  template <typename Function>
  OrtStatus* guarded(Function&& function) const noexcept {
    try {
      function();
      return nullptr;
    } catch (const Failure& failure) {
      after_error();
      return status(failure.code(), failure.what());
    } catch (const std::exception& error) {
      return status(Code::fail, error.what());
    }
  }
};

// Throws Failure if the host offers no level from oldest_level on.
Host negotiate(const OrtApiBase& base);

}  // namespace reference
