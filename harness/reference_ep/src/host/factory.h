// The factory: the EP devices that this plugin offers, and what it makes for ORT.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "host/ep.h"
#include "host/modes.h"
#include "host/ort.h"

namespace reference {

class Factory : public OrtEpFactory {
 public:
  Factory(const Host& host, Mode mode, std::size_t devices);
  ~Factory();
  Factory(const Factory&) = delete;
  Factory& operator=(const Factory&) = delete;

  // Whether it was asked for its devices.
  bool used() const { return used_; }

 private:
  static const char* get_name(const OrtEpFactory* self);
  static const char* get_vendor(const OrtEpFactory* self);
  static std::uint32_t get_vendor_id(const OrtEpFactory* self);
  static const char* get_version(const OrtEpFactory* self);
  static OrtStatus* get_supported_devices(OrtEpFactory* self,
                                          const OrtHardwareDevice* const* hardware,
                                          std::size_t hardware_count, OrtEpDevice** devices,
                                          std::size_t capacity, std::size_t* count);
  static OrtStatus* create_ep(OrtEpFactory* self, const OrtHardwareDevice* const* hardware,
                              const OrtKeyValuePairs* const* metadata, std::size_t count,
                              const OrtSessionOptions* options, const OrtLogger* logger,
                              OrtEp** ep);
  static void release_ep(OrtEpFactory* self, OrtEp* ep);
  static OrtStatus* create_allocator(OrtEpFactory* self, const OrtMemoryInfo* memory,
                                     const OrtKeyValuePairs* options, OrtAllocator** allocator);
  static void release_allocator(OrtEpFactory* self, OrtAllocator* allocator);
  static OrtStatus* create_data_transfer(OrtEpFactory* self, OrtDataTransferImpl** transfer);
  static bool is_stream_aware(const OrtEpFactory* self);
  static OrtStatus* create_sync_stream(OrtEpFactory* self, const OrtMemoryDevice* device,
                                       const OrtKeyValuePairs* options, OrtSyncStreamImpl** stream);

  OrtMemoryInfo* make_memory(std::size_t number) const;
  OrtEpDevice* offer(const OrtHardwareDevice& hardware, std::size_t number);
  const Shared& shared_of(const OrtMemoryDevice& memory) const;

  Host host_;
  Mode mode_;
  std::vector<OrtMemoryInfo*> memories_;  // by the number of the device
  std::vector<Shared> shared_;            // likewise
  bool used_ = false;
  OrtAllocator* first_ = nullptr;  // for faults alone
};

}  // namespace reference
