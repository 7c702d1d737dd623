// The options of one session.
#pragma once

#include <set>
#include <string>

#include "host/ort.h"

namespace reference {

struct Options {
  std::set<std::string> cpu_nodes;  // by node name
  bool graph_capture = false;
  std::string fault;  // planted for the life of the session
};

// From the session's config entries, where ORT puts provider options behind a prefix.
// Throws Failure for an unknown option or a bad value.
Options read_options(const Host& host, const OrtSessionOptions& session_options,
                     const std::string& ep_name);

}  // namespace reference
