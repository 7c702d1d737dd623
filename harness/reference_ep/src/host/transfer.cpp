#include "host/transfer.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "device/faults.h"
#include "host/hostile.h"
#include "host/stream.h"
#include "host/tensors.h"

namespace reference {

namespace {

struct End {
  bool on_device = false;
  void* address = nullptr;
  std::size_t bytes = 0;
  Region region;  // if it is on the device
};

struct Copy {
  End from;
  End to;
  Session* session = nullptr;  // none for a copy without a stream
};

struct Transfer : OrtDataTransferImpl {
  Host host;
  const OrtMemoryDevice* memory_device = nullptr;
  std::shared_ptr<Device> device;

  bool is_ours(const OrtMemoryDevice* one) const {
    return host.ep_api->MemoryDevice_AreEqual(one, memory_device);
  }

  bool is_cpu(const OrtMemoryDevice* one) const {
    return host.ep_api->MemoryDevice_GetDeviceType(one) == device_type_cpu;
  }

  bool can_copy(const OrtMemoryDevice* from, const OrtMemoryDevice* to) const {
    return (is_ours(from) && (is_ours(to) || is_cpu(to))) || (is_cpu(from) && is_ours(to));
  }

  End end_at(const OrtValue& value) const {
    End end;
    end.on_device = is_ours(host.ep_api->Value_GetMemoryDevice(&value));
    end.address = address_of(host, value);
    end.bytes = bytes_of(host, value);
    if (end.on_device && end.bytes != 0) end.region = device->find(end.address, end.bytes);
    return end;
  }

  Copy checked(const OrtValue& from, const OrtValue& to, OrtSyncStream* stream) const {
    if (!can_copy(host.ep_api->Value_GetMemoryDevice(&from),
                  host.ep_api->Value_GetMemoryDevice(&to)))
      throw Failure(Code::invalid_argument, "no copy between these two memories");
    Copy copy{end_at(from), end_at(to), nullptr};
    const bool undersized = copy.to.bytes < copy.from.bytes;
    if (undersized && planted(Fault::undersized_aborts)) std::abort();
    if (undersized && planted(Fault::undersized_accepted)) {
      copy.from.bytes = copy.from.region.bytes = copy.to.bytes;
    } else if (undersized)
      throw Failure(Code::invalid_argument, "the destination has " + std::to_string(copy.to.bytes) +
                                                " bytes, the source " +
                                                std::to_string(copy.from.bytes));
    const auto source = reinterpret_cast<std::uintptr_t>(copy.from.address);
    const auto destination = reinterpret_cast<std::uintptr_t>(copy.to.address);
    if (copy.from.on_device && copy.to.on_device && source < destination + copy.from.bytes &&
        destination < source + copy.from.bytes) {
      if (planted(Fault::overlap_aborts)) std::abort();
      throw Failure(Code::invalid_argument, "source and destination overlap");
    }
    copy.to.region.bytes = copy.from.bytes;
    if (stream != nullptr) copy.session = &session_of(host, stream);
    return copy;
  }

  void perform(Copy copy) const {
    if (copy.from.bytes == 0) return;
    if (planted(Fault::part_of_the_bytes) && copy.from.bytes > 4)
      copy.to.region.bytes = copy.from.region.bytes = copy.from.bytes - 4;
    if (planted(Fault::success_without_copy) && !copy.to.on_device) return;
    if (planted(Fault::device_copy_dropped) && copy.from.on_device && copy.to.on_device) return;
    if (planted(Fault::stale_readback) && !copy.to.on_device) return perform_stale(copy);
    if (copy.session != nullptr && planted(Fault::stream_ignored)) {
      std::memcpy(copy.to.on_device ? copy.to.region.content() : copy.to.address,
                  copy.from.on_device ? copy.from.region.content() : copy.from.address,
                  copy.from.bytes);
    } else if (copy.session != nullptr) {
      if (!copy.from.on_device)
        copy.session->upload(copy.to.region, copy.from.address);
      else if (!copy.to.on_device)
        copy.session->download(copy.to.address, copy.from.region);
      else
        copy.session->copy(copy.to.region, copy.from.region);
    } else {
      if (!copy.from.on_device)
        device->upload(copy.to.region, copy.from.address);
      else if (!copy.to.on_device)
        device->download(copy.to.address, copy.from.region);
      else
        device->copy(copy.to.region, copy.from.region);
    }
  }

  // A readback answers with what the one before it of the same size found.
  void perform_stale(const Copy& copy) const {
    static std::map<std::size_t, std::vector<std::byte>> last;
    std::vector<std::byte> found(copy.from.bytes);
    device->download(found.data(), copy.from.region);
    std::vector<std::byte>& known = last[copy.from.bytes];
    if (known.empty()) known = found;
    std::memcpy(copy.to.address, known.data(), known.size());
    known = found;
  }

  // What a fault makes of a batch.
  void spoil(std::vector<Copy>& copies) const {
    if (copies.size() < 2) return;
    if (planted(Fault::batch_second_dropped)) copies.erase(copies.begin() + 1);
    if (planted(Fault::batch_swapped) && copies[0].from.bytes == copies[1].from.bytes)
      std::swap(copies[0].from, copies[1].from);
  }
};

void release(OrtDataTransferImpl* self) {
  if (planted(Fault::hang_at_environment_release)) hang();
  delete static_cast<Transfer*>(self);
}

bool can_copy(const OrtDataTransferImpl* self, const OrtMemoryDevice* from,
              const OrtMemoryDevice* to) {
  return static_cast<const Transfer*>(self)->can_copy(from, to);
}

OrtStatus* copy_tensors(OrtDataTransferImpl* self, const OrtValue** sources,
                        OrtValue** destinations, OrtSyncStream** streams, std::size_t count) {
  const auto* transfer = static_cast<const Transfer*>(self);
  return transfer->host.guarded([&] {
    const InProgress operation(transfer->device->contract(), Operation::copy, 0);
    // All of them are checked first, so that a refused batch changed nothing.
    std::vector<Copy> copies;
    for (std::size_t i = 0; i < count; ++i)
      copies.push_back(transfer->checked(*sources[i], *destinations[i],
                                         streams == nullptr ? nullptr : streams[i]));
    transfer->spoil(copies);
    for (const Copy& copy : copies) transfer->perform(copy);
  });
}

}  // namespace

OrtDataTransferImpl* make_transfer(const Host& host, const OrtMemoryInfo* memory,
                                   std::shared_ptr<Device> device) {
  auto made = std::make_unique<Transfer>();
  made->ort_version_supported = host.level;
  made->Release = release;
  made->CanCopy = can_copy;
  made->CopyTensors = copy_tensors;
  made->host = host;
  made->memory_device = host.ep_api->MemoryInfo_GetMemoryDevice(memory);
  made->device = std::move(device);
  return made.release();
}

}  // namespace reference
