// One kernel of one session, and one call of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/session.h"
#include "host/ep.h"
#include "host/tensors.h"

namespace reference {

struct Tensor {
  TensorType type;
  Region region;            // on the device
  void* address = nullptr;  // as the host knows it
  std::size_t bytes = 0;
};

class Call;

struct Operator {
  const char* type;
  std::vector<int> since;                // the versions of the operator that it implements
  std::vector<const char*> constraints;  // the names of its type parameters for data
  bool any_type;                         // every type of fixed size, or float32
  void (*compute)(Call& call);
  int cpu_input = -1;     // an input in the processor's memory
  int cpu_output = -1;    // an output there
  bool in_place = false;  // output 0 may be input 0
};

class Kernel : public OrtKernelImpl {
 public:
  Kernel(const Operator& op, Ep& ep, const OrtKernelInfo& info);
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const Operator& op() const { return op_; }
  Ep& ep() const { return ep_; }
  const std::string& program() const { return program_; }
  bool passing(std::size_t output) const { return passing_[output]; }
  const std::vector<std::int64_t>& permutation() const { return permutation_; }
  bool allow_zero() const { return allow_zero_; }

 private:
  static OrtStatus* compute(OrtKernelImpl* self, OrtKernelContext* context);
  static void release(OrtKernelImpl* self);

  const Operator& op_;
  Ep& ep_;
  std::string program_;                    // node name and operator
  std::vector<bool> passing_;              // by output: it does not leave the graph
  std::vector<std::int64_t> permutation_;  // of Transpose; empty for its default
  bool allow_zero_ = false;                // of Reshape
};

class Call {
 public:
  Call(Kernel& kernel, OrtKernelContext& context) : kernel_(kernel), context_(context) {}

  Kernel& kernel() { return kernel_; }
  Session& session() { return *kernel_.ep().session(); }
  std::size_t input_count() const;
  Tensor input(std::size_t index) const;
  Tensor output(std::size_t index, const std::vector<std::int64_t>& shape);
  // Whole numbers from an input in the processor's memory.
  std::vector<std::int64_t> integers(std::size_t index) const;

  Operand written(const Tensor& tensor, std::size_t output) const;
  void record(const std::string& detail, std::vector<Operand> operands,
              std::function<void(const std::vector<Region>&)> work);

 private:
  const Host& host() const { return kernel_.ep().host(); }
  const OrtValue& input_value(std::size_t index) const;
  Tensor tensor(const OrtValue& value, bool on_device) const;

  Kernel& kernel_;
  OrtKernelContext& context_;
};

}  // namespace reference
