// A set of a group's ranks.
#ifndef NVRAR_COMMON_RANK_SET_H
#define NVRAR_COMMON_RANK_SET_H

#include <nvrar.h>

#include <array>
#include <cstdint>

namespace nvrar {

class RankSet {
 public:
  static constexpr uint32_t kWordBits = 64;
  static constexpr uint32_t kWords = NVRAR_MAX_WORLD_SIZE / kWordBits;
  using Words = std::array<uint64_t, kWords>;

  constexpr RankSet() = default;
  explicit constexpr RankSet(const Words& words) : words_(words) {}
  static constexpr RankSet of(uint32_t rank) {
    RankSet set;
    set.add(rank);
    return set;
  }
  // Bit r of the word: rank r.
  static constexpr RankSet of_first(uint64_t word) {
    RankSet set;
    set.words_[0] = word;
    return set;
  }
  static constexpr RankSet all(uint32_t world) {
    RankSet set;
    for (uint32_t rank = 0; rank < world; ++rank) set.add(rank);
    return set;
  }

  constexpr void add(uint32_t rank) { words_[rank / kWordBits] |= uint64_t{1} << rank % kWordBits; }
  constexpr bool has(uint32_t rank) const { return (words_[rank / kWordBits] >> rank % kWordBits & 1) != 0; }
  constexpr bool empty() const { return *this == RankSet(); }
  constexpr uint32_t count() const {
    uint32_t ranks = 0;
    each([&](uint32_t) { ++ranks; });
    return ranks;
  }
  constexpr const Words& words() const { return words_; }

  // In the order of the ranks.
  template <class Visit>
  constexpr void each(Visit visit) const {
    for (uint32_t i = 0; i < kWords; ++i) {
      for (uint64_t left = words_[i]; left != 0; left &= left - 1) {
        visit(i * kWordBits + static_cast<uint32_t>(__builtin_ctzll(left)));
      }
    }
  }

  constexpr RankSet& operator|=(const RankSet& other) {
    for (uint32_t i = 0; i < kWords; ++i) words_[i] |= other.words_[i];
    return *this;
  }
  friend constexpr RankSet operator|(RankSet a, const RankSet& b) { return a |= b; }
  friend constexpr RankSet operator&(RankSet a, const RankSet& b) {
    for (uint32_t i = 0; i < kWords; ++i) a.words_[i] &= b.words_[i];
    return a;
  }
  // The ranks of a that are not in b.
  friend constexpr RankSet operator-(RankSet a, const RankSet& b) {
    for (uint32_t i = 0; i < kWords; ++i) a.words_[i] &= ~b.words_[i];
    return a;
  }
  constexpr bool operator==(const RankSet&) const = default;

 private:
  Words words_{};
};

}  // namespace nvrar

#endif  // NVRAR_COMMON_RANK_SET_H
