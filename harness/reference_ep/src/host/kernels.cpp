#include "host/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "device/faults.h"
#include "host/kernel.h"

namespace reference {

namespace {

using Shape = std::vector<std::int64_t>;

std::string described(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) text += std::to_string(extent) + " ";
  return text + "]";
}

float* floats(const Region& region) { return reinterpret_cast<float*>(region.content()); }

// ---- element by element

template <typename Function>
void unary(Call& call, Function function) {
  const Tensor x = call.input(0);
  const Tensor y = call.output(0, x.type.shape);
  if (x.bytes == 0) return;
  call.record(described(x.type.shape), {{x.region}, call.written(y, 0)},
              [function](const std::vector<Region>& at) {
                const std::size_t count = at[1].bytes / sizeof(float);
                for (std::size_t i = 0; i < count; ++i)
                  floats(at[1])[i] = function(floats(at[0])[i]);
              });
}

void negate(Call& call) {
  unary(call, [](float x) { return -x; });
}

void absolute(Call& call) {
  unary(call, [](float x) { return std::fabs(x); });
}

// The shape that two shapes have together by ONNX's rules. Throws Failure if they don't fit.
Shape broadcast(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  Shape shape(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t x = i < rank - a.size() ? 1 : a[i - (rank - a.size())];
    const std::int64_t y = i < rank - b.size() ? 1 : b[i - (rank - b.size())];
    if (x != y && x != 1 && y != 1)
      throw Failure(Code::invalid_argument, described(a) + " and " + described(b) + " do not fit");
    shape[i] = x == 1 ? y : x;
  }
  return shape;
}

// For every element of a result, the element of an operand that is stretched to it.
std::vector<std::size_t> stretched(const Shape& operand, const Shape& result) {
  std::size_t count = 1;
  for (const std::int64_t extent : result) count *= static_cast<std::size_t>(extent);
  std::vector<std::size_t> steps(result.size(), 0);
  std::size_t step = 1;
  for (std::size_t i = operand.size(); i-- > 0;) {
    const std::size_t at = i + (result.size() - operand.size());
    if (operand[i] != 1) steps[at] = step;
    step *= static_cast<std::size_t>(operand[i]);
  }
  std::vector<std::size_t> from(count);
  for (std::size_t element = 0; element < count; ++element) {
    std::size_t rest = element;
    for (std::size_t i = result.size(); i-- > 0;) {
      const auto extent = static_cast<std::size_t>(result[i]);
      from[element] += rest % extent * steps[i];
      rest /= extent;
    }
  }
  return from;
}

template <typename Function>
void binary(Call& call, Function function) {
  const Tensor a = call.input(0);
  const Tensor b = call.input(1);
  const Shape shape = broadcast(a.type.shape, b.type.shape);
  const Tensor y = call.output(0, shape);
  if (y.bytes == 0) return;
  call.record(described(a.type.shape) + described(b.type.shape),
              {{a.region}, {b.region}, call.written(y, 0)},
              [function, from_a = stretched(a.type.shape, shape),
               from_b = stretched(b.type.shape, shape)](const std::vector<Region>& at) {
                for (std::size_t i = 0; i < from_a.size(); ++i)
                  floats(at[2])[i] = function(floats(at[0])[from_a[i]], floats(at[1])[from_b[i]]);
              });
}

void add(Call& call) {
  binary(call, [](float a, float b) { return a + b; });
}

void subtract(Call& call) {
  binary(call, [](float a, float b) { return a - b; });
}

void multiply(Call& call) {
  binary(call, [](float a, float b) { return a * b; });
}

// ---- Min, in the way of a device that takes a bounded number of operands a step: each half of
// the inputs is folded into a scratch buffer of its own, then the halves are joined. A scratch
// buffer holds the least so far and, behind it, a mark for each element that its half has seen; the
// marks rely on new memory being cleared.

float least(float a, float b) { return std::isnan(a) || a < b ? a : b; }

void fold(Call& call, const Tensor& input, const Region& scratch, float mark, const Shape& shape) {
  call.record("fold " + described(input.type.shape) + described(shape),
              {{input.region}, {scratch, Role::passing}},
              [mark, from = stretched(input.type.shape, shape)](const std::vector<Region>& at) {
                float* kept = floats(at[1]);
                float* seen = kept + from.size();
                for (std::size_t i = 0; i < from.size(); ++i) {
                  const float x = floats(at[0])[from[i]];
                  kept[i] = seen[i] == mark ? least(x, kept[i]) : x;
                  seen[i] = mark;
                }
              });
}

void minimum(Call& call) {
  std::vector<Tensor> inputs;
  Shape shape;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    inputs.push_back(call.input(i));
    shape = broadcast(shape, inputs.back().type.shape);
  }
  const Tensor y = call.output(0, shape);
  if (y.bytes == 0) return;
  Session& session = call.session();
  Region halves[2] = {session.allocate(2 * y.bytes), {}};
  if (planted(Fault::scratch_freed_early)) session.free(halves[0]);
  halves[1] = session.allocate(2 * y.bytes);
  if (halves[0].buffer == nullptr || halves[1].buffer == nullptr)
    throw Failure(Code::fail, "no device memory for scratch buffers");
  const std::size_t middle = (inputs.size() + 1) / 2;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    fold(call, inputs[i], halves[i < middle ? 0 : 1], i < middle ? 1.0F : 2.0F, shape);
  call.record("join " + described(shape), {{halves[0]}, {halves[1]}, call.written(y, 0)},
              [](const std::vector<Region>& at) {
                const std::size_t count = at[2].bytes / sizeof(float);
                const float* one = floats(at[0]);
                const float* other = floats(at[1]);
                for (std::size_t i = 0; i < count; ++i)
                  floats(at[2])[i] = other[count + i] == 2.0F ? least(one[i], other[i]) : one[i];
              });
  // The recording still needs them; the pool keeps them for it until then.
  session.free(halves[1]);
  if (!planted(Fault::scratch_freed_early)) session.free(halves[0]);
}

