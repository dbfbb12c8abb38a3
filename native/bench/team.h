// The processes of a run, forked from one process, each a rank, with a page of shared memory.
#ifndef NVRAR_BENCH_TEAM_H
#define NVRAR_BENCH_TEAM_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

namespace nvrar::bench {

struct Board;

// One process's view of the others.
class Team {
 public:
  static constexpr size_t kShareBytes = 16 << 10;

  Team(Board* board, int rank, int size) : board_(board), rank_(rank), size_(size) {}

  int rank() const { return rank_; }
  int size() const { return size_; }

  // A spinning barrier: returns within a tenth of a microsecond on all ranks if each has a core. Throws if a rank does
  // not come.
  void meet();

  // This process's slot in the shared page. The others may read it once they know that it is written.
  uint8_t* mine() { return slot(rank_); }
  const uint8_t* of(int rank) const { return slot(rank); }

  // Collective: returns the value of each rank, in rank order.
  template <class T>
  std::vector<T> exchange(const T& value);
  template <class T>
  std::vector<std::vector<T>> exchange(const std::vector<T>& values);

 private:
  uint8_t* slot(int rank) const;
  void give(const void* data, size_t bytes);

  Board* const board_;
  const int rank_;
  const int size_;
};

// Forks `size` processes, runs the body in each, and waits for all. The body's result is the process's exit code, 1 if
// it throws. Returns 0 if all are 0; else the first other code, after the other processes were ended. A code of
// `harmless` does not end the others.
int run_team(int size, int harmless, const std::function<int(Team*)>& body);

// Runs the body in this process, as a rank of a team whose other ranks do the same and map the same file, which is
// made for one team. Returns the body's result.
int join_team(const std::string& board, int rank, int size, const std::function<int(Team*)>& body);

// Runs the body in a separate process and returns its result, or prints the exception and returns kApartFailed.
// Anything that the body initialises, such as CUDA, stays out of this process.
constexpr int kApartFailed = 255;
int run_apart(const std::function<int()>& body);

template <class T>
std::vector<T> Team::exchange(const T& value) {
  std::vector<T> all;
  for (const std::vector<T>& one : exchange(std::vector<T>{value})) all.push_back(one[0]);
  return all;
}

template <class T>
std::vector<std::vector<T>> Team::exchange(const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  give(values.data(), values.size() * sizeof(T));
  meet();
  std::vector<std::vector<T>> all;
  for (int rank = 0; rank < size_; ++rank) {
    const T* const begin = reinterpret_cast<const T*>(of(rank));
    all.emplace_back(begin, begin + values.size());
  }
  meet();
  return all;
}

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_TEAM_H
