#include "host/factory.h"

#include <memory>

#include "device/faults.h"
#include "host/allocator.h"
#include "host/hostile.h"
#include "host/shared_device.h"
#include "host/stream.h"
#include "host/transfer.h"

namespace reference {

namespace {

constexpr const char* ep_name = "ReferenceExecutionProvider";
constexpr const char* vendor = "ort-ep-matrix";
constexpr const char* version = REFERENCE_EP_VERSION;
// Of no vendor of hardware, so that nobody else's data transfer takes this memory for its own.
constexpr std::uint32_t vendor_id = 0x0E9A;
constexpr std::int32_t device_id = 0;

}  // namespace

Factory::Factory(const Host& host, Mode mode) : OrtEpFactory{}, mode_(mode) {
  ort_version_supported = host.level;
  GetName = get_name;
  GetVendor = get_vendor;
  GetSupportedDevices = get_supported_devices;
  CreateEp = create_ep;
  ReleaseEp = release_ep;
  GetVendorId = get_vendor_id;
  GetVersion = get_version;
  CreateAllocator = create_allocator;
  ReleaseAllocator = release_allocator;
  CreateDataTransfer = create_data_transfer;
  IsStreamAware = is_stream_aware;
  CreateSyncStreamForDevice = create_sync_stream;
  shared_.host = host;
  shared_.ep_name = ep_name;
  shared_.device = shared_device();
  shared_.device->contract().check(mode == Mode::serialized);
  memory_ = make_memory(device_id);
  shared_.memory = memory_;
}

OrtMemoryInfo* Factory::make_memory(std::int32_t id) const {
  const Host& host = shared_.host;
  OrtMemoryInfo* memory = nullptr;
  host.check(host.api->CreateMemoryInfo_V2("Reference", device_type_gpu, vendor_id, id,
                                           memory_type_default, Device::alignment,
                                           allocator_type_device, &memory));
  return memory;
}

Factory::~Factory() {
  log_contract(*shared_.device, shared_.host.version, name_of(mode_));
  shared_.host.api->ReleaseMemoryInfo(memory_);
  if (second_memory_ != nullptr) shared_.host.api->ReleaseMemoryInfo(second_memory_);
}

const char* Factory::get_name(const OrtEpFactory*) { return ep_name; }
const char* Factory::get_vendor(const OrtEpFactory*) { return vendor; }
std::uint32_t Factory::get_vendor_id(const OrtEpFactory*) { return vendor_id; }
const char* Factory::get_version(const OrtEpFactory*) { return version; }

OrtStatus* Factory::get_supported_devices(OrtEpFactory* self,
                                          const OrtHardwareDevice* const* hardware,
                                          std::size_t hardware_count, OrtEpDevice** devices,
                                          std::size_t capacity, std::size_t* count) {
  auto* factory = static_cast<Factory*>(self);
  return factory->shared_.host.guarded([&] {
    *count = 0;
    if (planted(Fault::no_devices)) return;
    if (planted(Fault::second_registration_empty) && registered_before()) return;
    // The device is simulated by the processor: that is the hardware it is offered for.
    for (std::size_t i = 0; i < hardware_count && *count == 0 && capacity != 0; ++i)
      if (factory->shared_.host.api->HardwareDevice_Type(hardware[i]) == hardware_type_cpu)
        devices[(*count)++] = factory->offer(*hardware[i], factory->memory_);
    if (planted(Fault::second_device_evicts) && *count == 1 && capacity > 1) {
      factory->second_memory_ = factory->make_memory(device_id + 1);
      devices[(*count)++] = factory->offer(*hardware[0], factory->second_memory_);
    }
  });
}

OrtEpDevice* Factory::offer(const OrtHardwareDevice& hardware, const OrtMemoryInfo* memory) {
  const Host& host = shared_.host;
  OrtKeyValuePairs* metadata = nullptr;
  host.api->CreateKeyValuePairs(&metadata);
  const std::unique_ptr<OrtKeyValuePairs, void (*)(OrtKeyValuePairs*)> owner(
      metadata, host.api->ReleaseKeyValuePairs);
  host.api->AddKeyValuePair(metadata, "mode", name_of(mode_));
  host.api->AddKeyValuePair(metadata, "api_level", std::to_string(host.level).c_str());
  OrtEpDevice* device = nullptr;
  host.check(host.ep_api->CreateEpDevice(this, &hardware, metadata, nullptr, &device));
  OrtStatus* status = host.ep_api->EpDevice_AddAllocatorInfo(device, memory);
  if (status != nullptr) host.ep_api->ReleaseEpDevice(device);
  host.check(status);
  return device;
}

OrtStatus* Factory::create_ep(OrtEpFactory* self, const OrtHardwareDevice* const*,
                              const OrtKeyValuePairs* const*, std::size_t count,
                              const OrtSessionOptions* options, const OrtLogger*, OrtEp** ep) {
  auto* factory = static_cast<Factory*>(self);
  return factory->shared_.host.guarded([&] {
    if (count != 1) throw Failure(Code::invalid_argument, "an EP is made for one EP device");
    const InProgress operation(factory->shared_.device->contract(), Operation::create_session, 0);
    *ep = std::make_unique<Ep>(factory->shared_, *options).release();
  });
}

void Factory::release_ep(OrtEpFactory*, OrtEp* ep) { delete static_cast<Ep*>(ep); }

OrtStatus* Factory::create_allocator(OrtEpFactory* self, const OrtMemoryInfo* memory,
                                     const OrtKeyValuePairs*, OrtAllocator** allocator) {
  auto* factory = static_cast<Factory*>(self);
  const Shared& shared = factory->shared_;
  return shared.host.guarded([&] {
    const bool second = planted(Fault::second_device_evicts) &&
                        shared.host.ep_api->MemoryDevice_GetDeviceId(
                            shared.host.ep_api->MemoryInfo_GetMemoryDevice(memory)) != 0;
    if (second && factory->allocator_ != nullptr) evict(*factory->allocator_);
    *allocator = make_allocator(shared.host, second ? factory->second_memory_ : shared.memory,
                                shared.device, nullptr);
    factory->allocator_ = *allocator;
  });
}

void Factory::release_allocator(OrtEpFactory*, OrtAllocator* allocator) {
  reference::release_allocator(allocator);
}

OrtStatus* Factory::create_data_transfer(OrtEpFactory* self, OrtDataTransferImpl** transfer) {
  const Shared& shared = static_cast<Factory*>(self)->shared_;
  return shared.host.guarded(
      [&] { *transfer = make_transfer(shared.host, shared.memory, shared.device); });
}

bool Factory::is_stream_aware(const OrtEpFactory*) { return true; }

OrtStatus* Factory::create_sync_stream(OrtEpFactory* self, const OrtMemoryDevice*,
                                       const OrtKeyValuePairs*, OrtSyncStreamImpl** stream) {
  const Shared& shared = static_cast<Factory*>(self)->shared_;
  return shared.host.guarded(
      [&] { *stream = make_stream(shared.host, std::make_shared<Session>(shared.device)); });
}

}  // namespace reference
