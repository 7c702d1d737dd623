// Addresses for device memory that the processor cannot touch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reference {

// A reserved range of addresses: reading or writing one faults, as it does for the memory of a
// discrete GPU. The content of device memory lies elsewhere; see buffer.h.
class AddressSpace {
 public:
  // Throws Failure if the system refuses the range.
  explicit AddressSpace(std::size_t bytes);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // Addresses that were never given out before, aligned as the range's start is (a page); 0 if
  // there are no more. Bytes must be a multiple of the wanted alignment.
  std::uintptr_t take(std::size_t bytes);

 private:
  std::uintptr_t start_ = 0;
  std::size_t size_ = 0;
  std::size_t taken_ = 0;
};

}  // namespace reference
