#include "host/factory.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

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
// In the metadata of an EP device: its number, which is the device id of its memory too.
constexpr const char* number_key = "device";

}  // namespace

Factory::Factory(const Host& host, Mode mode, std::size_t devices)
    : OrtEpFactory{}, host_(host), mode_(mode) {
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
  if (planted(Fault::second_device_evicts)) devices = most_devices;
  for (std::size_t number = 0; number < devices; ++number) {
    memories_.push_back(make_memory(number));
    shared_.push_back({host, ep_name, memories_.back(), shared_device(number)});
    shared_.back().device->contract().check(mode == Mode::serialized);
  }
}

OrtMemoryInfo* Factory::make_memory(std::size_t number) const {
  OrtMemoryInfo* memory = nullptr;
  host_.check(host_.api->CreateMemoryInfo_V2(
      "Reference", device_type_gpu, vendor_id, static_cast<std::int32_t>(number),
      memory_type_default, Device::alignment, allocator_type_device, &memory));
  return memory;
}

Factory::~Factory() {
  for (std::size_t number = 0; number < shared_.size(); ++number) {
    if (planted(Fault::asserts_nothing_alive) &&
        shared_[number].device->statistics().live_buffers != 0)
      std::abort();
    log_contract(*shared_[number].device, number, host_.version, name_of(mode_));
  }
  for (OrtMemoryInfo* memory : memories_) host_.api->ReleaseMemoryInfo(memory);
}

const Shared& Factory::shared_of(const OrtMemoryDevice& memory) const {
  const std::size_t number = host_.ep_api->MemoryDevice_GetDeviceId(&memory);
  if (number >= shared_.size()) throw Failure(Code::invalid_argument, "the memory of no device");
  return shared_[number];
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
  return factory->host_.guarded([&] {
    *count = 0;
    factory->used_ = true;
    if (planted(Fault::no_devices)) return;
    if (planted(Fault::second_registration_empty) && registered_before()) return;
    // The devices are simulated by the processor: that is the hardware they are offered for.
    for (std::size_t i = 0; i < hardware_count && *count == 0; ++i)
      if (factory->host_.api->HardwareDevice_Type(hardware[i]) == hardware_type_cpu)
        while (*count < factory->shared_.size() && *count < capacity) {
          devices[*count] = factory->offer(*hardware[i], *count);
          *count += 1;
        }
  });
}

OrtEpDevice* Factory::offer(const OrtHardwareDevice& hardware, std::size_t number) {
  const Host& host = host_;
  OrtKeyValuePairs* metadata = nullptr;
  host.api->CreateKeyValuePairs(&metadata);
  const std::unique_ptr<OrtKeyValuePairs, void (*)(OrtKeyValuePairs*)> owner(
      metadata, host.api->ReleaseKeyValuePairs);
  host.api->AddKeyValuePair(metadata, "mode", name_of(mode_));
  host.api->AddKeyValuePair(metadata, "api_level", std::to_string(host.level).c_str());
  host.api->AddKeyValuePair(metadata, number_key, std::to_string(number).c_str());
  OrtEpDevice* device = nullptr;
  host.check(host.ep_api->CreateEpDevice(this, &hardware, metadata, nullptr, &device));
  OrtStatus* status = host.ep_api->EpDevice_AddAllocatorInfo(device, memories_[number]);
  if (status != nullptr) host.ep_api->ReleaseEpDevice(device);
  host.check(status);
  return device;
}

OrtStatus* Factory::create_ep(OrtEpFactory* self, const OrtHardwareDevice* const*,
                              const OrtKeyValuePairs* const* metadata, std::size_t count,
                              const OrtSessionOptions* options, const OrtLogger*, OrtEp** ep) {
  auto* factory = static_cast<Factory*>(self);
  return factory->host_.guarded([&] {
    if (count != 1) throw Failure(Code::invalid_argument, "an EP is made for one EP device");
    const char* number = factory->host_.api->GetKeyValue(metadata[0], number_key);
    const bool second = number != nullptr && std::strcmp(number, "1") == 0;
    const Shared& shared = factory->shared_.at(second ? 1 : 0);
    const InProgress operation(shared.device->contract(), Operation::create_session, 0);
    if (planted(Fault::creations_meet)) die_if_met_in_creation();
    *ep = std::make_unique<Ep>(shared, *options).release();
  });
}

void Factory::release_ep(OrtEpFactory*, OrtEp* ep) { delete static_cast<Ep*>(ep); }

OrtStatus* Factory::create_allocator(OrtEpFactory* self, const OrtMemoryInfo* memory,
                                     const OrtKeyValuePairs*, OrtAllocator** allocator) {
  auto* factory = static_cast<Factory*>(self);
  return factory->host_.guarded([&] {
    const Shared& shared =
        factory->shared_of(*factory->host_.ep_api->MemoryInfo_GetMemoryDevice(memory));
    const bool first = shared.memory == factory->memories_.front();
    if (planted(Fault::shared_allocator_once) && first && factory->first_ != nullptr)
      throw Failure(Code::fail, "the device has an allocator, and makes no other");
    if (planted(Fault::second_device_evicts) && !first && factory->first_ != nullptr)
      evict(*factory->first_);
    *allocator = make_allocator(shared.host, shared.memory, shared.device, nullptr);
    if (first) factory->first_ = *allocator;
  });
}

void Factory::release_allocator(OrtEpFactory*, OrtAllocator* allocator) {
  reference::release_allocator(allocator);
}

OrtStatus* Factory::create_data_transfer(OrtEpFactory* self, OrtDataTransferImpl** transfer) {
  auto* factory = static_cast<Factory*>(self);
  return factory->host_.guarded([&] {
    std::vector<DeviceMemory> memories;
    for (const Shared& shared : factory->shared_)
      memories.push_back(
          {factory->host_.ep_api->MemoryInfo_GetMemoryDevice(shared.memory), shared.device});
    *transfer = make_transfer(factory->host_, std::move(memories));
  });
}

bool Factory::is_stream_aware(const OrtEpFactory*) { return true; }

OrtStatus* Factory::create_sync_stream(OrtEpFactory* self, const OrtMemoryDevice* memory,
                                       const OrtKeyValuePairs*, OrtSyncStreamImpl** stream) {
  auto* factory = static_cast<Factory*>(self);
  return factory->host_.guarded([&] {
    const auto session = std::make_shared<Session>(factory->shared_of(*memory).device);
    if (planted(Fault::stream_reversed)) session->recording().submit_reversed();
    if (planted(Fault::streams_share)) session->share_recording();
    *stream = make_stream(factory->host_, session);
  });
}

}  // namespace reference
