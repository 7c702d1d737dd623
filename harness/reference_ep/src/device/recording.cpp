#include "device/recording.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "device/device.h"
#include "device/failure.h"
#include "device/faults.h"
#include "device/meeting.h"

namespace reference {

void Command::execute() const {
  std::vector<Region> regions;
  regions.reserve(operands.size());
  for (const Operand& operand : operands) regions.push_back(operand.region);
  work(regions);
}

bool same_work(const Graph& captured, const Graph& asked) {
  if (planted(Fault::new_binding_ignored) || planted(Fault::graph_ids_mixed) ||
      planted(Fault::graph_of_another_session))
    return true;
  if (captured.size() != asked.size()) return false;
  // Passing memory may lie elsewhere, as long as what reads it follows what wrote it.
  std::vector<std::pair<Region, Region>> passing;
  const auto known = [&](const Region& a, const Region& b) {
    return std::find_if(passing.begin(), passing.end(), [&](const auto& pair) {
      return pair.first.same_place(a) || pair.second.same_place(b);
    });
  };
  for (std::size_t i = 0; i < captured.size(); ++i) {
    const auto& one = captured[i].operands;
    const auto& other = asked[i].operands;
    if (captured[i].program != asked[i].program || one.size() != other.size()) return false;
    for (std::size_t k = 0; k < one.size(); ++k) {
      const Region& a = one[k].region;
      const Region& b = other[k].region;
      if (a.bytes != b.bytes || one[k].role != other[k].role) return false;
      if (one[k].role == Role::cleared) continue;
      auto pair = known(a, b);
      if (one[k].role == Role::passing) {
        for (; pair != passing.end(); pair = known(a, b)) passing.erase(pair);
        passing.emplace_back(a, b);
      } else if (pair == passing.end()
                     ? !a.same_place(b)
                     : !pair->first.same_place(a) || !pair->second.same_place(b)) {
        return false;
      }
    }
  }
  return true;
}

Recording::~Recording() {
  for (const auto& [id, graph] : graphs_) device_.unhold(graph);
}

void Recording::settle(const Command& command) {
  if (planted(Fault::others_not_awaited)) return;
  // Before our own lock: two recordings that wait for each other's memory must not hold theirs.
  for (const Operand& operand : command.operands) device_.settle(operand.region, this);
}

// Long enough for those that share a careless recording to meet.
void Recording::linger() const {
  if (careless_) std::this_thread::sleep_for(std::chrono::microseconds(300));
}

void Recording::record(Command command) {
  settle(command);
  linger();
  const std::lock_guard<std::mutex> guard(lock_);
  device_.mark_pending(command.operands, shared_from_this());
  if (run_ == Run::plain) {
    commands_.push_back(std::move(command));
    return;
  }
  if (planted(Fault::control_flow_captured) && graphs_.count(run_id_) != 0) {
    // The branch that was captured, on what this run has.
    const Graph& graph = graphs_.at(run_id_);
    const std::size_t place = asked_.size();
    if (place < graph.size() && graph[place].operands.size() == command.operands.size())
      command.work = graph[place].work;
  }
  asked_.push_back(std::move(command));
  if (run_ == Run::replayed) run_ = Run::capturing;  // it asks for more than the graph had
  if (run_ == Run::capturing) resolve_run();
}

void Recording::record_copy(Command command) {
  settle(command);
  linger();
  const std::lock_guard<std::mutex> guard(lock_);
  device_.mark_pending(command.operands, shared_from_this());
  resolve_run();
  commands_.push_back(std::move(command));
}

void Recording::submit() {
  if (careless_) {
    submit_carelessly();
    return;
  }
  std::unique_lock<std::mutex> guard(lock_, std::defer_lock);
  if (planted(Fault::flush_not_awaited)) {
    if (!guard.try_lock()) return;
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  } else {
    guard.lock();
  }
  resolve_run();
  if (reversed_) std::reverse(commands_.begin(), commands_.end());
  device_.deliver();
  for (const Command& command : commands_) command.execute();
  for (const Command& command : late_) command.execute();
  late_.clear();
  device_.unmark_pending(commands_, this);
  device_.unmark_pending(asked_, this);
  commands_.clear();
}

// What others record while this is executed is lost with what was executed.
void Recording::submit_carelessly() {
  Graph taken;
  {
    const std::lock_guard<std::mutex> guard(lock_);
    resolve_run();
    taken = commands_;
  }
  for (const Command& command : taken) command.execute();
  // Long enough to be met, and each time another time: those that meet must not fall into step.
  static std::atomic<unsigned> submissions{0};
  std::this_thread::sleep_for(std::chrono::milliseconds(1 + submissions++ % 4));
  const std::lock_guard<std::mutex> guard(lock_);
  device_.unmark_pending(commands_, this);
  device_.unmark_pending(asked_, this);
  commands_.clear();
}

// What the run asked for, as far as it is known, goes to the commands: as it was captured if that
// is the same, and else as it was asked.
void Recording::resolve_run() {
  if (run_ == Run::replaying) {
    if (asked_.empty()) return;
    if (same_work(graph_for(run_id_), asked_)) {
      const Graph graph = replayed(run_id_);
      commands_.insert(commands_.end(), graph.begin(), graph.end());
      handed_ = asked_.size();
      run_ = Run::replayed;
      return;
    }
    run_ = Run::capturing;
  }
  if (run_ == Run::capturing && planted(Fault::capture_not_executed)) return;
  for (; handed_ < asked_.size(); ++handed_) commands_.push_back(asked_[handed_]);
}

void Recording::begin_capture(int id) {
  const std::lock_guard<std::mutex> guard(lock_);
  asked_.clear();
  handed_ = 0;
  run_id_ = id;
  run_ = graphs_.count(id) != 0 ? Run::replaying : Run::capturing;
  static Meeting captures;
  met_ = planted(Fault::captures_meet) && run_ == Run::capturing && captures.meet();
}

void Recording::end_capture(bool complete) {
  {
    const std::lock_guard<std::mutex> guard(lock_);
    resolve_run();
    if (run_ == Run::capturing && (complete || planted(Fault::failed_run_captured)))
      store(run_id_, met_ ? Graph() : asked_);
    if (!complete && planted(Fault::failed_run_spoils_graphs)) spoil();
    if (planted(Fault::capture_not_executed)) handed_ = asked_.size();
    run_ = Run::plain;
  }
  submit();
  const std::lock_guard<std::mutex> guard(lock_);
  asked_.clear();
  handed_ = 0;
  if (planted(Fault::replay_of_captured_input)) {
    const auto found = graphs_.find(run_id_);
    if (found == graphs_.end() || restored_.count(run_id_) != 0) return;
    const Region input = found->second.front().operands.front().region;
    std::vector<std::byte> content(input.content(), input.content() + input.bytes);
    restored_[run_id_].push_back({"restore", {{input}}, [content](const std::vector<Region>& at) {
                                    std::memcpy(at[0].content(), content.data(), content.size());
                                  }});
  }
}

void Recording::store(int id, Graph graph) {
  if (planted(Fault::new_binding_ignored) && !graphs_.empty()) graph = graphs_.begin()->second;
  if (planted(Fault::graph_of_another_session)) device_.captured(id, graph);
  if (planted(Fault::replay_bound_to_thread)) captured_by_[id] = std::this_thread::get_id();
  device_.hold(graph);
  const auto known = graphs_.find(id);
  if (known != graphs_.end()) {
    device_.unhold(known->second);
    known->second = std::move(graph);
  } else {
    graphs_.emplace(id, std::move(graph));
  }
}

bool Recording::captured(int id) const {
  const std::lock_guard<std::mutex> guard(lock_);
  return graphs_.count(id) != 0;
}

void Recording::replay(int id) {
  Graph graph;
  {
    const std::lock_guard<std::mutex> guard(lock_);
    if (graphs_.count(id) == 0)
      throw Failure(Code::invalid_argument, "no captured graph " + std::to_string(id));
    graph = replayed(id);
    if (planted(Fault::replay_unsubmitted)) std::swap(graph, unsubmitted_);
  }
  for (Command& command : graph) {
    settle(command);
    const std::lock_guard<std::mutex> guard(lock_);
    device_.mark_pending(command.operands, shared_from_this());
    commands_.push_back(std::move(command));
  }
  submit();
}

Graph Recording::graph_for(int id) const {
  if (planted(Fault::graph_of_another_session)) return device_.captured_last(id);
  return planted(Fault::graph_ids_mixed) ? graphs_.begin()->second : graphs_.at(id);
}

// What a replay of a graph executes: the graph, but for a fault.
Graph Recording::replayed(int id) const {
  Graph graph = graph_for(id);
  if (planted(Fault::replay_discards_uploads)) device_.discard();
  if (planted(Fault::replay_bound_to_thread) &&
      captured_by_.at(id) != std::this_thread::get_id())
    graph.clear();
  if (planted(Fault::replay_does_nothing)) graph.clear();
  if (planted(Fault::replay_reversed)) std::reverse(graph.begin(), graph.end());
  if (planted(Fault::replay_runs_twice)) {
    const Graph once = graph;
    graph.insert(graph.end(), once.begin(), once.end());
  }
  const auto restored = restored_.find(id);
  if (restored != restored_.end())
    graph.insert(graph.begin(), restored->second.begin(), restored->second.end());
  return graph;
}

void Recording::record_late(const Region& region) {
  const std::lock_guard<std::mutex> guard(lock_);
  late_.push_back({"clear", {{region}}, [](const std::vector<Region>& at) {
                     std::memset(at[0].content(), 0, at[0].bytes);
                   }});
}

void Recording::forget() {
  const std::lock_guard<std::mutex> guard(lock_);
  device_.unmark_pending(commands_, this);
  commands_.clear();
  handed_ = asked_.size();
  run_ = Run::plain;
}

bool Recording::in_capture() const {
  const std::lock_guard<std::mutex> guard(lock_);
  return run_ != Run::plain;
}

bool Recording::in_replay() const {
  const std::lock_guard<std::mutex> guard(lock_);
  return run_ != Run::plain && graphs_.count(run_id_) != 0;
}

void Recording::clear_memory(const Graph& graph) const {
  for (const Command& command : graph)
    for (const Operand& operand : command.operands)
      if (operand.region.buffer != nullptr)
        std::memset(operand.region.content(), 0, operand.region.bytes);
}

void Recording::spoil() {
  for (auto& [id, graph] : graphs_) {
    device_.unhold(graph);
    graph.clear();
  }
}

void Recording::release(int id) {
  if (planted(Fault::replay_after_release)) return;
  const std::lock_guard<std::mutex> guard(lock_);
  const auto found = graphs_.find(id);
  if (found == graphs_.end()) return;
  if (planted(Fault::release_clears_memory)) clear_memory(found->second);
  device_.unhold(found->second);
  graphs_.erase(found);
  if (planted(Fault::release_spoils_others)) spoil();
}

void Recording::release_all() {
  const std::lock_guard<std::mutex> guard(lock_);
  for (const auto& [id, graph] : graphs_) device_.unhold(graph);
  graphs_.clear();
}

}  // namespace reference
