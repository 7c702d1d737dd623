#include "device/contract.h"

#include "device/failure.h"

namespace reference {

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::create_session: return "create-session";
    case Operation::release_session: return "release-session";
    case Operation::run: return "run";
    case Operation::replay: return "replay";
    case Operation::release_graph: return "release-graph";
    case Operation::allocate: return "allocate";
    case Operation::free: return "free";
    case Operation::copy: return "copy";
    case Operation::stream: return "stream";
    case Operation::synchronize: return "synchronize";
  }
  return "unknown";
}

namespace {

std::string described(const OperationInProgress& one) {
  return std::string(name_of(one.operation)) +
         (one.session == 0 ? " of the environment" : " of session " + std::to_string(one.session));
}

}  // namespace

void Contract::check(bool on) {
  const std::lock_guard<std::mutex> guard(lock_);
  on_ = on;
  report_.checked = report_.checked || on;
}

Contract::Ticket Contract::begin(Operation operation, std::uint64_t session) {
  if (!on_) return in_progress_.end();
  const OperationInProgress begun{operation, std::this_thread::get_id(), session};
  const std::lock_guard<std::mutex> guard(lock_);
  report_.operations += 1;
  for (const OperationInProgress& other : in_progress_) {
    if (other.thread == begun.thread) continue;
    report_.overlaps += 1;
    report_.by_kind[std::string(name_of(operation)) + " during " + name_of(other.operation)] += 1;
    untold_ = described(begun) + " during " + described(other);
    if (report_.first.empty()) report_.first = untold_;
  }
  return in_progress_.insert(in_progress_.end(), begun);
}

void Contract::end(Ticket ticket) {
  if (ticket == in_progress_.end()) return;
  const std::lock_guard<std::mutex> guard(lock_);
  in_progress_.erase(ticket);
}

void Contract::demand() {
  if (!on_) return;
  std::string told;
  {
    const std::lock_guard<std::mutex> guard(lock_);
    told.swap(untold_);
  }
  if (!told.empty())
    throw Failure(Code::ep_fail, "a serialized device was used by two threads at once: " + told);
}

ContractReport Contract::report() const {
  const std::lock_guard<std::mutex> guard(lock_);
  return report_;
}

}  // namespace reference
