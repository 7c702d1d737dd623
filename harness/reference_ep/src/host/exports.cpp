// The two functions that this library exports.
#include <cstdlib>
#include <memory>
#include <string>

#include "device/faults.h"
#include "host/factory.h"
#include "host/hostile.h"
#include "host/modes.h"
#include "host/ort.h"
#include "host/shared_device.h"

#if defined(_WIN32)
#define REFERENCE_EXPORT extern "C" __declspec(dllexport)
#else
#define REFERENCE_EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace {

// Before the host's API is known there is no way to make a status but the oldest level's.
OrtStatus* plain_status(const OrtApiBase& base, const reference::Failure& failure) {
  const OrtApi* api = base.GetApi(1);
  return api == nullptr ? nullptr
                        : api->CreateStatus(static_cast<int>(failure.code()), failure.what());
}

}  // namespace

REFERENCE_EXPORT OrtStatus* CreateEpFactories(const char* registration_name, const OrtApiBase* base,
                                              const OrtLogger* logger, OrtEpFactory** factories,
                                              std::size_t capacity, std::size_t* count) {
  (void)registration_name;
  (void)logger;
  using namespace reference;
  try {
    *count = 0;
    plant(std::getenv(fault_variable), fault_variable);
    at_register();
    const Host host = negotiate(*base);
    return host.guarded([&] {
      const Mode mode = decide_mode(host.version, std::getenv(override_variable));
      if (capacity == 0) throw Failure(Code::invalid_argument, "no room for a factory");
      const std::size_t devices = device_count(std::getenv(devices_variable));
      factories[0] = std::make_unique<Factory>(host, mode, devices).release();
      *count = 1;
    });
  } catch (const Failure& failure) {
    return plain_status(*base, failure);
  }
}

REFERENCE_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  using namespace reference;
  at_unregister(static_cast<Factory*>(factory)->used());
  delete static_cast<Factory*>(factory);
  return nullptr;
}
