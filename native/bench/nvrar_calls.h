// A rank's communicator of libnvrar, and the library call of a problem.
#ifndef NVRAR_BENCH_NVRAR_CALLS_H
#define NVRAR_BENCH_NVRAR_CALLS_H

#include <nvrar.h>

#include <cstdint>

#include "options.h"
#include "problem.h"
#include "team.h"
#include "tune.h"

namespace nvrar::bench {

class Communicator {
 public:
  // Collective: returns when all ranks have connected. Throws what fails.
  Communicator(const Options& options, int32_t backend, int device, Team* team);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  void call(const Problem& problem, const Buffers& at, uint64_t stream);
  // Collective: from the next call on, calls of a collective run as the point says.
  void use(Collective collective, const Point& point);
  void barrier(uint64_t stream);
  // Throws if a call has failed since it returned: on a GPU calls are only enqueued.
  void check(uint64_t stream);

 private:
  void fused_call(const Problem& problem, const Buffers& at, uint64_t stream);

  const int rank_;
  const int32_t algorithm_;
  nvrar_comm* comm_ = nullptr;
};

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_NVRAR_CALLS_H
