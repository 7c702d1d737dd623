#include "host/tensors.h"

#include <array>
#include <memory>

namespace reference {

namespace {

// By ORT's number of the type; 0 for what has no fixed size, and for the
// complex types, which ORT has no data type for.
constexpr std::array<std::size_t, 17> sizes{0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 0, 0, 2};

}  // namespace

std::size_t TensorType::elements() const {
  std::size_t product = 1;
  for (const std::int64_t extent : shape) product *= static_cast<std::size_t>(extent);
  return product;
}

TensorType type_of(const Host& host, const OrtValue& value) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  host.check(host.api->GetTensorTypeAndShape(&value, &info));
  const std::unique_ptr<OrtTensorTypeAndShapeInfo, void (*)(OrtTensorTypeAndShapeInfo*)> owner(
      info, host.api->ReleaseTensorTypeAndShapeInfo);
  TensorType type;
  host.check(host.api->GetTensorElementType(info, &type.element_type));
  std::size_t rank = 0;
  host.check(host.api->GetDimensionsCount(info, &rank));
  type.shape.resize(rank);
  host.check(host.api->GetDimensions(info, type.shape.data(), rank));
  return type;
}

std::size_t bytes_of(const Host& host, const OrtValue& value) {
  std::size_t bytes = 0;
  host.check(host.api->GetTensorSizeInBytes(&value, &bytes));
  return bytes;
}

void* address_of(const Host& host, const OrtValue& value) {
  void* address = nullptr;
  // The API hands out an address that may be written; of a source it is only read.
  host.check(host.api->GetTensorMutableData(const_cast<OrtValue*>(&value), &address));
  return address;
}

std::vector<int> fixed_size_types() {
  std::vector<int> types;
  for (std::size_t type = 0; type < sizes.size(); ++type)
    if (sizes[type] != 0) types.push_back(static_cast<int>(type));
  return types;
}

std::size_t size_of(int element_type) {
  const auto index = static_cast<std::size_t>(element_type);
  const std::size_t size = index < sizes.size() ? sizes[index] : 0;
  if (size == 0) throw Failure(Code::not_implemented, "an element type without a fixed size");
  return size;
}

}  // namespace reference
