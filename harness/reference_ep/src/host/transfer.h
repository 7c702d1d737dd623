// Copies between the processor's memory and the device's, as ORT asks for them.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "host/ort.h"

namespace reference {

struct DeviceMemory {
  const OrtMemoryDevice* memory = nullptr;
  std::shared_ptr<Device> device;
};

// Between the processor's memory and that of each device, and within each; not from one device to
// another.
OrtDataTransferImpl* make_transfer(const Host& host, std::vector<DeviceMemory> memories);

}  // namespace reference
