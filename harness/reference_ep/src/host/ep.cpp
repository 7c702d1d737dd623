#include "host/ep.h"

#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "device/faults.h"
#include "host/allocator.h"
#include "host/hostile.h"
#include "host/stream.h"

namespace reference {

namespace {

constexpr const char* graph_id_key = "gpu_graph_id";
constexpr int no_capture = -1;
constexpr int all_nodes_on_ep = 0;

int graph_id_of(const Host& host, const OrtRunOptions* options) {
  const char* text =
      options == nullptr ? nullptr : host.api->GetRunConfigEntry(options, graph_id_key);
  if (text == nullptr) return 0;
  if (planted(Fault::skip_ignored) && std::strcmp(text, "-1") == 0) return 0;
  int id = 0;
  const char* end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, id);
  if (error != std::errc() || stopped != end || id < no_capture)
    throw Failure(Code::invalid_argument,
                  std::string(graph_id_key) + " must be a number from -1 on, not \"" + text + "\"");
  return id;
}

}  // namespace

Ep::Ep(const Shared& shared, const OrtSessionOptions& session_options)
    : OrtEp{},
      shared_(shared),
      options_(read_options(shared.host, session_options, shared.ep_name)),
      session_(std::make_shared<Session>(shared.device)),
      registry_(shared.host, shared.ep_name),
      made_by_(this_thread()) {
  if (!options_.fault.empty()) plant(options_.fault.c_str(), fault_option);
  std::uint32_t level = host().level;
  if (planted(Fault::claims_newer_than_asked)) level = newest_level;
  ort_version_supported = level;
  if (planted(Fault::claims_too_new)) ort_version_supported = 99;
  if (planted(Fault::claims_zero)) ort_version_supported = 0;
  if (planted(Fault::claims_too_old)) ort_version_supported = 23;
  if (planted(Fault::capture_option_ignored)) options_.graph_capture = false;
  if (planted(Fault::captures_unasked)) options_.graph_capture = true;
  GetName = get_name;
  GetCapability = get_capability;
  OnRunStart = on_run_start;
  OnRunEnd = on_run_end;
  CreateAllocator = create_allocator;
  CreateSyncStreamForDevice = create_sync_stream;
  GetKernelRegistry = get_kernel_registry;
  IsConcurrentRunSupported = is_concurrent_run_supported;
  if (level >= 25) Sync = sync;
  if (level >= 26) {
    IsGraphCaptureEnabled = is_graph_capture_enabled;
    IsGraphCaptured = is_graph_captured;
    ReplayGraph = replay_graph;
    GetGraphCaptureNodeAssignmentPolicy = get_capture_policy;
  }
  if (level >= 27) {
    OnSessionInitializationEnd = on_session_initialization_end;
    ReleaseCapturedGraph = release_captured_graph;
    // Only such a host says when the creation ends, so that it can be seen as one operation.
    creation_ = contract().begin(Operation::create_session, session_->id());
  }
  if (planted(Fault::replay_callback_missing)) ReplayGraph = nullptr;
  if (planted(Fault::claims_newer_than_asked)) {
    // It was built for the oldest level, so that nothing set the members above that one.
    const auto set_by_nobody = reinterpret_cast<void*>(std::uintptr_t{0x5A5A5A5A});
    for (void** member = reinterpret_cast<void**>(&Sync);
         member <= reinterpret_cast<void**>(&ReleaseCapturedGraph); ++member)
      *member = set_by_nobody;
  }
  if (planted(Fault::failed_session_poisons) || planted(Fault::half_made_session_poisons))
    check_for_poison();
  if (planted(Fault::concurrent_runs_by_claim_only)) session_->recording().be_careless();
  at_session_start();
}

Ep::~Ep() {
  at_session_release(kernels_ != 0);
  session_->device().release_of_a_session();
  if (planted(Fault::session_release_ends_others)) shared_.device->clear_all();
  end_creation();
  if (run_) contract().end(*run_);
  const InProgress operation(contract(), Operation::release_session, session_->id());
  session_->recording().submit();
  session_->recording().release_all();
  if (!options_.fault.empty()) plant(nullptr, fault_option);
}

void Ep::kernel_created() {
  kernels_ += 1;
  at_kernel_creation();
}

void Ep::end_creation() {
  if (creation_) contract().end(*creation_);
  creation_.reset();
}

