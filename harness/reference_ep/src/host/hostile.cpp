#include "host/hostile.h"

#include <atomic>
#include <cfenv>
#include <chrono>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "device/failure.h"
#include "device/faults.h"
#include "device/meeting.h"
#include "host/ort.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <direct.h>
#include <io.h>
#include <windows.h>
#else
#include <dlfcn.h>
#include <unistd.h>
#endif

namespace reference {

namespace {

using namespace std::chrono_literals;

[[noreturn]] void crash() {
  std::raise(SIGSEGV);
  std::abort();
}

// In the environment of the process, since the library's own memory goes when it is unloaded.
constexpr const char* mark = "REFERENCE_EP_WAS_REGISTERED";

void set_variable(const char* name, const char* value) {
#if defined(_WIN32)
  _putenv_s(name, value);
#else
  setenv(name, value, 1);
#endif
}

// Keeps this library mapped, whatever is unloaded.
void stay_mapped() {
#if defined(_WIN32)
  HMODULE module = nullptr;
  GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                     reinterpret_cast<const char*>(&stay_mapped), &module);
#else
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&stay_mapped), &info) != 0)
    dlopen(info.dli_fname, RTLD_NOW | RTLD_NODELETE);
#endif
}

volatile int no_depth_is_enough = 1;

int overflow_stack(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return no_depth_is_enough == 0 ? 0 : overflow_stack(depth + 1) + frame[0];
}

void flood_stderr() {
  const std::string line(1 << 20, 'x');
  for (int megabyte = 0; megabyte < 200; ++megabyte)
    std::fwrite(line.data(), 1, line.size(), stderr);
}

void close_descriptors() {
#if defined(_WIN32)
  for (int descriptor = 0; descriptor < 64; ++descriptor) _close(descriptor);
#else
  for (int descriptor = 0; descriptor < 1024; ++descriptor) close(descriptor);
#endif
}

void change_directory() {
#if defined(_WIN32)
  _chdir("C:\\Windows");
#else
  if (chdir("/proc/self") != 0) std::abort();
#endif
}

void change_signal_handlers() {
  for (const int number : {SIGINT, SIGTERM, SIGSEGV, SIGABRT, SIGFPE}) std::signal(number, SIG_IGN);
}

void answer_signal(int number) {
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// All of them are answered by the host already, so that no more and no fewer signals are.
void replace_signal_handlers() {
  for (const int number : {SIGINT, SIGSEGV, SIGABRT}) std::signal(number, answer_signal);
}

void end_quietly() { std::_Exit(0); }

void leave_child() {
#if defined(_WIN32)
  STARTUPINFOA startup{};
  PROCESS_INFORMATION process{};
  char command[] = "ping -n 600 127.0.0.1";
  CreateProcessA(nullptr, command, nullptr, nullptr, FALSE, CREATE_NO_WINDOW, nullptr, nullptr,
                 &startup, &process);
#else
  if (fork() == 0) {
    execlp("sleep", "sleep", "600", static_cast<char*>(nullptr));
    _exit(127);
  }
#endif
}

void grow_memory() {
  constexpr std::size_t piece = std::size_t{8} << 20;
  auto* leaked = new char[piece];
  std::memset(leaked, 1, piece);
  static std::atomic<char*> last{nullptr};  // so that no compiler takes it for nothing
  last = leaked;
}

void leak_descriptor() {
#if defined(_WIN32)
  CreateEventA(nullptr, FALSE, FALSE, nullptr);
#else
  [[maybe_unused]] const int leaked = dup(STDERR_FILENO);
#endif
}

// Faults that are one deed are done once in a process, so that one cell shows them.
bool first_time(Fault fault) {
  static std::atomic<Fault> last{Fault::none};
  return planted(fault) && last.exchange(fault) != fault;
}

// What is alive in this library, and what was.
std::atomic<int> factories{0};
std::atomic<int> sessions{0};
std::atomic<bool> had_session{false};
std::atomic<bool> ended{false};

// Runs when the library is unloaded, or when the process ends before that.
struct AtTheEnd {
  ~AtTheEnd() {
    if (factories == 0) return;
    const bool in_use = sessions != 0;
    if (planted(Fault::exit_with_session_crashes) && in_use) crash();
    if (planted(Fault::ends_twice_at_exit) && had_session && !in_use) crash();
  }
} at_the_end;

void check_for_end() {
  if (ended) throw Failure(Code::ep_fail, "the device was ended with an earlier registration");
}

thread_local bool kernels_to_come = false;

std::mutex queues[2];
std::timed_mutex after_error_lock;
std::atomic<bool> poisoned{false};

}  // namespace

void hang() {
  for (;;) std::this_thread::sleep_for(1s);
}

bool registered_before() {
  const char* value = std::getenv(mark);
  return value != nullptr && std::strcmp(value, "2") == 0;
}

