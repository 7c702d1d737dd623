#include "host/shared_device.h"

#include <cstdlib>
#include <fstream>
#include <mutex>

namespace reference {

std::shared_ptr<Device> shared_device() {
  static std::mutex lock;
  static std::weak_ptr<Device> known;
  const std::lock_guard<std::mutex> guard(lock);
  std::shared_ptr<Device> device = known.lock();
  if (device == nullptr) {
    device = std::make_shared<Device>();
    known = device;
  }
  return device;
}

void log_contract(Device& device, const std::string& host_version, const char* mode) {
  const char* path = std::getenv(contract_log_variable);
  if (path == nullptr || *path == '\0') return;
  const ContractReport report = device.contract().report();
  std::ofstream file(path, std::ios::app);
  file << "{\"host\": \"" << host_version << "\", \"mode\": \"" << mode
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
