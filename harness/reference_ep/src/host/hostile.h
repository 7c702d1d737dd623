// What a hostile or dying plugin does at the points of its life. Without a fault: nothing.
#pragma once

#include <cstdint>

namespace reference {

void at_register();
void die_if_met_in_creation();
void at_session_start();
void at_kernel_creation();
// Whether it was complete: some fail after the EP was made, and never get a kernel.
void at_session_release(bool complete);
// Whether the factory was ever asked for its devices.
void at_unregister(bool used);
void at_run_start();
void at_run_end();
void in_kernel();
void at_bad_option();

[[noreturn]] void hang();

// Whether an earlier registration of this process left its mark, which survives an unload.
bool registered_before();

// Whether this thread is making a session that has no kernel yet. ORT copies the initializers to the
// device then.
bool without_kernels();

// Throws Failure for every session after one whose creation failed.
void check_for_poison();

// Two locks, which sessions of odd and of even number take in opposite order.
void hold_both_queues(std::uint64_t session);
void release_both_queues(std::uint64_t session);

// Dies if two sessions are in it at once.
void use_the_one_session();

// A number of the thread that asks, which no thread after it has.
std::uint64_t this_thread();

}  // namespace reference
