// The device's allocators as ORT sees them.
#pragma once

#include <memory>

#include "device/session.h"
#include "host/ort.h"

namespace reference {

// With a session, an allocation's clear is recorded in the session's order; without one, for the
// environment, it is cleared when it is returned.
OrtAllocator* make_allocator(const Host& host, const OrtMemoryInfo* memory,
                             std::shared_ptr<Device> device, std::shared_ptr<Session> session);
// For a fault: it says that its memory is the processor's.
void pass_for_cpu_memory(const Host& host, OrtAllocator& allocator);

// For a fault: it gives nothing from now on.
void evict(OrtAllocator& allocator);

void release_allocator(OrtAllocator* allocator);

}  // namespace reference
