#include "device/session.h"

#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "device/faults.h"

namespace reference {

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

Session::Session(std::shared_ptr<Device> device)
    : device_(std::move(device)),
      recording_(std::make_shared<Recording>(*device_)),
      id_(next_id()) {
  if (planted(Fault::leak_a_session)) device_->allocate(std::size_t{1} << 20, nullptr);
  if (planted(Fault::shared_recording)) share_recording();
}

void Session::share_recording() { recording_ = device_->recording_of_all(); }

Session::~Session() {
  // What the host asked for is done, even if nobody waited for it.
  recording_->submit();
  recording_->release_all();
}

Region Session::allocate(std::size_t bytes) {
  const Region region = device_->allocate(bytes, recording_.get());
  if (region.buffer == nullptr || planted(Fault::reuse_not_cleared)) return region;
  Region cleared = region;
  if (planted(Fault::half_cleared)) cleared.bytes /= 2;
  if (planted(Fault::clear_too_late)) {
    recording_->record_late(cleared);
    return region;
  }
  recording_->record({"clear", {{cleared, Role::cleared}}, [](const std::vector<Region>& at) {
                        std::memset(at[0].content(), 0, at[0].bytes);
                      }});
  return region;
}

void Session::free(const Region& region) { device_->free(address_of(region)); }

void Session::upload(const Region& to, const void* from) {
  if (device_->upload_is_lost()) return;
  if (planted(Fault::upload_reads_late)) {
    recording_->record_copy({"upload", {{to}}, [from](const std::vector<Region>& at) {
                               std::memcpy(at[0].content(), from, at[0].bytes);
                             }});
    return;
  }
  const auto* first = static_cast<const std::byte*>(from);
  const auto staged = std::make_shared<std::vector<std::byte>>(
      planted(Fault::one_staging_buffer) ? device_->through_one_buffer(first, to.bytes)
                                         : std::vector<std::byte>(first, first + to.bytes));
  recording_->record_copy({"upload", {{to}}, [staged](const std::vector<Region>& at) {
                             std::memcpy(at[0].content(), staged->data(), at[0].bytes);
                           }});
}

void Session::download(void* to, const Region& from) {
  if (planted(Fault::readback_before_submit) ||
      (planted(Fault::capture_fetched_early) && recording_->in_capture())) {
    std::memcpy(to, from.content(), from.bytes);
    return;
  }
  recording_->record_copy({"download", {{from}}, [to](const std::vector<Region>& at) {
                             std::memcpy(to, at[0].content(), at[0].bytes);
                           }});
  recording_->submit();
}

void Session::copy(const Region& to, const Region& from) {
  recording_->record_copy({"copy", {{to}, {from}}, [](const std::vector<Region>& at) {
                             std::memcpy(at[0].content(), at[1].content(), at[0].bytes);
                           }});
}

}  // namespace reference
