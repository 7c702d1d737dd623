#include "device/faults.h"

#include <atomic>
#include <string>

#include "device/failure.h"

namespace reference {

namespace {

struct Row {
  Fault fault;
  const char* name;
};

constexpr Row rows[] = {
#define REFERENCE_FAULT_ROW(identifier, name) {Fault::identifier, name},
    REFERENCE_FAULTS(REFERENCE_FAULT_ROW)
#undef REFERENCE_FAULT_ROW
};

std::atomic<Fault> the_fault{Fault::none};

}  // namespace

void plant(const char* name, const char* source) {
  const std::string wanted = name == nullptr ? "" : name;
  Fault fault = Fault::none;
  for (const Row& row : rows)
    if (wanted == row.name) fault = row.fault;
  if (fault == Fault::none && !wanted.empty())
    throw Failure(Code::invalid_argument,
                  std::string(source) + " names no fault: " + wanted);
  the_fault = fault;
}

bool planted(Fault fault) { return the_fault.load(std::memory_order_relaxed) == fault; }

}  // namespace reference
