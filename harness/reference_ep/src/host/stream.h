// Streams and notifications: a stream is a recording's handle for the host.
#pragma once

#include <memory>

#include "device/session.h"
#include "host/ort.h"

namespace reference {

// A stream of a session shares the session's recording. The environment's streams have one each.
OrtSyncStreamImpl* make_stream(const Host& host, std::shared_ptr<Session> session);

// Whose recording a stream stands for. Throws Failure if the stream is not of this plugin.
Session& session_of(const Host& host, const OrtSyncStream* stream);

}  // namespace reference
