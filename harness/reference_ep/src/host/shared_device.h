// The devices of this process, and what they leave behind.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "device/device.h"

namespace reference {

constexpr const char* contract_log_variable = "ORT_REFERENCE_EP_CONTRACT_LOG";
constexpr const char* devices_variable = "ORT_REFERENCE_EP_DEVICES";
constexpr std::size_t most_devices = 2;

// How many there are, by the value of the variable; null and empty stand for one.
// Throws Failure for a value that is none of "", "1" and "2".
std::size_t device_count(const char* value);

// Every registration sees the same devices, as it would see the same GPUs. Each ends with the last
// that holds it. They are numbered from 0.
std::shared_ptr<Device> shared_device(std::size_t number);

// Appends what a device's contract checker saw to the file that the variable names, if it is set.
void log_contract(Device& device, std::size_t number, const std::string& host_version,
                  const char* mode);

}  // namespace reference