// ---- moving elements

void move(Call& call, const Tensor& x, const Tensor& y) {
  if (x.bytes == 0 || x.address == y.address) return;  // ORT may give input and output one place
  if (planted(Fault::moves_at_once)) {
    std::memcpy(y.region.content(), x.region.content(), y.bytes);
    return;
  }
  call.record(described(x.type.shape), {{x.region}, call.written(y, 0)},
              [](const std::vector<Region>& at) {
                std::memcpy(at[1].content(), at[0].content(), at[1].bytes);
              });
}

void identity(Call& call) {
  const Tensor x = call.input(0);
  move(call, x, call.output(0, x.type.shape));
}

// The EP takes only those that sum over nothing.
void reduce_sum(Call& call) { identity(call); }

void reshape(Call& call) {
  const Tensor x = call.input(0);
  Shape shape = call.integers(1);
  std::size_t known = 1;
  std::int64_t* open = nullptr;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !call.kernel().allow_zero() && i < x.type.shape.size())
      shape[i] = x.type.shape[i];
    if (shape[i] == -1)
      open = &shape[i];
    else
      known *= static_cast<std::size_t>(shape[i]);
  }
  if (open != nullptr)
    *open = known == 0 ? 0 : static_cast<std::int64_t>(x.type.elements() / known);
  move(call, x, call.output(0, shape));
}

void transpose(Call& call) {
  const Tensor x = call.input(0);
  const Shape& in = x.type.shape;
  Shape permutation = call.kernel().permutation();
  if (permutation.empty())
    for (std::size_t i = in.size(); i-- > 0;) permutation.push_back(static_cast<std::int64_t>(i));
  Shape out;
  std::vector<std::size_t> steps;
  for (const std::int64_t axis : permutation) {
    out.push_back(in[static_cast<std::size_t>(axis)]);
    std::size_t step = 1;
    for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < in.size(); ++i)
      step *= static_cast<std::size_t>(in[i]);
    steps.push_back(step);
  }
  const Tensor y = call.output(0, out);
  if (in.size() < 2) return move(call, x, y);
  if (x.bytes == 0) return;
  call.record(described(in) + described(permutation), {{x.region}, call.written(y, 0)},
              [out, steps, size = size_of(x.type.element_type)](const std::vector<Region>& at) {
                for (std::size_t element = 0; element < at[1].bytes / size; ++element) {
                  std::size_t rest = element;
                  std::size_t from = 0;
                  for (std::size_t i = out.size(); i-- > 0;) {
                    const auto extent = static_cast<std::size_t>(out[i]);
                    from += rest % extent * steps[i];
                    rest /= extent;
                  }
                  std::memcpy(at[1].content() + element * size, at[0].content() + from * size,
                              size);
                }
              });
}

// ---- between the device and another EP, where ORT puts them

void refuse_capture(Call& call) {
  if (planted(Fault::cpu_node_captured)) return;
  if (call.kernel().ep().capturing())
    throw Failure(Code::not_implemented, "graph capture cannot capture a copy through the host");
}

void from_host(Call& call) {
  refuse_capture(call);
  const Tensor x = call.input(0);
  const Tensor y = call.output(0, x.type.shape);
  if (planted(Fault::cpu_node_captured) && call.session().recording().in_replay()) return;
  if (x.bytes != 0) call.session().upload(y.region, x.address);
}

void to_host(Call& call) {
  refuse_capture(call);
  const Tensor x = call.input(0);
  const Tensor y = call.output(0, x.type.shape);
  if (x.bytes != 0) call.session().download(y.address, x.region);
}

// ---- registration

