// The one device of this process, and what it leaves behind.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace reference {

constexpr const char* contract_log_variable = "ORT_REFERENCE_EP_CONTRACT_LOG";

// Every registration sees the same device, as it would see the same GPU. It ends with the last.
std::shared_ptr<Device> shared_device();

// Appends what the contract checker saw to the file that the variable names, if it is set.
void log_contract(Device& device, const std::string& host_version, const char* mode);

}  // namespace reference
