// How the example that decodes on GPUs chooses a token: its header, compiled for the host.
#include "choice.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace nvrar::test {
namespace {

uint32_t chosen(const std::vector<float>& logits, float temperature, uint64_t seed) {
  const int32_t zero = 0;
  const llama::Sampling sampling{&temperature, &seed, &zero, &zero};
  const llama::RowChoice choice(sampling, 0);
  uint64_t best = 0;
  for (uint32_t token = 0; token < logits.size(); ++token) best = std::max(best, choice.key(logits[token], token));
  return ~static_cast<uint32_t>(best);
}

TEST(Choice, IsOfTheGreatestLogitHoweverSmallTheTemperature) {
  const std::vector<float> logits = {1.5F, 20, -3, 20.0001F, 19.9F, -std::numeric_limits<float>::infinity(), 0};
  for (const float temperature :
       {0.0F, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::min(), 1e-37F, 1e-30F, 1e-20F}) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      ASSERT_EQ(chosen(logits, temperature, seed), 3U) << "at temperature " << temperature;
    }
  }
}

TEST(Choice, IsAsTheSoftmaxSaysAtOtherTemperatures) {
  constexpr int kDraws = 20'000;
  const std::vector<float> logits = {0, std::log(3.0F)};
  int second = 0;
  for (uint64_t seed = 0; seed < kDraws; ++seed) second += chosen(logits, 1, seed) == 1 ? 1 : 0;
  EXPECT_NEAR(second, kDraws * 3 / 4, 4 * std::sqrt(kDraws * 3.0 / 16));
}

}  // namespace
}  // namespace nvrar::test
