// One session's EP: what it takes, and when its recording is submitted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "device/session.h"
#include "host/kernels.h"
#include "host/options.h"
#include "host/ort.h"

namespace reference {

// What the EPs of one factory have in common.
struct Shared {
  Host host;
  std::string ep_name;
  const OrtMemoryInfo* memory = nullptr;
  std::shared_ptr<Device> device;
};

class Ep : public OrtEp {
 public:
  // Throws Failure for bad options.
  Ep(const Shared& shared, const OrtSessionOptions& session_options);
  ~Ep();
  Ep(const Ep&) = delete;
  Ep& operator=(const Ep&) = delete;

  const Host& host() const { return shared_.host; }
  const std::string& name() const { return shared_.ep_name; }
  const std::shared_ptr<Session>& session() const { return session_; }

  // For kernels: whether a value of that name leaves the graph, and what a run executed.
  bool is_graph_output(const std::string& name) const { return graph_outputs_.count(name) != 0; }
  void kernel_created();
  void kernel_ran() { kernels_run_ += 1; }
  // For a fault: a run that executed nothing has spoiled all later ones.
  bool spoiled() const { return spoiled_; }
  // Throws Failure if the session asked for graph capture and has what cannot be captured. An error
  // of GetCapability would only give all nodes to the processor.
  void check_capture() const;
  // A run is being captured, so that nothing may pass through the host.
  bool capturing() const { return capturing_; }
  // For a fault: the thread that made it.
  std::uint64_t made_by() const { return made_by_; }

 private:
  static const char* get_name(const OrtEp* self);
  static OrtStatus* get_capability(OrtEp* self, const OrtGraph* graph,
                                   OrtEpGraphSupportInfo* support);
  static OrtStatus* on_run_start(OrtEp* self, const OrtRunOptions* options);
  static OrtStatus* on_run_end(OrtEp* self, const OrtRunOptions* options, bool synchronize);
  static OrtStatus* create_allocator(OrtEp* self, const OrtMemoryInfo* memory,
                                     OrtAllocator** allocator);
  static OrtStatus* create_sync_stream(OrtEp* self, const OrtMemoryDevice* device,
                                       OrtSyncStreamImpl** stream);
  static OrtStatus* get_kernel_registry(OrtEp* self, const OrtKernelRegistry** registry);
  static OrtStatus* is_concurrent_run_supported(OrtEp* self, bool* supported);
  static OrtStatus* sync(OrtEp* self);
  static bool is_graph_capture_enabled(const OrtEp* self);
  static bool is_graph_captured(const OrtEp* self, int graph_id);
  static OrtStatus* replay_graph(OrtEp* self, int graph_id);
  static int get_capture_policy(const OrtEp* self);
  static OrtStatus* on_session_initialization_end(OrtEp* self);
  static OrtStatus* release_captured_graph(OrtEp* self, int graph_id);

  void claim(const OrtGraph& graph, OrtEpGraphSupportInfo& support);
  bool can_do(const OrtNode& node, const std::string& type) const;
  bool declined_by_fault(const std::string& type) const;
  void note_outputs(const OrtGraph& graph);
  void refuse_for_capture(const std::string& what);
  void start_run(const OrtRunOptions* options);
  void end_run();
  void end_creation();
  Contract& contract() const { return session_->device().contract(); }

  Shared shared_;
  Options options_;
  std::shared_ptr<Session> session_;
  KernelRegistry registry_;
  std::set<std::string> graph_outputs_;
  std::string not_captured_;
  std::optional<Contract::Ticket> creation_;
  std::optional<Contract::Ticket> run_;
  int kernels_ = 0;
  int kernels_run_ = 0;
  bool capturing_ = false;
  bool spoiled_ = false;
  std::uint64_t made_by_;
};

}  // namespace reference
