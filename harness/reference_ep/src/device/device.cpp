#include "device/device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "device/failure.h"
#include "device/faults.h"

namespace reference {

namespace {

// Between two buffers, so that an address one past the end of one is not the start of the next.
constexpr std::size_t gap = Device::alignment;

std::size_t rounded(std::size_t bytes) {
  return (bytes + Device::alignment - 1) / Device::alignment * Device::alignment;
}

bool allocations_may_meet() {
  return planted(Fault::allocations_meet) || planted(Fault::session_allocations_meet) ||
         planted(Fault::shared_allocations_meet);
}

bool pending_elsewhere(const Buffer& buffer, const Recording* recording) {
  return std::any_of(buffer.pending.begin(), buffer.pending.end(),
                     [&](const auto& one) { return one.get() != recording; });
}

}  // namespace

Device::Device() = default;
Device::~Device() = default;

Region Device::allocate(std::size_t bytes, const Recording* recording) {
  if (bytes > Device::capacity) return {};
  Buffer* other = given_just_now(rounded(bytes), recording);
  if (other != nullptr) return Region{other, 0, bytes};
  const Region region = take(bytes, recording);
  linger(region.buffer, recording);
  return region;
}

Region Device::take(std::size_t bytes, const Recording* recording) {
  const std::lock_guard<std::mutex> guard(lock_);
  const std::size_t size = rounded(planted(Fault::wrong_alignment) ? bytes + 4 : bytes);
  Buffer* buffer = planted(Fault::two_on_one_buffer) ? live_twin(size, bytes) : nullptr;
  if (buffer != nullptr) return Region{buffer, 0, bytes};
  buffer = from_pool(size, recording);
  if (buffer == nullptr) {
    const std::uintptr_t address = addresses_.take(size + gap);
    if (address == 0) return {};
    auto made = std::make_unique<Buffer>();
    made->address = address;
    made->capacity = size;
    made->content = std::make_unique<std::byte[]>(size);
    buffer = made.get();
    buffers_.emplace(address, std::move(made));
  }
  buffer->size = bytes;
  MemoryStatistics& s = statistics_;
  s.live_buffers += 1;
  s.in_use += bytes;
  s.max_in_use = std::max(s.max_in_use, s.in_use);
  s.max_alloc_size = std::max(s.max_alloc_size, bytes);
  s.total_allocated += bytes;
  s.allocations += 1;
  if (planted(Fault::wrong_alignment)) {
    buffer->size += 4;
    return Region{buffer, 4, bytes};
  }
  return Region{buffer, 0, bytes};
}

Buffer* Device::from_pool(std::size_t capacity, const Recording* recording) {
  const auto [first, last] = pool_.equal_range(capacity);
  // The one that was freed last comes first: what it held is the most likely to be missed.
  for (auto entry = last; entry != first;) {
    --entry;
    Buffer* buffer = entry->second;
    if (buffer->held != 0 || pending_elsewhere(*buffer, recording)) continue;
    pool_.erase(entry);
    statistics_.reused += 1;
    return buffer;
  }
  return nullptr;
}

// A live buffer of the same size, for a second owner: every second allocation.
Buffer* Device::live_twin(std::size_t capacity, std::size_t bytes) {
  static std::atomic<unsigned> asked{0};
  if (++asked % 2 != 0) return nullptr;
  for (const auto& [address, buffer] : buffers_) {
    if (buffer->size == 0 || buffer->capacity != capacity) continue;
    buffer->shares += 1;
    buffer->size = std::max(buffer->size, bytes);
    return buffer.get();
  }
  return nullptr;
}

// The live buffer behind another one; that one itself if it is the last.
Buffer* Device::live_neighbour(Buffer* buffer) {
  for (auto next = buffers_.upper_bound(buffer->address); next != buffers_.end(); ++next)
    if (next->second->size != 0) return next->second.get();
  return buffer;
}

// The buffer of an allocation that is still on its way, if two such get the same one.
Buffer* Device::given_just_now(std::size_t capacity, const Recording* recording) {
  if (!allocations_may_meet()) return nullptr;
  const std::lock_guard<std::mutex> guard(lock_);
  if (just_given_ == nullptr || just_given_->capacity != capacity) return nullptr;
  const bool environment = recording == nullptr && just_given_to_ == nullptr;
  const bool same_session = recording != nullptr && just_given_to_ == recording;
  const bool two_sessions = recording != nullptr && just_given_to_ != nullptr && !same_session;
  const bool meet = (planted(Fault::shared_allocations_meet) && environment) ||
                    (planted(Fault::session_allocations_meet) && same_session) ||
                    (planted(Fault::allocations_meet) && two_sessions);
  if (!meet) return nullptr;
  just_given_->shares += 1;
  return just_given_;
}

// Long enough for another to come.
void Device::linger(Buffer* buffer, const Recording* recording) {
  if (!allocations_may_meet()) return;
  {
    const std::lock_guard<std::mutex> guard(lock_);
    just_given_ = buffer;
    just_given_to_ = recording;
  }
  std::this_thread::sleep_for(std::chrono::microseconds(500));
  const std::lock_guard<std::mutex> guard(lock_);
  if (just_given_ == buffer) just_given_ = nullptr;
}

void Device::free(const void* address) {
  if (planted(Fault::leak_an_allocation)) return;
  if (planted(Fault::wrong_alignment)) address = static_cast<const std::byte*>(address) - 4;
  const std::lock_guard<std::mutex> guard(lock_);
  const auto found = buffers_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == buffers_.end() || found->second->size == 0)
    throw Failure(Code::invalid_argument, "not the start of a live device buffer");
  Buffer* buffer = found->second.get();
  if (planted(Fault::free_takes_neighbour)) buffer = live_neighbour(buffer);
  if (buffer->shares != 0) {
    buffer->shares -= 1;
    return;
  }
  if (planted(Fault::freed_before_submit)) buffer->pending.clear();
  statistics_.live_buffers -= 1;
  statistics_.in_use -= buffer->size;
  buffer->size = 0;
  if (planted(Fault::frees_wait)) {
    freed_.push_back(buffer);
    if (freed_.size() <= 64) return;
    buffer = freed_.front();
    freed_.pop_front();
  }
  pool_.emplace(buffer->capacity, buffer);
}

