#include "host/transfer.h"

#include <algorithm>
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
  Device* device = nullptr;  // if it is on one of ours
  void* address = nullptr;
  std::size_t bytes = 0;
  std::size_t elements = 0;
  Region region;  // if it is on a device of ours
};

struct Copy {
  End from;
  End to;
  Session* session = nullptr;  // none for a copy without a stream
  bool at_once = false;        // for a fault: in spite of its stream

  Device& device() const { return *(from.on_device ? from.device : to.device); }
};

struct Transfer : OrtDataTransferImpl {
  Host host;
  std::vector<DeviceMemory> memories;

  Device* device_of(const OrtMemoryDevice* one) const {
    for (const DeviceMemory& ours : memories)
      if (host.ep_api->MemoryDevice_AreEqual(one, ours.memory)) return ours.device.get();
    return nullptr;
  }

  bool is_cpu(const OrtMemoryDevice* one) const {
    return host.ep_api->MemoryDevice_GetDeviceType(one) == device_type_cpu;
  }

  bool can_copy(const OrtMemoryDevice* from, const OrtMemoryDevice* to) const {
    const Device* source = device_of(from);
    const Device* destination = device_of(to);
    if (source != nullptr && destination != nullptr) return source == destination;
    return (source != nullptr && is_cpu(to)) || (destination != nullptr && is_cpu(from));
  }

  End end_at(const OrtValue& value) const {
    End end;
    end.device = device_of(host.ep_api->Value_GetMemoryDevice(&value));
    end.on_device = end.device != nullptr;
    end.address = address_of(host, value);
    end.bytes = bytes_of(host, value);
    end.elements = type_of(host, value).elements();
    if (end.on_device && end.bytes != 0) end.region = end.device->find(end.address, end.bytes);
    return end;
  }

  Copy checked(const OrtValue& from, const OrtValue& to, OrtSyncStream* stream) const {
    if (!can_copy(host.ep_api->Value_GetMemoryDevice(&from),
                  host.ep_api->Value_GetMemoryDevice(&to))) {
      if (planted(Fault::copies_anywhere)) return {};
      throw Failure(Code::invalid_argument, "no copy between these two memories");
    }
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
      if (!planted(Fault::overlap_accepted))
        throw Failure(Code::invalid_argument, "source and destination overlap");
    }
    copy.to.region.bytes = copy.from.bytes;
    if (stream != nullptr) copy.session = &session_of(host, stream);
    if (copy.session != nullptr && &copy.session->device() != &copy.device())
      throw Failure(Code::invalid_argument, "the stream is of another device");
    return copy;
  }

  // For a fault: what is uploaded, without the sign of what may be a small negative integer of four
  // bytes.
  static std::vector<std::byte> without_signs(const End& from) {
    const auto* first = static_cast<const std::byte*>(from.address);
    std::vector<std::byte> found(first, first + from.bytes);
    for (std::size_t at = 0; at + sizeof(std::int32_t) <= found.size();
         at += sizeof(std::int32_t)) {
      std::int32_t number = 0;
      std::memcpy(&number, &found[at], sizeof number);
      if (number >= 0 || number < -1'000'000) continue;
      number = -number;
      std::memcpy(&found[at], &number, sizeof number);
    }
    return found;
  }

  // How many bytes of a copy a fault leaves.
  static std::size_t kept(std::size_t bytes, std::size_t elements) {
    if (planted(Fault::part_of_the_bytes) && bytes > 4) return bytes - 4;
    if (planted(Fault::odd_bytes_dropped)) return bytes / 4 * 4;
    if (planted(Fault::size_of_float)) return std::min(bytes, 4 * elements);
    if (planted(Fault::large_copy_cut)) return std::min(bytes, std::size_t{16} << 20);
    return bytes;
  }

  void perform(Copy copy) const {
    if (copy.from.bytes == 0) return;
    const InProgress operation(copy.device().contract(), Operation::copy, 0);
    copy.to.region.bytes = copy.from.region.bytes = kept(copy.from.bytes, copy.from.elements);
    if (planted(Fault::weights_not_uploaded) && without_kernels() && !copy.from.on_device) return;
    std::vector<std::byte> spoilt;
    if (planted(Fault::negative_integers_lost) && !copy.from.on_device &&
        copy.from.bytes == copy.from.elements * sizeof(std::int32_t)) {
      spoilt = without_signs(copy.from);
      copy.from.address = spoilt.data();
    }
    if (planted(Fault::success_without_copy) && !copy.to.on_device) return;
    if (planted(Fault::device_copy_dropped) && copy.from.on_device && copy.to.on_device) return;
    if (planted(Fault::stale_readback) && !copy.to.on_device) return perform_stale(copy);
    if (copy.session != nullptr && (copy.at_once || planted(Fault::stream_ignored))) {
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
        copy.device().upload(copy.to.region, copy.from.address);
      else if (!copy.to.on_device)
        copy.device().download(copy.to.address, copy.from.region);
      else
        copy.device().copy(copy.to.region, copy.from.region);
    }
  }

  // A readback answers with what the one before it of the same size found.
  void perform_stale(const Copy& copy) const {
    static std::map<std::size_t, std::vector<std::byte>> last;
    std::vector<std::byte> found(copy.from.bytes);
    copy.device().download(found.data(), copy.from.region);
    std::vector<std::byte>& known = last[copy.from.bytes];
    if (known.empty()) known = found;
    std::memcpy(copy.to.address, known.data(), known.size());
    known = found;
  }

  // What a fault makes of a batch.
  void spoil(std::vector<Copy>& copies) const {
    if (copies.size() < 2) return;
    if (planted(Fault::batch_leaves_stream))
      for (std::size_t i = 1; i < copies.size(); ++i) copies[i].at_once = true;
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
  return planted(Fault::copies_anywhere) || static_cast<const Transfer*>(self)->can_copy(from, to);
}

OrtStatus* copy_tensors(OrtDataTransferImpl* self, const OrtValue** sources,
                        OrtValue** destinations, OrtSyncStream** streams, std::size_t count) {
  const auto* transfer = static_cast<const Transfer*>(self);
  return transfer->host.guarded([&] {
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

OrtDataTransferImpl* make_transfer(const Host& host, std::vector<DeviceMemory> memories) {
  auto made = std::make_unique<Transfer>();
  made->ort_version_supported = host.level;
  made->Release = release;
  made->CanCopy = can_copy;
  made->CopyTensors = copy_tensors;
  made->host = host;
  made->memories = std::move(memories);
  return made.release();
}

}  // namespace reference
