// The kernels, and their registration through the EP ABI.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "host/ort.h"

namespace reference {

// All kernels of this plugin, registered for one EP name.
class KernelRegistry {
 public:
  KernelRegistry(const Host& host, const std::string& ep_name);
  ~KernelRegistry();
  KernelRegistry(const KernelRegistry&) = delete;
  KernelRegistry& operator=(const KernelRegistry&) = delete;

  const OrtKernelRegistry* get() const { return registry_; }

 private:
  struct Creator;  // what ORT hands to the function that creates a kernel

  Host host_;
  OrtKernelRegistry* registry_ = nullptr;
  std::vector<std::unique_ptr<Creator>> creators_;
};

}  // namespace reference
