// The faults that can be planted, one at a time. What each is and who must notice it: faults.yaml.
#pragma once

namespace reference {

// The one table of the faults: their identifier here, and their name outside.
#define REFERENCE_FAULTS(FAULT)                                          \
  /* copy */                                                             \
  FAULT(readback_before_submit, "readback-before-submit")                \
  FAULT(run_end_without_submit, "run-end-without-submit")                \
  FAULT(upload_overtakes_clear, "upload-overtakes-clear")                \
  FAULT(batch_second_dropped, "batch-second-dropped")                    \
  FAULT(batch_swapped, "batch-swapped")                                  \
  FAULT(batch_leaves_stream, "batch-leaves-stream")                      \
  FAULT(stream_ignored, "stream-ignored")                                \
  FAULT(stream_reversed, "stream-reversed")                              \
  FAULT(part_of_the_bytes, "part-of-the-bytes")                          \
  FAULT(odd_bytes_dropped, "odd-bytes-dropped")                          \
  FAULT(size_of_float, "size-of-float")                                  \
  FAULT(large_copy_cut, "large-copy-cut")                                \
  FAULT(success_without_copy, "success-without-copy")                    \
  FAULT(stale_readback, "stale-readback")                                \
  FAULT(offset_ignored, "offset-ignored")                                \
  FAULT(undersized_aborts, "undersized-aborts")                          \
  FAULT(undersized_accepted, "undersized-accepted")                      \
  FAULT(overlap_aborts, "overlap-aborts")                                \
  FAULT(overlap_accepted, "overlap-accepted")                            \
  FAULT(copies_anywhere, "copies-anywhere")                              \
  FAULT(upload_reads_late, "upload-reads-late")                          \
  FAULT(upload_awaits_readback, "upload-awaits-readback")                \
  FAULT(device_copy_dropped, "device-copy-dropped")                      \
  FAULT(moves_at_once, "moves-at-once")                                  \
  FAULT(empty_run_spoils, "empty-run-spoils")                            \
  FAULT(weights_not_uploaded, "weights-not-uploaded")                    \
  FAULT(negative_integers_lost, "negative-integers-lost")                \
  /* allocation */                                                       \
  FAULT(reuse_not_cleared, "reuse-not-cleared")                          \
  FAULT(half_cleared, "half-cleared")                                    \
  FAULT(clear_too_late, "clear-too-late")                                \
  FAULT(two_on_one_buffer, "two-on-one-buffer")                          \
  FAULT(scratch_freed_early, "scratch-freed-early")                      \
  FAULT(freed_before_submit, "freed-before-submit")                      \
  FAULT(free_takes_neighbour, "free-takes-neighbour")                    \
  FAULT(others_not_awaited, "others-not-awaited")                        \
  FAULT(environment_not_cleared, "environment-not-cleared")              \
  FAULT(leak_an_allocation, "leak-an-allocation")                        \
  FAULT(leak_a_session, "leak-a-session")                                \
  FAULT(frees_wait, "frees-wait")                                        \
  FAULT(wrong_alignment, "wrong-alignment")                              \
  FAULT(null_without_status, "null-without-status")                      \
  FAULT(garbage_statistics, "garbage-statistics")                        \
  FAULT(wrong_memory_info, "wrong-memory-info")                          \
  FAULT(second_device_evicts, "second-device-evicts")                    \
  FAULT(release_ends_others, "release-ends-others")                      \
  /* capture */                                                          \
  FAULT(replay_of_captured_input, "replay-of-captured-input")            \
  FAULT(replay_does_nothing, "replay-does-nothing")                      \
  FAULT(replay_runs_twice, "replay-runs-twice")                          \
  FAULT(replay_reversed, "replay-reversed")                              \
  FAULT(replay_unsubmitted, "replay-unsubmitted")                        \
  FAULT(graph_ids_mixed, "graph-ids-mixed")                              \
  FAULT(never_captured, "never-captured")                                \
  FAULT(capture_not_executed, "capture-not-executed")                    \
  FAULT(replay_after_release, "replay-after-release")                    \
  FAULT(control_flow_captured, "control-flow-captured")                  \
  FAULT(new_binding_ignored, "new-binding-ignored")                      \
  FAULT(intermediates_not_reserved, "intermediates-not-reserved")        \
  FAULT(skip_ignored, "skip-ignored")                                    \
  FAULT(capture_option_ignored, "capture-option-ignored")                \
  FAULT(captures_unasked, "captures-unasked")                            \
  FAULT(graph_of_another_session, "graph-of-another-session")            \
  FAULT(capture_fetched_early, "capture-fetched-early")                  \
  FAULT(replay_discards_uploads, "replay-discards-uploads")              \
  FAULT(failed_run_captured, "failed-run-captured")                      \
  FAULT(failed_run_spoils_graphs, "failed-run-spoils-graphs")            \
  FAULT(cpu_node_captured, "cpu-node-captured")                          \
  FAULT(release_clears_memory, "release-clears-memory")                  \
  FAULT(release_spoils_others, "release-spoils-others")                  \
  FAULT(replay_bound_to_thread, "replay-bound-to-thread")                \
  /* placement */                                                        \
  FAULT(declines_everything, "declines-everything")                      \
  FAULT(declines_one_operator, "declines-one-operator")                  \
  FAULT(cpu_nodes_ignored, "cpu-nodes-ignored")                          \
  /* version */                                                          \
  FAULT(claims_too_new, "claims-too-new")                                \
  FAULT(claims_zero, "claims-zero")                                      \
  FAULT(claims_too_old, "claims-too-old")                                \
  FAULT(claims_newer_than_asked, "claims-newer-than-asked")              \
  FAULT(newest_api_only, "newest-api-only")                              \
  FAULT(assumes_host_replay, "assumes-host-replay")                      \
  FAULT(replay_callback_missing, "replay-callback-missing")              \
  /* lifecycle */                                                        \
  FAULT(register_refused, "register-refused")                            \
  FAULT(crash_at_register, "crash-at-register")                          \
  FAULT(hang_at_register, "hang-at-register")                            \
  FAULT(no_devices, "no-devices")                                        \
  FAULT(ep_name_differs, "ep-name-differs")                              \
  FAULT(crash_at_session_release, "crash-at-session-release")            \
  FAULT(hang_at_session_release, "hang-at-session-release")              \
  FAULT(crash_at_unregister, "crash-at-unregister")                      \
  FAULT(hang_at_unregister, "hang-at-unregister")                        \
  FAULT(hang_at_environment_release, "hang-at-environment-release")      \
  FAULT(crash_at_exit, "crash-at-exit")                                  \
  FAULT(second_registration_refused, "second-registration-refused")      \
  FAULT(second_registration_empty, "second-registration-empty")          \
  FAULT(still_mapped, "still-mapped")                                    \
  FAULT(thread_outlives_library, "thread-outlives-library")              \
  FAULT(failed_session_poisons, "failed-session-poisons")                \
  FAULT(first_unregister_ends_all, "first-unregister-ends-all")          \
  FAULT(unused_factory_ends_all, "unused-factory-ends-all")              \
  FAULT(asserts_nothing_alive, "asserts-nothing-alive")                  \
  FAULT(half_made_session_poisons, "half-made-session-poisons")          \
  FAULT(bad_option_aborts, "bad-option-aborts")                          \
  FAULT(options_written_to, "options-written-to")                        \
  FAULT(shared_allocator_once, "shared-allocator-once")                  \
  FAULT(session_release_ends_others, "session-release-ends-others")      \
  FAULT(thread_left_running, "thread-left-running")                      \
  FAULT(ends_twice_at_exit, "ends-twice-at-exit")                        \
  FAULT(exit_handler_ends_process, "exit-handler-ends-process")          \
  FAULT(directory_changed_at_unregister, "directory-changed-at-unregister") \
  FAULT(exit_with_session_crashes, "exit-with-session-crashes")          \
  FAULT(leak_descriptors, "leak-descriptors")                            \
  /* hostile */                                                          \
  FAULT(exit_in_run, "exit-in-run")                                      \
  FAULT(abort_in_run, "abort-in-run")                                    \
  FAULT(segfault_in_run, "segfault-in-run")                              \
  FAULT(stack_overflow_in_run, "stack-overflow-in-run")                  \
  FAULT(exception_through_abi, "exception-through-abi")                  \
  FAULT(endless_loop_in_run, "endless-loop-in-run")                      \
  FAULT(stderr_flood, "stderr-flood")                                    \
  FAULT(stdout_text, "stdout-text")                                      \
  FAULT(descriptors_closed, "descriptors-closed")                        \
  FAULT(directory_changed, "directory-changed")                          \
  FAULT(locale_changed, "locale-changed")                                \
  FAULT(rounding_changed, "rounding-changed")                            \
  FAULT(signal_handlers_changed, "signal-handlers-changed")              \
  FAULT(signal_handlers_replaced, "signal-handlers-replaced")            \
  FAULT(child_left_behind, "child-left-behind")                          \
  FAULT(memory_grows, "memory-grows")                                    \
  FAULT(runs_slow_down, "runs-slow-down")                                \
  /* concurrency */                                                      \
  FAULT(shared_recording, "shared-recording")                            \
  FAULT(lost_update, "lost-update")                                      \
  FAULT(sessions_deadlock, "sessions-deadlock")                          \
  FAULT(concurrent_by_claim_only, "concurrent-by-claim-only")            \
  FAULT(concurrent_runs_by_claim_only, "concurrent-runs-by-claim-only")  \
  FAULT(arguments_meet, "arguments-meet")                                \
  FAULT(creations_meet, "creations-meet")                                \
  FAULT(releases_meet, "releases-meet")                                  \
  FAULT(release_drops_uploads, "release-drops-uploads")                  \
  FAULT(one_staging_buffer, "one-staging-buffer")                        \
  FAULT(allocations_meet, "allocations-meet")                            \
  FAULT(session_allocations_meet, "session-allocations-meet")            \
  FAULT(shared_allocations_meet, "shared-allocations-meet")              \
  FAULT(flush_not_awaited, "flush-not-awaited")                          \
  FAULT(streams_share, "streams-share")                                  \
  FAULT(captures_meet, "captures-meet")                                  \
  FAULT(thread_bound, "thread-bound")                                    \
  FAULT(lock_kept_after_error, "lock-kept-after-error")

enum class Fault {
  none,
#define REFERENCE_FAULT_IDENTIFIER(identifier, name) identifier,
  REFERENCE_FAULTS(REFERENCE_FAULT_IDENTIFIER)
#undef REFERENCE_FAULT_IDENTIFIER
};

constexpr const char* fault_variable = "ORT_REFERENCE_EP_FAULT";

// The provider option that plants a fault for the life of one session.
constexpr const char* fault_option = "reference.fault";

// Plants a fault until another is planted; null or empty plants none.
// Throws Failure, which names the source, for a name that is none.
void plant(const char* name, const char* source);

bool planted(Fault fault);

}  // namespace reference
