// nvrar_bench_mpi: MPI_Allreduce by the same measurement. Started by mpirun, which sets the number of processes.
#include <mpi.h>
#include <nvrar.h>

#include <cstdio>
#include <exception>
#include <string>

#include "measure.h"
#include "output.h"

namespace nvrar::bench {
namespace {

// 0 for types that MPI does not have.
MPI_Datatype mpi_type(int32_t data_type) {
  switch (data_type) {
    case NVRAR_INT8:
      return MPI_INT8_T;
    case NVRAR_UINT8:
      return MPI_UINT8_T;
    case NVRAR_INT32:
      return MPI_INT32_T;
    case NVRAR_INT64:
      return MPI_INT64_T;
    case NVRAR_FLOAT32:
      return MPI_FLOAT;
    case NVRAR_FLOAT64:
      return MPI_DOUBLE;
    default:
      return MPI_DATATYPE_NULL;
  }
}

MPI_Op mpi_op(int32_t op) {
  switch (op) {
    case NVRAR_SUM:
      return MPI_SUM;
    case NVRAR_PRODUCT:
      return MPI_PROD;
    case NVRAR_MAX:
      return MPI_MAX;
    case NVRAR_MIN:
      return MPI_MIN;
    default:
      return MPI_OP_NULL;
  }
}

// Return codes of MPI calls are not checked, because the default error handler ends all processes with a message.
class MpiMember final : public Member {
 public:
  explicit MpiMember(const Options& options) : type_(mpi_type(options.data_type)), op_(mpi_op(options.op)) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  }

  int rank() const override { return rank_; }

  void call(const Problem& problem, const uint8_t* send, uint8_t* recv) override {
    const void* from = send == recv ? MPI_IN_PLACE : static_cast<const void*>(send);
    MPI_Allreduce(from, recv, static_cast<int>(problem.count), type_, op_, MPI_COMM_WORLD);
  }

  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  double max_of_ranks(double value) override {
    double max = 0;
    MPI_Allreduce(&value, &max, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return max;
  }

  uint64_t sum_of_ranks(uint64_t value) override {
    uint64_t sum = 0;
    MPI_Allreduce(&value, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return sum;
  }

 private:
  const MPI_Datatype type_;
  const MPI_Op op_;
  int rank_ = 0;
};

Options parse(int argc, char** argv) {
  Options options = parse_options(argc, argv);
  for (Collective collective : options.collectives) {
    if (collective != Collective::kAllReduce) {
      throw UsageError(std::string("--collective is ") + name_of(collective) + ", MPI is measured in all-reduce only");
    }
  }
  if (mpi_type(options.data_type) == MPI_DATATYPE_NULL) {
    throw UsageError(std::string("--type is ") + type_name(options.data_type) + ", which MPI does not have");
  }
  if (mpi_op(options.op) == MPI_OP_NULL) {
    throw UsageError(std::string("--op is ") + op_name(options.op) + ", which MPI does not have");
  }
  MPI_Comm_size(MPI_COMM_WORLD, &options.processes);
  return options;
}

std::string library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, static_cast<size_t>(length));
  return all.substr(0, all.find(','));
}

int run(const Options& options) {
  MpiMember member(options);
  if (member.rank() != 0) {
    measure(&member, options, [](const Row&) {});
    return 0;
  }
  Output output(options, "open-mpi", library());
  const uint64_t wrong = measure(&member, options, [&](const Row& row) { output.show(row); });
  output.end(wrong);
  return wrong == 0 ? 0 : kWrongResults;
}

int run_main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int code = 1;
  try {
    code = run(parse(argc, argv));
  } catch (const UsageError& e) {
    if (rank == 0) std::fprintf(stderr, "nvrar_bench_mpi: %s\n", e.what());
    code = 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "nvrar_bench_mpi: rank %d: %s\n", rank, e.what());
    MPI_Abort(MPI_COMM_WORLD, code);
  }
  MPI_Finalize();
  return code;
}

}  // namespace
}  // namespace nvrar::bench

int main(int argc, char** argv) { return nvrar::bench::run_main(argc, argv); }
