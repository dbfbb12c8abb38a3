#include "measure.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace nvrar::bench {
namespace {

constexpr uint8_t kPoison = 0xA5;    // overwrites the output, so that a call that writes nothing is detected
constexpr size_t kAlignBytes = 256;  // the alignment of the Java API's buffers

struct Free {
  void operator()(uint8_t* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<uint8_t, Free>;

Buffer allocate(uint64_t bytes) {
  const uint64_t rounded = (bytes + kAlignBytes) / kAlignBytes * kAlignBytes;
  Buffer buffer(static_cast<uint8_t*>(std::aligned_alloc(kAlignBytes, rounded)));
  if (!buffer) throw std::bad_alloc();
  std::memset(buffer.get(), kPoison, rounded);
  return buffer;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Batches {
 public:
  void add(double us, uint64_t wrong) {
    us_.push_back(us);
    wrong_ += wrong;
  }

  Cell cell() { return cell_of(&us_, wrong_); }

 private:
  std::vector<double> us_;
  uint64_t wrong_ = 0;
};

class Size {
 public:
  Size(Member* member, const Options& options, const Problem& problem)
      : member_(member),
        problem_(problem),
        element_bytes_(type_bytes(problem.data_type)),
        iterations_(options.iterations_of(problem.bytes())),
        warmup_(options.warmup_of(problem.bytes())),
        send_(allocate(problem.send_elements() * element_bytes_)),
        recv_(allocate(problem.recv_elements() * element_bytes_)),
        both_(allocate(problem.bytes())) {}

  void out_of_place(uint64_t seed, Batches* batches) {
    problem_.fill(seed, member_->rank(), send_.get());
    const double us = time(send_.get(), recv_.get());
    std::memset(recv_.get(), kPoison, problem_.recv_elements() * element_bytes_);
    member_->call(problem_, send_.get(), recv_.get());
    finish(us, seed, recv_.get(), batches);
  }

  void in_place(uint64_t seed, Batches* batches) {
    uint8_t* send = both_.get() + problem_.send_offset_in_place(member_->rank()) * element_bytes_;
    uint8_t* recv = both_.get() + problem_.recv_offset_in_place(member_->rank()) * element_bytes_;
    // Calls in place reuse their own results as input, so the values are zeros, which every operation leaves unchanged.
    std::memset(both_.get(), 0, problem_.bytes());
    const double us = time(send, recv);
    std::memset(both_.get(), kPoison, problem_.bytes());
    problem_.fill(seed, member_->rank(), send);
    member_->call(problem_, send, recv);
    finish(us, seed, recv, batches);
  }

  int iterations() const { return iterations_; }

 private:
  double time(const uint8_t* send, uint8_t* recv) {
    for (int i = 0; i < warmup_; ++i) member_->call(problem_, send, recv);
    member_->barrier();
    const double begin = seconds_now();
    for (int i = 0; i < iterations_; ++i) member_->call(problem_, send, recv);
    return (seconds_now() - begin) * 1e6 / iterations_;
  }

  void finish(double us, uint64_t seed, const uint8_t* recv, Batches* batches) {
    const uint64_t wrong = problem_.wrong(seed, member_->rank(), recv);
    batches->add(member_->max_of_ranks(us), member_->sum_of_ranks(wrong));
  }

  Member* member_;
  const Problem problem_;
  const uint64_t element_bytes_;
  const int iterations_;
  const int warmup_;
  const Buffer send_;
  const Buffer recv_;
  const Buffer both_;
};

Row measure_size(Member* member, const Options& options, const Problem& problem) {
  Size size(member, options, problem);
  Batches out_of_place;
  Batches in_place;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    const uint64_t seed = problem.bytes() * 1000 + static_cast<uint64_t>(repeat);
    size.out_of_place(seed * 2, &out_of_place);
    if (problem.has_in_place()) size.in_place(seed * 2 + 1, &in_place);
  }
  Row row;
  row.problem = problem;
  row.iterations = size.iterations();
  row.out_of_place = out_of_place.cell();
  if (problem.has_in_place()) row.in_place = in_place.cell();
  return row;
}

}  // namespace

Cell cell_of(std::vector<double>* us, uint64_t wrong) {
  std::sort(us->begin(), us->end());
  const size_t half = us->size() / 2;
  const double median = us->size() % 2 == 1 ? (*us)[half] : ((*us)[half - 1] + (*us)[half]) / 2;
  return {median, us->front(), us->back(), wrong};
}

std::vector<Problem> problems_of(const Options& options) {
  std::vector<Problem> problems;
  if (options.fused) {
    for (uint32_t rows : options.rows) problems.push_back(Problem::of_rows(options, rows));
    return problems;
  }
  for (Collective collective : options.collectives) {
    uint64_t last_count = 0;
    for (uint64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= options.factor) {
      const Problem problem = Problem::of_size(options, collective, bytes);
      if (problem.count == last_count && bytes != options.min_bytes)
        continue;  // less than one element per rank, or a barrier
      last_count = problem.count;
      problems.push_back(problem);
    }
  }
  return problems;
}

Row measure_problem(Member* member, const Options& options, const Problem& problem) {
  Size size(member, options, problem);
  Batches batches;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    size.out_of_place(problem.bytes() * 1000 + static_cast<uint64_t>(repeat), &batches);
  }
  Row row;
  row.problem = problem;
  row.iterations = size.iterations();
  row.out_of_place = batches.cell();
  return row;
}

uint64_t measure(Member* member, const Options& options, const std::function<void(const Row&)>& show) {
  uint64_t wrong = 0;
  for (const Problem& problem : problems_of(options)) {
    const Row row = measure_size(member, options, problem);
    wrong += row.out_of_place.wrong + (row.in_place ? row.in_place->wrong : 0);
    show(row);
  }
  return wrong;
}

}  // namespace nvrar::bench
