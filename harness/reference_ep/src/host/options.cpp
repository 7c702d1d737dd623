#include "host/options.h"

#include <algorithm>
#include <cctype>
#include <memory>

#include "device/faults.h"
#include "host/hostile.h"

namespace reference {

namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::set<std::string> lines(const std::string& text) {
  std::set<std::string> found;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (end > start) found.insert(text.substr(start, end - start));
    start = end + 1;
  }
  return found;
}

bool flag(const std::string& key, const std::string& value) {
  if (value == "1") return true;
  if (value == "0") return false;
  at_bad_option();
  throw Failure(Code::invalid_argument, key + " must be 0 or 1, not \"" + value + "\"");
}

}  // namespace

Options read_options(const Host& host, const OrtSessionOptions& session_options,
                     const std::string& ep_name) {
  OrtKeyValuePairs* entries = nullptr;
  host.check(host.api->GetSessionOptionsConfigEntries(&session_options, &entries));
  const std::unique_ptr<OrtKeyValuePairs, void (*)(OrtKeyValuePairs*)> owner(
      entries, host.api->ReleaseKeyValuePairs);
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  std::size_t count = 0;
  host.api->GetKeyValuePairs(entries, &keys, &values, &count);
  const std::string prefix = "ep." + lower(ep_name) + ".";
  Options options;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string entry = keys[i];
    if (lower(entry).compare(0, prefix.size(), prefix) != 0) continue;
    const std::string key = entry.substr(prefix.size());
    if (key == "reference.cpu_nodes") {
      options.cpu_nodes = lines(values[i]);
    } else if (key == "reference.enable_graph_capture") {
      options.graph_capture = flag(key, values[i]);
    } else if (key == fault_option) {
      options.fault = values[i];
    } else {
      at_bad_option();
      throw Failure(Code::invalid_argument,
                    "unknown provider option \"" + key +
                        "\"; known are reference.cpu_nodes, reference.enable_graph_capture and "
                        "reference.fault");
    }
  }
  if (planted(Fault::options_written_to))
    host.check(host.api->AddSessionConfigEntry(const_cast<OrtSessionOptions*>(&session_options),
                                               (prefix + "reference.seen").c_str(), "1"));
  return options;
}

}  // namespace reference