Region Device::find(const void* address, std::size_t bytes) const {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard<std::mutex> guard(lock_);
  auto next = buffers_.upper_bound(wanted);
  if (next != buffers_.begin()) {
    Buffer* buffer = std::prev(next)->second.get();
    std::size_t offset = wanted - buffer->address;
    if (planted(Fault::offset_ignored) && offset < buffer->size) offset = 0;
    if (offset <= buffer->size && bytes <= buffer->size - offset && buffer->size != 0)
      return Region{buffer, offset, bytes};
  }
  throw Failure(Code::invalid_argument, "not within a live device buffer");
}

void Device::settle(const Region& region, const Recording* except) {
  if (region.buffer == nullptr) return;
  std::vector<std::shared_ptr<Recording>> others;
  {
    const std::lock_guard<std::mutex> guard(lock_);
    for (const auto& recording : region.buffer->pending)
      if (recording.get() != except) others.push_back(recording);
  }
  for (const auto& recording : others) recording->submit();
}

void Device::clear(const Region& region) {
  if (planted(Fault::reuse_not_cleared) || planted(Fault::environment_not_cleared)) return;
  settle(region, nullptr);
  std::memset(region.content(), 0, region.bytes);
}

void Device::upload(const Region& to, const void* from) {
  if (upload_is_lost()) return;
  std::vector<std::byte> staged;
  if (planted(Fault::one_staging_buffer)) {
    staged = through_one_buffer(static_cast<const std::byte*>(from), to.bytes);
    from = staged.data();
  }
  if (!planted(Fault::upload_overtakes_clear)) settle(to, nullptr);
  if (planted(Fault::upload_awaits_readback)) {
    const auto* first = static_cast<const std::byte*>(from);
    const std::lock_guard<std::mutex> guard(lock_);
    put_off_.push_back([to, staged = std::vector<std::byte>(first, first + to.bytes)] {
      std::memcpy(to.content(), staged.data(), staged.size());
    });
    return;
  }
  if (planted(Fault::replay_discards_uploads)) {
    postpone(to, from);
    return;
  }
  std::memcpy(to.content(), from, to.bytes);
}

void Device::download(void* to, const Region& from) {
  if (planted(Fault::upload_awaits_readback)) {
    const std::lock_guard<std::mutex> guard(lock_);
    for (const auto& upload : put_off_) upload();
    put_off_.clear();
  }
  if (!planted(Fault::run_end_without_submit)) settle(from, nullptr);
  deliver();
  std::memcpy(to, from.content(), from.bytes);
}

void Device::copy(const Region& to, const Region& from) {
  settle(from, nullptr);
  settle(to, nullptr);
  std::memcpy(to.content(), from.content(), from.bytes);
}

