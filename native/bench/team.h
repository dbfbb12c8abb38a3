// The processes of a run: forked from one, each a rank, with a page that all of them see.
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

  // Returns when all are here, to the tenth of a microsecond where each has a core: it spins. Throws where somebody
  // does not come.
  void meet();

  // What this process shows the others; they may read it once they know that it is written.
  uint8_t* mine() { return slot(rank_); }
  const uint8_t* of(int rank) const { return slot(rank); }

  // Collective: what each gave, in the order of ranks.
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
// it throws. Returns 0 if all are 0; else the first that was not, after ending the others, unless it is
// `harmless`: then the others go on.
int run_team(int size, int harmless, const std::function<int(Team*)>& body);

// Runs the body in a process of its own and returns its result, kApartFailed if it throws, which is said then: what it
// starts, such as CUDA, stays out of this process.
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
