// One session's share of the device: its recording, and memory that is cleared in its order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/device.h"
#include "device/recording.h"

namespace reference {

// Shared by everything that a session made, some of which the host may keep longer than it.
class Session {
 public:
  explicit Session(std::shared_ptr<Device> device);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::uint64_t id() const { return id_; }
  Device& device() { return *device_; }
  Recording& recording() { return *recording_; }

  // Memory whose clear is recorded; an empty region if the device is full.
  Region allocate(std::size_t bytes);
  // May be called with commands for it still in the recording.
  void free(const Region& region);

  void upload(const Region& to, const void* from);  // takes the bytes now, writes them in order
  void download(void* to, const Region& from);      // a readback: submits
  void copy(const Region& to, const Region& from);

  // For faults alone.
  void share_recording();

 private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<Recording> recording_;
  std::uint64_t id_;
};

// An address as the host knows it.
inline void* address_of(const Region& region) {
  return reinterpret_cast<void*>(region.buffer->address + region.offset);
}

}  // namespace reference
