// A piece of device memory, and a region within one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace reference {

class Recording;

// Made once by the device and kept until the device ends, so that a plain pointer to one stays
// valid. The members below the line belong to the device and are guarded by its lock.
struct Buffer {
  std::uintptr_t address = 0;
  std::size_t capacity = 0;
  std::unique_ptr<std::byte[]> content;
  // ----
  std::size_t size = 0;  // as it was asked for; 0 while it is in the pool
  unsigned shares = 0;   // owners beyond the first, which only a fault gives it
  unsigned held = 0;     // by this many captured graphs
  std::vector<std::shared_ptr<Recording>> pending;  // recordings with commands that touch it
};

struct Region {
  Buffer* buffer = nullptr;
  std::size_t offset = 0;
  std::size_t bytes = 0;

  std::byte* content() const { return buffer->content.get() + offset; }
  bool same_place(const Region& other) const {
    return buffer == other.buffer && offset == other.offset;
  }
  bool operator==(const Region& other) const { return same_place(other) && bytes == other.bytes; }
};

}  // namespace reference