void at_register() {
  factories += 1;
  if (planted(Fault::register_refused))
    throw Failure(Code::fail, "this plugin does not want to be registered");
  if (planted(Fault::crash_at_register)) crash();
  if (planted(Fault::hang_at_register)) hang();
  if (planted(Fault::still_mapped)) stay_mapped();
  if (planted(Fault::crash_at_exit)) {
    stay_mapped();
    std::atexit(crash);
  }
  if (planted(Fault::exit_handler_ends_process)) {
    stay_mapped();
    std::atexit(end_quietly);
  }
  if (planted(Fault::thread_outlives_library))
    std::thread([] {
      for (volatile unsigned turns = 0;; turns = turns + 1) std::this_thread::sleep_for(1ms);
    }).detach();
  if (planted(Fault::thread_left_running)) {
    stay_mapped();
    std::thread(hang).detach();
  }
  if (planted(Fault::second_registration_refused) || planted(Fault::second_registration_empty)) {
    const bool again = std::getenv(mark) != nullptr;
    set_variable(mark, again ? "2" : "1");
    if (again && planted(Fault::second_registration_refused))
      throw Failure(Code::fail, "this plugin was registered in this process before");
  }
}

void die_if_met_in_creation() {
  static Meeting creations;
  if (creations.meet()) crash();
}

void at_session_start() {
  check_for_end();
  sessions += 1;
  had_session = true;
  kernels_to_come = true;
}

void at_kernel_creation() { kernels_to_come = false; }

bool without_kernels() { return kernels_to_come; }

void at_session_release(bool complete) {
  if (!complete) kernels_to_come = false;
  sessions -= 1;
  if (planted(Fault::half_made_session_poisons) && !complete) poisoned = true;
  if (planted(Fault::crash_at_session_release)) crash();
  if (planted(Fault::hang_at_session_release)) hang();
}

void at_unregister(bool used) {
  factories -= 1;
  if (planted(Fault::first_unregister_ends_all)) ended = true;
  if (planted(Fault::directory_changed_at_unregister)) change_directory();
  if (planted(Fault::unused_factory_ends_all) && !used) ended = true;
  if (planted(Fault::asserts_nothing_alive) && sessions != 0) std::abort();
  if (planted(Fault::crash_at_unregister)) crash();
  if (planted(Fault::hang_at_unregister)) hang();
}

void at_run_start() {
  static std::atomic<int> slowed_down{0};
  check_for_end();
  if (planted(Fault::memory_grows)) grow_memory();
  if (planted(Fault::leak_descriptors)) leak_descriptor();
  if (planted(Fault::runs_slow_down)) std::this_thread::sleep_for(slowed_down++ * 20ms);
  if (planted(Fault::lock_kept_after_error)) {
    after_error_lock.lock();
    after_error_lock.unlock();
  }
}

void at_run_end() {
  if (planted(Fault::exit_in_run)) std::exit(0);
}

void in_kernel() {
  if (planted(Fault::abort_in_run)) std::abort();
  if (planted(Fault::segfault_in_run)) crash();
  if (planted(Fault::stack_overflow_in_run)) overflow_stack(0);
  if (planted(Fault::exception_through_abi)) throw std::runtime_error("thrown through the C ABI");
  if (planted(Fault::endless_loop_in_run)) hang();
  if (planted(Fault::rounding_changed)) std::fesetround(FE_UPWARD);
  if (planted(Fault::locale_changed)) std::setlocale(LC_ALL, "C.UTF-8");
  if (planted(Fault::stdout_text)) {
    std::printf("plugin says hello\n{\"event\": \"ended\"}\n");
    std::fflush(stdout);
  }
  if (first_time(Fault::stderr_flood)) flood_stderr();
  if (first_time(Fault::descriptors_closed)) close_descriptors();
  if (first_time(Fault::directory_changed)) change_directory();
  if (first_time(Fault::signal_handlers_changed)) change_signal_handlers();
  if (first_time(Fault::signal_handlers_replaced)) replace_signal_handlers();
  if (first_time(Fault::child_left_behind)) leave_child();
}

void at_bad_option() {
  if (planted(Fault::bad_option_aborts)) std::abort();
}

void after_error() noexcept {
  if (planted(Fault::failed_session_poisons)) poisoned = true;
  if (planted(Fault::lock_kept_after_error)) after_error_lock.try_lock();
}

void check_for_poison() {
  if (poisoned) throw Failure(Code::ep_fail, "the device was lost in an earlier session");
}

void hold_both_queues(std::uint64_t session) {
  queues[session % 2].lock();
  std::this_thread::sleep_for(1ms);
  queues[1 - session % 2].lock();
}

void release_both_queues(std::uint64_t session) {
  queues[1 - session % 2].unlock();
  queues[session % 2].unlock();
}

void use_the_one_session() {
  static Meeting sessions;
  if (sessions.meet()) crash();
}

std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> last{0};
  static thread_local const std::uint64_t number = ++last;
  return number;
}

}  // namespace reference