const std::vector<Operator>& operators() {
  static const std::vector<Operator> all = [] {
    std::vector<Operator> list{
        {"Neg", {6, 13}, {"T"}, false, negate},
        {"Abs", {6, 13}, {"T"}, false, absolute},
        {"Add", {7, 13, 14}, {"T"}, false, add},
        {"Sub", {7, 13, 14}, {"T"}, false, subtract},
        {"Mul", {7, 13, 14}, {"T"}, false, multiply},
        {"Min", {8, 12, 13}, {"T"}, false, minimum},
        {"Identity", {1, 13}, {"T"}, true, identity},
        {"Identity", {14, 16, 19, 21, 23, 24, 25}, {"V"}, true, identity},
        {"Reshape", {5, 13, 14, 19, 21, 23, 24, 25}, {"T"}, true, reshape},
        {"Transpose", {1, 13, 21, 23, 24, 25}, {"T"}, true, transpose},
        {"ReduceSum", {13}, {"T"}, false, reduce_sum},
        {"MemcpyFromHost", {1}, {"T"}, true, from_host},
        {"MemcpyToHost", {1}, {"T"}, true, to_host},
    };
    for (Operator& op : list) {
      const std::string type = op.type;
      if (type == "Identity" || type == "Reshape") op.in_place = true;
      if (type == "Reshape") op.cpu_input = 1;
      if (type == "MemcpyFromHost") op.cpu_input = 0;
      if (type == "MemcpyToHost") op.cpu_output = 0;
    }
    return list;
  }();
  return all;
}

void check_and_release(const Host& host, OrtStatus* status, OrtKernelDefBuilder* builder) {
  if (status != nullptr) host.ep_api->ReleaseKernelDefBuilder(builder);
  host.check(status);
}

std::vector<const OrtDataType*> data_types(const Host& host, bool any) {
  std::vector<const OrtDataType*> types;
  for (const int element_type : any ? fixed_size_types() : std::vector<int>{element_float32}) {
    const OrtDataType* type = nullptr;
    host.check(host.ep_api->GetTensorDataType(element_type, &type));
    types.push_back(type);
  }
  return types;
}

OrtKernelDef* define(const Host& host, const std::string& ep_name, const Operator& op, int since) {
  const OrtEpApi& api = *host.ep_api;
  OrtKernelDefBuilder* builder = nullptr;
  host.check(api.CreateKernelDefBuilder(&builder));
  const auto step = [&](OrtStatus* status) { check_and_release(host, status, builder); };
  step(api.KernelDefBuilder_SetOperatorType(builder, op.type));
  step(api.KernelDefBuilder_SetDomain(builder, ""));
  step(api.KernelDefBuilder_SetSinceVersion(builder, since, since));
  step(api.KernelDefBuilder_SetExecutionProvider(builder, ep_name.c_str()));
  const std::vector<const OrtDataType*> types = data_types(host, op.any_type);
  for (const char* constraint : op.constraints)
    step(api.KernelDefBuilder_AddTypeConstraint(builder, constraint, types.data(), types.size()));
  if (op.cpu_input >= 0)
    step(api.KernelDefBuilder_SetInputMemType(builder, static_cast<std::size_t>(op.cpu_input),
                                              mem_type_cpu_input));
  if (op.cpu_output >= 0)
    step(api.KernelDefBuilder_SetOutputMemType(builder, static_cast<std::size_t>(op.cpu_output),
                                               mem_type_cpu_output));
  const int first = 0;
  if (op.in_place) step(api.KernelDefBuilder_AddInputOutputAliases(builder, &first, &first, 1));
  OrtKernelDef* definition = nullptr;
  step(api.KernelDefBuilder_Build(builder, &definition));
  api.ReleaseKernelDefBuilder(builder);
  return definition;
}

}  // namespace

struct KernelRegistry::Creator {
  const Host* host;
  const Operator* op;

  static OrtStatus* create(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) {
    const auto& creator = *static_cast<const Creator*>(state);
    return creator.host->guarded([&] {
      const OrtEp* ep = nullptr;
      creator.host->check(creator.host->ep_api->KernelInfo_GetEp(info, &ep));
      // The host hands out what this plugin gave it, to read; a kernel changes its own EP.
      auto& own = static_cast<Ep&>(*const_cast<OrtEp*>(ep));
      own.check_capture();
      *kernel = std::make_unique<Kernel>(*creator.op, own, *info).release();
    });
  }
};

KernelRegistry::KernelRegistry(const Host& host, const std::string& ep_name) : host_(host) {
  host_.check(host_.ep_api->CreateKernelRegistry(&registry_));
  for (const Operator& op : operators()) {
    creators_.push_back(std::make_unique<Creator>(Creator{&host_, &op}));
    for (const int since : op.since) {
      OrtKernelDef* definition = define(host_, ep_name, op, since);
      OrtStatus* status = host_.ep_api->KernelRegistry_AddKernel(
          registry_, definition, Creator::create, creators_.back().get());
      host_.ep_api->ReleaseKernelDef(definition);
      host_.check(status);
    }
  }
}

KernelRegistry::~KernelRegistry() { host_.ep_api->ReleaseKernelRegistry(registry_); }

}  // namespace reference
