#include "host/allocator.h"

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "device/faults.h"

namespace reference {

namespace {

// How many allocators were released, for a fault.
std::atomic<unsigned> releases{0};

struct Allocator : OrtAllocator {
  Host host;
  const OrtMemoryInfo* memory = nullptr;
  std::shared_ptr<Device> device;
  std::shared_ptr<Session> session;
  unsigned asked = 0;
  bool evicted = false;
  unsigned released_before = releases;

  std::uint64_t session_id() const { return session == nullptr ? 0 : session->id(); }

  void* allocate(std::size_t bytes) {
    if (bytes == 0 || evicted) return nullptr;
    if (planted(Fault::release_ends_others) && released_before != releases) return nullptr;
    const InProgress operation(device->contract(), Operation::allocate, session_id());
    if (planted(Fault::null_without_status) && session != nullptr && ++asked % 7 == 0)
      return nullptr;
    if (session != nullptr) {
      const Region region = session->allocate(bytes);
      return region.buffer == nullptr ? nullptr : address_of(region);
    }
    const Region region = device->allocate(bytes, nullptr);
    if (region.buffer == nullptr) return nullptr;
    device->clear(region);
    return address_of(region);
  }

  void free(void* address) {
    if (address == nullptr) return;
    const InProgress operation(device->contract(), Operation::free, session_id());
    device->free(address);
  }

  using Pairs = std::vector<std::pair<std::string, std::string>>;

  Pairs statistics() const {
    const MemoryStatistics s = device->statistics();
    const ContractReport contract = device->contract().report();
    Pairs pairs{
        {"Limit", std::to_string(Device::capacity)},
        {"InUse", std::to_string(s.in_use)},
        {"TotalAllocated", std::to_string(s.total_allocated)},
        {"MaxInUse", std::to_string(s.max_in_use)},
        {"NumAllocs", std::to_string(s.allocations)},
        {"NumReserves", "0"},
        {"MaxAllocSize", std::to_string(s.max_alloc_size)},
        {"reference.live_buffers", std::to_string(s.live_buffers)},
        {"reference.reused", std::to_string(s.reused)},
        {"reference.contract.checked", contract.checked ? "1" : "0"},
        {"reference.contract.operations", std::to_string(contract.operations)},
        {"reference.contract.overlaps", std::to_string(contract.overlaps)},
    };
    if (planted(Fault::garbage_statistics)) {
      for (auto& pair : pairs)
        if (pair.first.find("reference.") != 0) pair.second = "18446744073709551574";
      pairs.emplace_back("InUse", "-42");
    }
    for (const auto& [kind, count] : contract.by_kind)
      pairs.emplace_back("reference.contract.overlap." + kind, std::to_string(count));
    if (!contract.first.empty()) pairs.emplace_back("reference.contract.first", contract.first);
    return pairs;
  }
};

Allocator* ours(OrtAllocator* self) { return static_cast<Allocator*>(self); }
const Allocator* ours(const OrtAllocator* self) { return static_cast<const Allocator*>(self); }

void* alloc(OrtAllocator* self, std::size_t bytes) {
  try {
    return ours(self)->allocate(bytes);
  } catch (const std::exception&) {
    return nullptr;  // all that an allocation can say
  }
}

void free_buffer(OrtAllocator* self, void* address) {
  try {
    ours(self)->free(address);
  } catch (const std::exception&) {
    // The host freed what is no buffer; there is no way to say so.
  }
}

const OrtMemoryInfo* info(const OrtAllocator* self) { return ours(self)->memory; }

OrtStatus* get_statistics(const OrtAllocator* self, OrtKeyValuePairs** statistics) {
  const Host& host = ours(self)->host;
  return host.guarded([&] {
    const auto pairs = ours(self)->statistics();
    host.api->CreateKeyValuePairs(statistics);
    for (const auto& [key, value] : pairs)
      host.api->AddKeyValuePair(*statistics, key.c_str(), value.c_str());
  });
}

}  // namespace

OrtAllocator* make_allocator(const Host& host, const OrtMemoryInfo* memory,
                             std::shared_ptr<Device> device, std::shared_ptr<Session> session) {
  auto made = std::make_unique<Allocator>();
  made->version = host.level;
  made->Alloc = alloc;
  made->Free = free_buffer;
  made->Info = info;
  made->Reserve = alloc;
  made->GetStats = get_statistics;
  made->AllocOnStream = nullptr;  // every allocation of a session is in the session's order
  made->Shrink = nullptr;
  made->host = host;
  made->memory = memory;
  made->device = std::move(device);
  made->session = std::move(session);
  return made.release();
}

void pass_for_cpu_memory(const Host& host, OrtAllocator& allocator) {
  OrtMemoryInfo* memory = nullptr;
  host.check(host.api->CreateCpuMemoryInfo(allocator_type_device, memory_type_default, &memory));
  ours(&allocator)->memory = memory;  // never released: this is what a fault may cost
}

void evict(OrtAllocator& allocator) { ours(&allocator)->evicted = true; }

void release_allocator(OrtAllocator* allocator) {
  releases += 1;
  delete ours(allocator);
}

}  // namespace reference
