// How many links a rank of many hosts reads for nothing. The library's calls of recv() come here.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <vector>

#include "links/fake_rank.h"

namespace {

thread_local std::map<int, int>* empty_reads = nullptr;  // by descriptor, while this thread counts

}  // namespace

extern "C" ssize_t recv(int fd, void* room, size_t bytes, int flags) {
  const ssize_t got = ::recvfrom(fd, room, bytes, flags, nullptr, nullptr);
  if (empty_reads != nullptr && got < 0 && errno == EAGAIN) {
    ++(*empty_reads)[fd];
    errno = EAGAIN;  // whatever the map's memory has made of it
  }
  return got;
}

namespace nvrar::test {
namespace {

// The link of the rank whose packets are awaited is read again and again, the other links only when they have
// something.
TEST(Reads, OfManyLinksOnlyTheAwaitedOneIsReadForNothing) {
  constexpr uint32_t kWorld = 17;
  FakeRank fake({.timeout_ns = 200 * kMs}, kWorld);
  std::vector<float> values(64);
  const auto address = reinterpret_cast<uint64_t>(values.data());
  std::map<int, int> counts;
  empty_reads = &counts;
  const nvrar_status status =
      nvrar_broadcast(fake.comm(), address, address, values.size(), NVRAR_FLOAT32, FakeRank::kFake, 0);
  empty_reads = nullptr;
  EXPECT_EQ(status, NVRAR_TIMEOUT) << nvrar_last_error();
  int all = 0;
  int most = 0;
  for (const auto& [fd, count] : counts) {
    all += count;
    most = std::max(most, count);
  }
  EXPECT_GT(most, 0);
  // At its deadline the call reads each of them once more.
  EXPECT_LE(all - most, int{3 * kWorld}) << all << " reads brought nothing, " << most << " of them of one link";
}

}  // namespace
}  // namespace nvrar::test
