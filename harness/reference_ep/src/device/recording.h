// Commands that were asked for and not executed yet, and captured graphs of them.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/buffer.h"

namespace reference {

class Device;

// What a command's memory is to the run that asks for it.
enum class Role {
  fixed,    // it outlives the run, or it was written earlier in the run: an input, a graph output
  passing,  // written here for the rest of the run: an intermediate or scratch buffer
  cleared,  // an allocation, whatever it will be used for
};

struct Operand {
  Region region;
  Role role = Role::fixed;
};

// One unit of work. It finds its memory when it is executed, by the regions it was given.
struct Command {
  // What it computes, without where: two commands of equal program differ in operands alone.
  std::string program;
  std::vector<Operand> operands;
  std::function<void(const std::vector<Region>&)> work;

  void execute() const;
};

using Graph = std::vector<Command>;

// Whether a run asked for just what a graph does, with the same memory outside of the run.
bool same_work(const Graph& captured, const Graph& asked);

// A queue of commands that are executed at the next submission, in the order of their recording.
// Everything is safe to call from several threads; a submission excludes only this recording.
class Recording : public std::enable_shared_from_this<Recording> {
 public:
  explicit Recording(Device& device) : device_(device) {}
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // A kernel, or the clear of an allocation: what a graph is made of. Commands of other
  // recordings that touch the same memory are submitted first.
  void record(Command command);

  // A copy. It is never captured: each run brings its own.
  void record_copy(Command command);

  // Returns when everything recorded so far was executed.
  void submit();

  // Between these, commands are captured as a graph of that id. If there is one already, the
  // graph is executed instead of what the run asks for, provided that is the same work.
  void begin_capture(int id);
  // Keeps the graph if the run was complete, and submits.
  void end_capture(bool complete);

  // For faults alone: a clear that is executed after everything else; every submission from now
  // on in reverse order; a new start that forgets what was recorded; a submission that loses what
  // others record meanwhile.
  void record_late(const Region& region);
  void submit_reversed() { reversed_ = true; }
  void forget();
  void submit_carelessly();
  // Whether a run is captured or replayed now; whether there was a graph of its id before it.
  bool in_capture() const;
  bool in_replay() const;
  // From now on it is submitted so.
  void be_careless() { careless_ = true; }

  bool captured(int id) const;
  // Executes a graph now. Throws Failure if there is none of that id.
  void replay(int id);
  // Forgets a graph; its buffers may be reused. Nothing happens if there is none of that id.
  void release(int id);
  void release_all();

 private:
  enum class Run { plain, capturing, replaying, replayed };

  void settle(const Command& command);
  void linger() const;
  void resolve_run();
  Graph graph_for(int id) const;
  Graph replayed(int id) const;
  void store(int id, Graph graph);
  // For faults alone: makes every graph one that does nothing; clears what a graph works on.
  void spoil();
  void clear_memory(const Graph& graph) const;

  Device& device_;
  mutable std::mutex lock_;
  Graph commands_;
  std::map<int, Graph> graphs_;
  Run run_ = Run::plain;
  int run_id_ = 0;
  bool reversed_ = false;
  Graph late_;
  Graph unsubmitted_;
  std::map<int, std::thread::id> captured_by_;
  std::map<int, Graph> restored_;  // by graph: what puts the input of its capture back
  Graph asked_;                    // by the run since begin_capture
  std::size_t handed_ = 0;         // of those, so many are in commands_
  // For faults alone.
  std::atomic<bool> careless_{false};
  bool met_ = false;  // another capture, when this one began
};

}  // namespace reference
