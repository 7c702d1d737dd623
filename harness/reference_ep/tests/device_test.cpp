// Drives the device layer without a core: what it does, and many threads at once for a sanitizer.
//
// Usage: device_test [threads] [rounds]. Writes one line for each failed check; exit status 1 then.
#include "device/device.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/failure.h"
#include "device/session.h"
#include "host/modes.h"

using namespace reference;

namespace {

std::atomic<int> failures{0};

void check(bool holds, const char* what) {
  if (holds) return;
  failures += 1;
  std::fprintf(stderr, "does not hold: %s\n", what);
}

template <typename Function>
bool refused(Function function) {
  try {
    function();
  } catch (const Failure&) {
    return true;
  }
  return false;
}

constexpr std::size_t count = 64;
constexpr std::size_t bytes = count * sizeof(float);
using Values = std::vector<float>;

Values filled(float value) { return Values(count, value); }

Values read(Device& device, const Region& region) {
  Values values(count, -77);
  device.download(values.data(), region);
  return values;
}

void negate(Session& session, const Region& from, const Region& to, Role role = Role::fixed) {
  session.recording().record({"negate", {{from}, {to, role}}, [](const std::vector<Region>& at) {
                                const auto* x = reinterpret_cast<const float*>(at[0].content());
                                auto* y = reinterpret_cast<float*>(at[1].content());
                                for (std::size_t i = 0; i < count; ++i) y[i] = -x[i];
                              }});
}

bool untouched(const Region& region, float value) {
  return *reinterpret_cast<const float*>(region.content()) == value;
}

void recorded_work_waits_for_a_submission() {
  auto device = std::make_shared<Device>();
  Session session(device);
  const Region x = session.allocate(bytes);
  const Region y = session.allocate(bytes);
  session.upload(x, filled(3).data());
  negate(session, x, y);
  check(untouched(y, 0), "nothing is executed before a submission");
  session.recording().submit();
  check(untouched(y, -3), "everything is executed by one");
}

void a_copy_without_stream_submits_what_touches_its_memory() {
  auto device = std::make_shared<Device>();
  Session session(device);
  Session stranger(device);
  const Region x = session.allocate(bytes);
  const Region y = session.allocate(bytes);
  const Region other = stranger.allocate(bytes);
  negate(stranger, other, other);
  device->upload(x, filled(5).data());
  negate(session, x, y);
  check(read(*device, y) == filled(-5), "a readback sees what was recorded before it");
  check(!other.buffer->pending.empty(), "and leaves the other recordings alone");
}

void recordings_that_share_memory_keep_their_order() {
  auto device = std::make_shared<Device>();
  Session one(device);
  Session other(device);
  const Region x = one.allocate(bytes);
  const Region y = other.allocate(bytes);
  one.upload(x, filled(2).data());
  negate(other, x, y);
  other.recording().submit();
  check(read(*device, y) == filled(-2), "a reader's recording submits the writer's");
}

void freed_memory_is_reused_and_cleared() {
  auto device = std::make_shared<Device>();
  Session session(device);
  const Region first = session.allocate(bytes);
  session.upload(first, filled(9).data());
  const void* address = address_of(first);
  session.free(first);
  Session stranger(device);
  const Region elsewhere = stranger.allocate(bytes);
  check(address_of(elsewhere) != address, "commands for it keep a buffer from other sessions");
  session.recording().submit();
  const Region second = session.allocate(bytes);
  check(address_of(second) == address, "a freed buffer is reused");
  check(read(*device, second) == filled(0), "and was cleared");
  check(device->statistics().live_buffers == 2, "buffers in use are counted");
  check(refused([&] { device->free("x"); }), "what is no buffer cannot be freed");
  check(refused([&] { device->find(address, bytes + 1); }), "a buffer ends where it ends");
}

void a_graph_is_replayed_on_the_values_of_now() {
  auto device = std::make_shared<Device>();
  Session session(device);
  Recording& recording = session.recording();
  const Region x = session.allocate(bytes);
  const Region y = session.allocate(bytes);
  const auto run = [&](int id) {
    recording.begin_capture(id);
    const Region between = session.allocate(bytes);
    negate(session, x, between, Role::passing);
    negate(session, between, y);
    session.free(between);
    recording.end_capture(true);
    return between;
  };
  device->upload(x, filled(4).data());
  const Region reserved = run(7);
  check(recording.captured(7) && !recording.captured(0), "a graph is known by its id");
  check(read(*device, y) == filled(4), "the run that is captured is executed");
  device->upload(x, filled(6).data());
  recording.replay(7);
  check(read(*device, y) == filled(6), "a replay computes from what is there now");
  device->upload(x, filled(8).data());
  const Region fresh = run(7);
  check(address_of(fresh) != address_of(reserved), "a graph's intermediates are kept for it");
  check(read(*device, y) == filled(8), "a run that asks for the same is a replay");
  recording.release(7);
  check(refused([&] { recording.replay(7); }), "a released graph is gone");
  const Region again = session.allocate(bytes);
  check(address_of(again) == address_of(reserved) || address_of(again) == address_of(fresh),
        "and its memory is free");
}

void a_broken_run_is_no_graph() {
  auto device = std::make_shared<Device>();
  Session session(device);
  const Region x = session.allocate(bytes);
  session.recording().begin_capture(1);
  negate(session, x, x);
  session.recording().end_capture(false);
  check(!session.recording().captured(1), "a run that was not complete is not kept");
}

void overlaps_are_counted_between_threads_alone() {
  Device device;
  device.contract().check(true);
  {
    const InProgress run(device.contract(), Operation::run, 1);
    const InProgress nested(device.contract(), Operation::allocate, 1);
    check(device.contract().report().overlaps == 0, "what a run does itself is no overlap");
    std::thread([&] { const InProgress other(device.contract(), Operation::copy, 2); }).join();
  }
  const ContractReport report = device.contract().report();
  check(report.overlaps == 2, "another thread's operation overlaps both");
  check(report.by_kind.count("copy during run") == 1, "and it is said which");
  check(report.first == "copy of session 2 during run of session 1", "and whose");
  bool told = false;
  try {
    device.contract().demand();
  } catch (const Failure&) {
    told = true;
  }
  check(told, "an overlap is told");
  device.contract().demand();  // and told once
}

void the_published_table_decides_the_mode() {
  const struct {
    const char* version;
    Mode mode;
  } table[] = {
      {"1.24.4", Mode::serialized}, {"1.27.1", Mode::serialized},
      {"1.28.0", Mode::serialized}, {"1.28.2", Mode::serialized},
      {"1.28.3", Mode::concurrent}, {"1.28.10", Mode::concurrent},
      {"1.29.0", Mode::serialized}, {"1.29.9", Mode::serialized},
      {"1.30.0", Mode::serialized}, {"1.30.1", Mode::concurrent},
      {"1.31.0", Mode::concurrent}, {"1.32.0", Mode::concurrent},
      {"2.0.0", Mode::concurrent},  {"1.31.0-dev.1", Mode::concurrent},
  };
  for (const auto& row : table) {
    for (const char* neutral : {static_cast<const char*>(nullptr), "", "0"})
      check(decide_mode(row.version, neutral) == row.mode, row.version);
    check(decide_mode(row.version, "1") == Mode::serialized, "the override forces serialized");
    check(refused([&] { decide_mode(row.version, "yes"); }), "the override has three values");
  }
  check(refused([] { decide_mode("nightly", nullptr); }), "a version must be readable");
}

void memory_ends() {
  Device device;
  check(device.allocate(Device::capacity + 1, nullptr).buffer == nullptr, "too much is refused");
}

// Independent sessions on threads of their own, with an environment's copies beside them.
void many_threads(int threads, int rounds) {
  auto device = std::make_shared<Device>();
  std::vector<std::thread> workers;
  for (int n = 0; n < threads; ++n) {
    workers.emplace_back([&, n] {
      for (int round = 0; round < rounds; ++round) {
        Session session(device);
        const auto value = static_cast<float>(1 + n * 1000 + round);
        const Region x = session.allocate(bytes);
        const Region y = session.allocate(bytes);
        for (int run = 0; run < 4; ++run) {
          device->upload(x, filled(value + static_cast<float>(run)).data());
          session.recording().begin_capture(run % 2);
          const Region between = session.allocate(bytes);
          negate(session, x, between, Role::passing);
          negate(session, between, y);
          session.free(between);
          session.recording().end_capture(true);
          check(read(*device, y) == filled(value + static_cast<float>(run)),
                "a thread's own values");
        }
        const Region copied = device->allocate(bytes, nullptr);
        device->clear(copied);
        session.copy(copied, y);
        check(read(*device, copied) == filled(value + 3), "a copy read without a stream");
        device->free(address_of(copied));
        session.free(x);
        session.free(y);
        session.recording().release_all();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  check(device->statistics().live_buffers == 0, "nothing is left");
}

// Two recordings that need each other's memory, from two threads: no deadlock, no race.
void shared_memory_from_two_threads(int rounds) {
  auto device = std::make_shared<Device>();
  Session one(device);
  Session other(device);
  const Region a = one.allocate(bytes);
  const Region b = other.allocate(bytes);
  one.recording().submit();
  other.recording().submit();
  std::thread first([&] {
    for (int i = 0; i < rounds; ++i) {
      one.recording().record({"look", {{a}, {b}}, [](const std::vector<Region>&) {}});
      one.recording().submit();
    }
  });
  std::thread second([&] {
    for (int i = 0; i < rounds; ++i) {
      other.recording().record({"look", {{b}, {a}}, [](const std::vector<Region>&) {}});
      other.recording().submit();
    }
  });
  first.join();
  second.join();
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 8;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 50;
  recorded_work_waits_for_a_submission();
  a_copy_without_stream_submits_what_touches_its_memory();
  recordings_that_share_memory_keep_their_order();
  freed_memory_is_reused_and_cleared();
  a_graph_is_replayed_on_the_values_of_now();
  a_broken_run_is_no_graph();
  overlaps_are_counted_between_threads_alone();
  memory_ends();
  the_published_table_decides_the_mode();
  many_threads(threads, rounds);
  shared_memory_from_two_threads(rounds * 10);
  std::printf("%d failed\n", failures.load());
  return failures == 0 ? 0 : 1;
}
