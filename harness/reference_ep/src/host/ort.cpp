#include "host/ort.h"

#include <algorithm>
#include <cstdio>

#include "device/faults.h"

namespace reference {

void Host::check(OrtStatus* status) const {
  if (status == nullptr) return;
  const int code = api->GetErrorCode(status);
  const std::string message = api->GetErrorMessage(status);
  api->ReleaseStatus(status);
  throw Failure(static_cast<Code>(code), message);
}

OrtStatus* Host::status(Code code, const char* message) const {
  return api->CreateStatus(static_cast<int>(code), message);
}

namespace {

// A host of 1.x offers level x; asked for more it complains on stderr. One whose version says
// nothing is asked for the newest.
std::uint32_t first_to_ask(const std::string& version) {
  unsigned major = 0;
  unsigned minor = 0;
  if (std::sscanf(version.c_str(), "%u.%u", &major, &minor) != 2 || major != 1) return newest_level;
  return std::min<std::uint32_t>(minor, newest_level);
}

}  // namespace

Host negotiate(const OrtApiBase& base) {
  Host host;
  host.version = base.GetVersionString();
  if (planted(Fault::newest_api_only)) {
    host.api = base.GetApi(newest_level);
    host.ep_api = host.api->GetEpApi();
    host.level = newest_level;
    return host;
  }
  for (std::uint32_t level = first_to_ask(host.version); level >= oldest_level; --level) {
    host.api = base.GetApi(level);
    if (host.api == nullptr) continue;
    host.ep_api = host.api->GetEpApi();
    host.level = level;
    return host;
  }
  throw Failure(Code::not_implemented, "ORT " + host.version + " offers no API level from " +
                                           std::to_string(oldest_level) + " on");
}

}  // namespace reference
