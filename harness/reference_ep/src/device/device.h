// The simulated device: its memory, and immediate operations on it. It knows nothing of ORT.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "device/address_space.h"
#include "device/buffer.h"
#include "device/contract.h"
#include "device/meeting.h"
#include "device/recording.h"

namespace reference {

struct MemoryStatistics {
  std::size_t live_buffers = 0;
  std::size_t in_use = 0;
  std::size_t max_in_use = 0;
  std::size_t total_allocated = 0;
  std::size_t max_alloc_size = 0;
  std::size_t allocations = 0;
  std::size_t reused = 0;
};

// Safe to use from several threads. Its lock guards its books alone and is never held while a
// command is executed.
class Device {
 public:
  static constexpr std::size_t alignment = 256;
  static constexpr std::size_t capacity = std::size_t{1} << 32;

  Device();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Memory from the pool of freed buffers or new memory, with whatever is in it; the caller
  // clears it. A buffer that commands of other recordings still touch stays where it is.
  // Returns an empty region if the device is full.
  Region allocate(std::size_t bytes, const Recording* recording);

  // Returns a buffer to the pool. Throws Failure if the address is not the start of a live one.
  void free(const void* address);

  // The region at an address, which may lie within a buffer. Throws Failure if it is not wholly
  // within a live one.
  Region find(const void* address, std::size_t bytes) const;

  // Submits every recording, but the given one, with commands that touch the region's buffer.
  void settle(const Region& region, const Recording* except);

  // Immediate operations; what is recorded for their memory is submitted first.
  void clear(const Region& region);
  void upload(const Region& to, const void* from);
  void download(void* to, const Region& from);
  void copy(const Region& to, const Region& from);

  // For recordings.
  void mark_pending(const std::vector<Operand>& operands,
                    const std::shared_ptr<Recording>& recording);
  void unmark_pending(const std::vector<Command>& commands, const Recording* recording);

  // For captured graphs: a held buffer does not leave the pool.
  void hold(const std::vector<Command>& commands);
  void unhold(const std::vector<Command>& commands);

  MemoryStatistics statistics() const;
  Contract& contract() { return contract_; }

  // For faults alone: a recording that loses something if several use it; whether an upload now is
  // to be left out; what an upload brings if it goes through memory that it shares with others.
  std::shared_ptr<Recording> recording_of_all();
  bool upload_is_lost();
  void release_of_a_session();
  std::vector<std::byte> through_one_buffer(const std::byte* from, std::size_t bytes);
  void clear_all();
  // The graph that any session captured last under an id.
  void captured(int id, const Graph& graph);
  Graph captured_last(int id) const;
  // An upload that waits for the next operation, what has waited until then, and its end unseen.
  void postpone(const Region& to, const void* from);
  void deliver();
  void discard();

 private:
  Region take(std::size_t bytes, const Recording* recording);
  Buffer* given_just_now(std::size_t capacity, const Recording* recording);
  void linger(Buffer* buffer, const Recording* recording);
  Buffer* live_twin(std::size_t capacity, std::size_t bytes);
  Buffer* live_neighbour(Buffer* buffer);
  Buffer* from_pool(std::size_t capacity, const Recording* recording);

  mutable std::mutex lock_;
  AddressSpace addresses_{capacity};
  std::map<std::uintptr_t, std::unique_ptr<Buffer>> buffers_;
  std::multimap<std::size_t, Buffer*> pool_;  // by capacity
  MemoryStatistics statistics_;
  Contract contract_;
  // For faults alone.
  std::deque<Buffer*> freed_;  // not yet in the pool
  std::shared_ptr<Recording> recording_of_all_;
  std::vector<std::function<void()>> put_off_;
  std::map<int, Graph> captured_;
  Graph postponed_;
  Meeting uploads_;
  Meeting releases_;
  Buffer* just_given_ = nullptr;
  const Recording* just_given_to_ = nullptr;
  std::vector<std::byte> one_buffer_;
};

}  // namespace reference
