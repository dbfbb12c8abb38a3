// Runs work that may never return on a thread of its own, and waits for it until a deadline.
#ifndef NVRAR_COMMON_WATCHED_H
#define NVRAR_COMMON_WATCHED_H

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <future>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "common/error.h"

namespace nvrar {

constexpr uint64_t kLongestWaitNs = 86'400'000'000'000;  // a time point further away may overflow

// Blocks signals while a thread is created: signals belong to the host program, and the kernel must not deliver them to
// a thread of ours.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::sigdelset(&all, fault);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// Returns the result of `work`, throws its exception, or returns nothing if the deadline passed first. In that case the
// thread keeps running: `work` must own everything that it accesses, and this library is never unloaded again.
template <class Result, class Work>
std::optional<Result> run_watched(Work work, uint64_t deadline_ns) {
  std::packaged_task<Result()> task(std::move(work));
  std::future<Result> outcome = task.get_future();  // shares its state with the task, so either may end first
  std::thread thread;
  try {
    const SignalsBlocked inherited;
    thread = std::thread(std::move(task));
  } catch (const std::system_error& error) {
    throw Error(NVRAR_SYSTEM, std::string("cannot start a thread: ") + error.what());
  }
  const std::chrono::nanoseconds limit(std::min(deadline_ns, kLongestWaitNs));
  if (outcome.wait_for(limit) != std::future_status::ready) {
    static const char here = 0;
    Dl_info info{};
    if (::dladdr(&here, &info) != 0) (void)::dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    thread.detach();
    return std::nullopt;
  }
  thread.join();
  return outcome.get();
}

}  // namespace nvrar

#endif  // NVRAR_COMMON_WATCHED_H
