// What a kernel or a copy needs to know of an OrtValue.
#pragma once

#include <cstdint>
#include <vector>

#include "host/ort.h"

namespace reference {

struct TensorType {
  std::vector<std::int64_t> shape;
  int element_type = 0;

  std::size_t elements() const;
};

TensorType type_of(const Host& host, const OrtValue& value);
std::size_t bytes_of(const Host& host, const OrtValue& value);
// Where it lies: a processor's address, or one of the simulated device.
void* address_of(const Host& host, const OrtValue& value);

// The numbers of ORT's element types of fixed size, and that size; strings have none.
std::vector<int> fixed_size_types();
std::size_t size_of(int element_type);

}  // namespace reference
