// Copies between the processor's memory and the device's, as ORT asks for them.
#pragma once

#include <memory>

#include "device/device.h"
#include "host/ort.h"

namespace reference {

OrtDataTransferImpl* make_transfer(const Host& host, const OrtMemoryInfo* memory,
                                   std::shared_ptr<Device> device);

}  // namespace reference
