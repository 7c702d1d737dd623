#include "device/address_space.h"

#include "device/failure.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <sys/mman.h>
#endif

namespace reference {

namespace {

void* reserve(std::size_t bytes) {
#if defined(_WIN32)
  return VirtualAlloc(nullptr, bytes, MEM_RESERVE, PAGE_NOACCESS);
#else
  void* start = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return start == MAP_FAILED ? nullptr : start;
#endif
}

void give_back(void* start, std::size_t bytes) {
#if defined(_WIN32)
  (void)bytes;
  VirtualFree(start, 0, MEM_RELEASE);
#else
  munmap(start, bytes);
#endif
}

}  // namespace

AddressSpace::AddressSpace(std::size_t bytes) : size_(bytes) {
  void* start = reserve(bytes);
  if (start == nullptr) throw Failure(Code::fail, "no addresses for the simulated device");
  start_ = reinterpret_cast<std::uintptr_t>(start);
}

AddressSpace::~AddressSpace() { give_back(reinterpret_cast<void*>(start_), size_); }

std::uintptr_t AddressSpace::take(std::size_t bytes) {
  if (bytes > size_ - taken_) return 0;
  const std::uintptr_t address = start_ + taken_;
  taken_ += bytes;
  return address;
}

}  // namespace reference
