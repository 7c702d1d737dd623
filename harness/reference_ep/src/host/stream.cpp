#include "host/stream.h"

#include <utility>

#include "device/faults.h"

namespace reference {

namespace {

struct Stream : OrtSyncStreamImpl {
  Host host;
  std::shared_ptr<Session> session;

  OrtStatus* submit() {
    return host.guarded([&] {
      const InProgress operation(session->device().contract(), Operation::stream, session->id());
      if (!planted(Fault::run_end_without_submit)) session->recording().submit();
    });
  }
};

// Work of a recording is executed by whoever submits it, so that a notification has nothing to
// wait for once its stream was submitted.
struct Notification : OrtSyncNotificationImpl {
  Host host;
  std::shared_ptr<Session> session;

  OrtStatus* submit() {
    return host.guarded([&] {
      if (!planted(Fault::run_end_without_submit)) session->recording().submit();
    });
  }
};

Stream* ours(OrtSyncStreamImpl* self) { return static_cast<Stream*>(self); }
Notification* ours(OrtSyncNotificationImpl* self) { return static_cast<Notification*>(self); }

void release_notification(OrtSyncNotificationImpl* self) { delete ours(self); }
OrtStatus* activate(OrtSyncNotificationImpl*) { return nullptr; }
OrtStatus* wait_on_device(OrtSyncNotificationImpl* self, OrtSyncStream*) {
  return ours(self)->submit();
}
OrtStatus* wait_on_host(OrtSyncNotificationImpl* self) { return ours(self)->submit(); }

void release_stream(OrtSyncStreamImpl* self) {
  const std::unique_ptr<Stream> stream(ours(self));
  stream->host.guarded([&] { stream->session->recording().submit(); });
}

void* get_handle(OrtSyncStreamImpl* self) { return &ours(self)->session->recording(); }

OrtStatus* create_notification(OrtSyncStreamImpl* self, OrtSyncNotificationImpl** notification) {
  return ours(self)->host.guarded([&] {
    auto made = std::make_unique<Notification>();
    made->ort_version_supported = ours(self)->host.level;
    made->Release = release_notification;
    made->Activate = activate;
    made->WaitOnDevice = wait_on_device;
    made->WaitOnHost = wait_on_host;
    made->host = ours(self)->host;
    made->session = ours(self)->session;
    *notification = made.release();
  });
}

OrtStatus* flush(OrtSyncStreamImpl* self) { return ours(self)->submit(); }
OrtStatus* on_session_run_end(OrtSyncStreamImpl* self) { return ours(self)->submit(); }

}  // namespace

OrtSyncStreamImpl* make_stream(const Host& host, std::shared_ptr<Session> session) {
  auto made = std::make_unique<Stream>();
  made->ort_version_supported = host.level;
  made->Release = release_stream;
  made->GetHandle = get_handle;
  made->CreateNotification = create_notification;
  made->Flush = flush;
  made->OnSessionRunEnd = on_session_run_end;
  made->host = host;
  made->session = std::move(session);
  return made.release();
}

Session& session_of(const Host& host, const OrtSyncStream* stream) {
  const OrtSyncStreamImpl* impl = host.ep_api->SyncStream_GetImpl(stream);
  if (impl == nullptr || impl->Release != release_stream)
    throw Failure(Code::invalid_argument, "the stream is not of this plugin");
  return *static_cast<const Stream*>(impl)->session;
}

}  // namespace reference