void Device::mark_pending(const std::vector<Operand>& operands,
                          const std::shared_ptr<Recording>& recording) {
  const std::lock_guard<std::mutex> guard(lock_);
  for (const Operand& operand : operands) {
    if (operand.region.buffer == nullptr) continue;
    auto& pending = operand.region.buffer->pending;
    if (std::find(pending.begin(), pending.end(), recording) == pending.end())
      pending.push_back(recording);
  }
}

void Device::unmark_pending(const std::vector<Command>& commands, const Recording* recording) {
  const std::lock_guard<std::mutex> guard(lock_);
  for (const Command& command : commands) {
    for (const Operand& operand : command.operands) {
      if (operand.region.buffer == nullptr) continue;
      auto& pending = operand.region.buffer->pending;
      pending.erase(std::remove_if(pending.begin(), pending.end(),
                                   [&](const auto& one) { return one.get() == recording; }),
                    pending.end());
    }
  }
}

void Device::hold(const std::vector<Command>& commands) {
  if (planted(Fault::intermediates_not_reserved)) return;
  const std::lock_guard<std::mutex> guard(lock_);
  for (const Command& command : commands)
    for (const Operand& operand : command.operands)
      if (operand.region.buffer != nullptr) operand.region.buffer->held += 1;
}

void Device::unhold(const std::vector<Command>& commands) {
  if (planted(Fault::intermediates_not_reserved)) return;
  const std::lock_guard<std::mutex> guard(lock_);
  for (const Command& command : commands)
    for (const Operand& operand : command.operands)
      if (operand.region.buffer != nullptr) operand.region.buffer->held -= 1;
}

std::shared_ptr<Recording> Device::recording_of_all() {
  const std::lock_guard<std::mutex> guard(lock_);
  if (recording_of_all_ == nullptr) {
    recording_of_all_ = std::make_shared<Recording>(*this);
    recording_of_all_->be_careless();
  }
  return recording_of_all_;
}

bool Device::upload_is_lost() {
  if (planted(Fault::lost_update)) return uploads_.meet();
  return planted(Fault::release_drops_uploads) && releases_.occupied();
}

void Device::release_of_a_session() {
  if (planted(Fault::release_drops_uploads)) releases_.meet(std::chrono::milliseconds(2));
  if (planted(Fault::releases_meet) && releases_.meet()) std::raise(SIGSEGV);
}

// What is small has room beside what others bring.
std::vector<std::byte> Device::through_one_buffer(const std::byte* from, std::size_t bytes) {
  constexpr std::size_t small = std::size_t{1} << 16;
  std::vector<std::byte> found(from, from + bytes);
  if (bytes <= small) return found;
  {
    const std::lock_guard<std::mutex> guard(lock_);
    one_buffer_ = found;
  }
  std::this_thread::sleep_for(std::chrono::microseconds(500));
  const std::lock_guard<std::mutex> guard(lock_);
  std::copy_n(one_buffer_.begin(), std::min(bytes, one_buffer_.size()), found.begin());
  return found;
}

void Device::clear_all() {
  const std::lock_guard<std::mutex> guard(lock_);
  for (const auto& [address, buffer] : buffers_)
    std::memset(buffer->content.get(), 0, buffer->capacity);
}

void Device::captured(int id, const Graph& graph) {
  const std::lock_guard<std::mutex> guard(lock_);
  captured_[id] = graph;
}

Graph Device::captured_last(int id) const {
  const std::lock_guard<std::mutex> guard(lock_);
  return captured_.at(id);
}

void Device::postpone(const Region& to, const void* from) {
  deliver();
  const auto* first = static_cast<const std::byte*>(from);
  const auto staged = std::make_shared<std::vector<std::byte>>(first, first + to.bytes);
  const std::lock_guard<std::mutex> guard(lock_);
  postponed_.push_back({"upload", {{to}}, [staged](const std::vector<Region>& at) {
                          std::memcpy(at[0].content(), staged->data(), at[0].bytes);
                        }});
}

void Device::deliver() {
  if (!planted(Fault::replay_discards_uploads)) return;
  const std::lock_guard<std::mutex> guard(lock_);
  for (const Command& command : postponed_) command.execute();
  postponed_.clear();
}

void Device::discard() {
  const std::lock_guard<std::mutex> guard(lock_);
  postponed_.clear();
}

MemoryStatistics Device::statistics() const {
  const std::lock_guard<std::mutex> guard(lock_);
  return statistics_;
}

}  // namespace reference
