// Counts what the contract of serialized mode forbids: two operations on the device at one time.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace reference {

enum class Operation {
  create_session,
  release_session,
  run,
  replay,
  release_graph,
  allocate,
  free,
  copy,
  stream,
  synchronize,
};

const char* name_of(Operation operation);

// An operation in progress. What the same thread does within it is a part of it.
struct OperationInProgress {
  Operation operation;
  std::thread::id thread;
  std::uint64_t session;  // 0 for the environment
};

struct ContractReport {
  bool checked = false;
  std::uint64_t operations = 0;
  std::uint64_t overlaps = 0;
  std::map<std::string, std::uint64_t> by_kind;  // "run during create-session"
  std::string first;                             // who overlapped whom, with sessions
};

// It observes and never makes an operation wait for another. Without `check(true)` it keeps
// nothing and takes no lock, so that it is in nobody's way in concurrent mode.
class Contract {
 public:
  using Ticket = std::list<OperationInProgress>::iterator;

  void check(bool on);
  // An operation begins; it may end in another call, on another thread.
  Ticket begin(Operation operation, std::uint64_t session);
  void end(Ticket ticket);
  ContractReport report() const;
  // Throws Failure if an overlap was counted that nobody was told of yet.
  void demand();

 private:
  mutable std::mutex lock_;
  std::atomic<bool> on_{false};
  std::list<OperationInProgress> in_progress_;
  ContractReport report_;
  std::string untold_;
};

// An operation that lasts as long as this does.
class InProgress {
 public:
  InProgress(Contract& contract, Operation operation, std::uint64_t session)
      : contract_(contract), ticket_(contract.begin(operation, session)) {}
  ~InProgress() { contract_.end(ticket_); }
  InProgress(const InProgress&) = delete;
  InProgress& operator=(const InProgress&) = delete;

 private:
  Contract& contract_;
  Contract::Ticket ticket_;
};

}  // namespace reference
