// For faults alone: a place where threads meet that should have been kept apart.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace reference {

class Meeting {
 public:
  // Stays for long enough to be met. Returns whether somebody was there already.
  bool meet(std::chrono::microseconds stay = std::chrono::microseconds(500)) {
    const bool met = inside_.fetch_add(1) != 0;
    std::this_thread::sleep_for(stay);
    inside_.fetch_sub(1);
    return met;
  }

  bool occupied() const { return inside_.load() != 0; }

 private:
  std::atomic<int> inside_{0};
};

}  // namespace reference