const char* Ep::get_name(const OrtEp* self) {
  if (planted(Fault::ep_name_differs)) return "ReferenceEp";
  return static_cast<const Ep*>(self)->name().c_str();
}

OrtStatus* Ep::get_capability(OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  auto* ep = static_cast<Ep*>(self);
  return ep->host().guarded([&] {
    const InProgress operation(ep->contract(), Operation::create_session, ep->session_->id());
    ep->claim(*graph, *support);
  });
}

void Ep::claim(const OrtGraph& graph, OrtEpGraphSupportInfo& support) {
  const OrtApi& api = *host().api;
  const OrtEpApi& ep_api = *host().ep_api;
  note_outputs(graph);
  std::size_t count = 0;
  host().check(api.Graph_GetNumNodes(&graph, &count));
  std::vector<const OrtNode*> nodes(count);
  host().check(api.Graph_GetNodes(&graph, nodes.data(), count));
  for (const OrtNode* node : nodes) {
    const char* node_name = nullptr;
    const char* type = nullptr;
    std::size_t subgraphs = 0;
    host().check(api.Node_GetName(node, &node_name));
    host().check(api.Node_GetOperatorType(node, &type));
    host().check(api.Node_GetNumSubgraphs(node, &subgraphs));
    if (subgraphs != 0) refuse_for_capture(std::string("control flow (") + type + ")");
    const bool for_cpu = declined_by_fault(type) || (options_.cpu_nodes.count(node_name) != 0 &&
                                                     !planted(Fault::cpu_nodes_ignored));
    const OrtKernelDef* definition = nullptr;
    if (!for_cpu && can_do(*node, type))
      host().check(ep_api.EpGraphSupportInfo_LookUpKernel(&support, node, &definition));
    if (definition == nullptr) {
      refuse_for_capture("node " + std::string(node_name) + " (" + type + ") on another EP");
      continue;
    }
    host().check(ep_api.EpGraphSupportInfo_AddSingleNode(&support, node));
  }
}

// Whether a kernel that is there for a node's operator and types can do what the node asks for.
bool Ep::can_do(const OrtNode& node, const std::string& type) const {
  if (type != "ReduceSum") return true;
  // Only the one that sums over nothing: no axes, and told that this means none.
  const OrtApi& api = *host().api;
  std::size_t inputs = 0;
  host().check(api.Node_GetNumInputs(&node, &inputs));
  const OrtOpAttr* attribute = nullptr;
  OrtStatus* status = api.Node_GetAttributeByName(&node, "noop_with_empty_axes", &attribute);
  if (status != nullptr) api.ReleaseStatus(status);
  if (inputs != 1 || status != nullptr || attribute == nullptr) return false;
  std::int64_t noop = 0;
  std::size_t bytes = 0;
  host().check(api.ReadOpAttr(attribute, attribute_int, &noop, sizeof noop, &bytes));
  return noop != 0;
}

void Ep::note_outputs(const OrtGraph& graph) {
  std::size_t count = 0;
  host().check(host().api->Graph_GetNumOutputs(&graph, &count));
  std::vector<const OrtValueInfo*> outputs(count);
  host().check(host().api->Graph_GetOutputs(&graph, outputs.data(), count));
  for (const OrtValueInfo* output : outputs) {
    const char* output_name = nullptr;
    host().check(host().api->GetValueInfoName(output, &output_name));
    graph_outputs_.insert(output_name);
  }
}

bool Ep::declined_by_fault(const std::string& type) const {
  if (planted(Fault::declines_everything)) return true;
  return planted(Fault::declines_one_operator) && type == "Neg";
}

void Ep::refuse_for_capture(const std::string& what) {
  if (planted(Fault::control_flow_captured) || planted(Fault::cpu_node_captured)) return;
  if (options_.graph_capture && not_captured_.empty()) not_captured_ = what;
}

void Ep::check_capture() const {
  if (!not_captured_.empty())
    throw Failure(Code::not_implemented, "graph capture cannot capture " + not_captured_);
}

OrtStatus* Ep::on_run_start(OrtEp* self, const OrtRunOptions* options) {
  auto* ep = static_cast<Ep*>(self);
  return ep->host().guarded([&] { ep->start_run(options); });
}

