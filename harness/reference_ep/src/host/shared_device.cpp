#include "host/shared_device.h"

#include <array>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include "device/failure.h"

namespace reference {

std::size_t device_count(const char* value) {
  const std::string text = value == nullptr ? "" : value;
  if (text.empty() || text == "1") return 1;
  if (text == "2") return most_devices;
  throw Failure(Code::invalid_argument,
                std::string(devices_variable) + " must be 1, 2 or empty, not " + text);
}

std::shared_ptr<Device> shared_device(std::size_t number) {
  static std::mutex lock;
  static std::array<std::weak_ptr<Device>, most_devices> known;
  const std::lock_guard<std::mutex> guard(lock);
  std::shared_ptr<Device> device = known.at(number).lock();
  if (device == nullptr) {
    device = std::make_shared<Device>();
    known.at(number) = device;
  }
  return device;
}

void log_contract(Device& device, std::size_t number, const std::string& host_version,
                  const char* mode) {
  const char* path = std::getenv(contract_log_variable);
  if (path == nullptr || *path == '\0') return;
  const ContractReport report = device.contract().report();
  std::ofstream file(path, std::ios::app);
  file << "{\"host\": \"" << host_version << "\", \"device\": " << number << ", \"mode\": \"" << mode
       << "\", \"checked\": " << (report.checked ? "true" : "false")
       << ", \"operations\": " << report.operations << ", \"overlaps\": " << report.overlaps
       << ", \"by_kind\": {";
  const char* separator = "";
  for (const auto& [kind, count] : report.by_kind) {
    file << separator << "\"" << kind << "\": " << count;
    separator = ", ";
  }
  file << "}, \"first\": \"" << report.first << "\"}\n";
}

}  // namespace reference