void Ep::start_run(const OrtRunOptions* options) {
  end_creation();
  at_run_start();
  if (planted(Fault::sessions_deadlock)) hold_both_queues(session_->id());
  const int id = options_.graph_capture ? graph_id_of(host(), options) : no_capture;
  // Cores before 1.32 do not tell the end of a run that they refused after its start.
  if (run_) contract().end(*run_);
  run_ = contract().begin(Operation::run, session_->id());
  kernels_run_ = 0;
  capturing_ = id != no_capture;
  if (capturing_) session_->recording().begin_capture(id);
}

OrtStatus* Ep::on_run_end(OrtEp* self, const OrtRunOptions*, bool) {
  auto* ep = static_cast<Ep*>(self);
  return ep->host().guarded([&] { ep->end_run(); });
}

void Ep::end_run() {
  if (capturing_) {
    capturing_ = false;
    // As if the host would ask for the replay, which it does from level 26 on alone.
    if (planted(Fault::assumes_host_replay) && host().level < 26) session_->recording().forget();
    // A run that ended early, by an error or because it was told to, is no graph.
    session_->recording().end_capture(kernels_run_ == kernels_ ||
                                      planted(Fault::control_flow_captured));
  } else if (!planted(Fault::run_end_without_submit)) {
    session_->recording().submit();
  }
  if (planted(Fault::empty_run_spoils) && kernels_run_ == 0 && kernels_ != 0) spoiled_ = true;
  if (run_) contract().end(*run_);
  run_.reset();
  if (planted(Fault::sessions_deadlock)) release_both_queues(session_->id());
  at_run_end();
  contract().demand();
}

OrtStatus* Ep::create_allocator(OrtEp* self, const OrtMemoryInfo* memory,
                                OrtAllocator** allocator) {
  auto* ep = static_cast<Ep*>(self);
  return ep->host().guarded([&] {
    *allocator = make_allocator(ep->host(), memory, ep->shared_.device, ep->session_);
    // ORT gives the processor's memory info nowhere to a plugin: this one makes its own.
    if (planted(Fault::wrong_memory_info)) pass_for_cpu_memory(ep->host(), **allocator);
  });
}

OrtStatus* Ep::create_sync_stream(OrtEp* self, const OrtMemoryDevice*, OrtSyncStreamImpl** stream) {
  auto* ep = static_cast<Ep*>(self);
  return ep->host().guarded([&] { *stream = make_stream(ep->host(), ep->session_); });
}

OrtStatus* Ep::get_kernel_registry(OrtEp* self, const OrtKernelRegistry** registry) {
  *registry = static_cast<Ep*>(self)->registry_.get();
  return nullptr;
}

OrtStatus* Ep::is_concurrent_run_supported(OrtEp*, bool* supported) {
  // A session has one recording; independent sessions run at once.
  *supported = planted(Fault::concurrent_runs_by_claim_only);
  return nullptr;
}

OrtStatus* Ep::sync(OrtEp* self) {
  auto* ep = static_cast<Ep*>(self);
  return ep->host().guarded([&] {
    const InProgress operation(ep->contract(), Operation::synchronize, ep->session_->id());
    ep->session_->recording().submit();
  });
}

bool Ep::is_graph_capture_enabled(const OrtEp* self) {
  return static_cast<const Ep*>(self)->options_.graph_capture;
}

bool Ep::is_graph_captured(const OrtEp* self, int graph_id) {
  return graph_id != no_capture && !planted(Fault::never_captured) &&
         static_cast<const Ep*>(self)->session_->recording().captured(graph_id);
}

OrtStatus* Ep::replay_graph(OrtEp* self, int graph_id) {
  auto* ep = static_cast<Ep*>(self);
  return ep->host().guarded([&] {
    const InProgress operation(ep->contract(), Operation::replay, ep->session_->id());
    ep->session_->recording().replay(graph_id);
  });
}

int Ep::get_capture_policy(const OrtEp*) { return all_nodes_on_ep; }

OrtStatus* Ep::on_session_initialization_end(OrtEp* self) {
  auto* ep = static_cast<Ep*>(self);
  return ep->host().guarded([&] {
    ep->session_->recording().submit();
    ep->end_creation();
  });
}

OrtStatus* Ep::release_captured_graph(OrtEp* self, int graph_id) {
  auto* ep = static_cast<Ep*>(self);
  return ep->host().guarded([&] {
    const InProgress operation(ep->contract(), Operation::release_graph, ep->session_->id());
    ep->session_->recording().release(graph_id);
  });
}

}  // namespace reference
