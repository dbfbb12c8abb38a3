// Tests of the checks of a fused all-reduce, each by its message.
#include "call/fusion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "protocol/fusion.h"
#include "support/error_of.h"

namespace nvrar::test {
namespace {

constexpr uint64_t kApart = 0x100000;  // from one buffer to the next
constexpr uint32_t kRows = 5;

// "" if the call passes; NVRAR_INVALID_ARGUMENT has the number 1.
std::string refusal(const nvrar_fused_all_reduce& given) {
  return error_of([&] {
    const Fusion fusion = fusion_of(given);
    check_call(fused_call(given, fusion), 1, {4, 4});
  });
}

nvrar_fused_all_reduce good(int32_t form) {
  nvrar_fused_all_reduce call{};
  call.size = sizeof call;
  call.form = form;
  call.data_type = NVRAR_BFLOAT16;
  call.rows = kRows;
  call.hidden = 64;
  call.input = kApart;
  call.output = 2 * kApart;
  if (form != NVRAR_FUSION_BIAS) call.residual = 3 * kApart;
  if (form != NVRAR_FUSION_RESIDUAL) call.weight = 4 * kApart;
  if (form == NVRAR_FUSION_RMS_NORM || form == NVRAR_FUSION_RMS_FOLD) call.residual_out = 5 * kApart;
  if (form == NVRAR_FUSION_RMS_NORM) call.eps = 1e-5f;
  if (form == NVRAR_FUSION_RMS_FOLD) call.squares = 6 * kApart;
  return call;
}

std::string refusal_of(int32_t form, const std::function<void(nvrar_fused_all_reduce&)>& change) {
  nvrar_fused_all_reduce call = good(form);
  change(call);
  return refusal(call);
}

using Fused = nvrar_fused_all_reduce;
constexpr int32_t kAllForms[] = {NVRAR_FUSION_RESIDUAL, NVRAR_FUSION_BIAS, NVRAR_FUSION_RMS_NORM,
                                 NVRAR_FUSION_RMS_FOLD};

TEST(CheckFusion, AcceptsEveryFormTypeAndRow) {
  for (const int32_t form : kAllForms) {
    for (const int32_t type : {NVRAR_BFLOAT16, NVRAR_FLOAT16, NVRAR_FLOAT32}) {
      for (const uint32_t hidden : {8u, 24u, 16384u}) {
        EXPECT_EQ(refusal_of(form,
                             [&](Fused& c) {
                               c.data_type = type;
                               c.hidden = hidden;
                             }),
                  "");
      }
    }
  }
}

TEST(CheckFusion, RefusesCodesThatDoNotExist) {
  for (const int32_t form : {0, 5, -1}) {
    EXPECT_EQ(refusal_of(NVRAR_FUSION_RESIDUAL, [&](Fused& c) { c.form = form; }),
              "1 there is no form " + std::to_string(form) + " of a fused all-reduce");
  }
  EXPECT_EQ(refusal_of(NVRAR_FUSION_BIAS, [](Fused& c) { c.data_type = 3; }), "1 there is no data type 3");
  EXPECT_EQ(refusal_of(NVRAR_FUSION_BIAS, [](Fused& c) { c.algorithm = 4; }), "1 there is no algorithm 4");
  EXPECT_EQ(refusal_of(NVRAR_FUSION_BIAS, [](Fused& c) { c.reserved = 1; }), "1 call.reserved is not 0");
}

TEST(CheckFusion, RefusesOtherTypes) {
  const char* const names[] = {"int8", "uint8", "int32", "", "int64", "", "", "", "float64"};
  for (const int32_t type : {NVRAR_INT8, NVRAR_UINT8, NVRAR_INT32, NVRAR_INT64, NVRAR_FLOAT64}) {
    EXPECT_EQ(
        refusal_of(NVRAR_FUSION_RMS_NORM, [&](Fused& c) { c.data_type = type; }),
        std::string("1 a fused all-reduce is for bfloat16, float16 and float32, and the elements are ") + names[type]);
  }
}

TEST(CheckFusion, RefusesRowsOfOtherLengths) {
  for (const uint32_t hidden : {0u, 4u, 12u, 16392u, ~0u}) {
    EXPECT_EQ(refusal_of(NVRAR_FUSION_RESIDUAL, [&](Fused& c) { c.hidden = hidden; }),
              "1 hidden " + std::to_string(hidden) + " is not a multiple of 8 between 8 and 16384");
  }
}

TEST(CheckFusion, RefusesAnEpsThatIsNone) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float eps : {-1e-5f, infinity, -infinity, std::nanf("")}) {
    EXPECT_EQ(refusal_of(NVRAR_FUSION_RMS_NORM, [&](Fused& c) { c.eps = eps; }),
              "1 eps is not a finite number of at least 0");
  }
  EXPECT_EQ(refusal_of(NVRAR_FUSION_RMS_NORM, [](Fused& c) { c.eps = 0; }), "");
  EXPECT_EQ(refusal_of(NVRAR_FUSION_RESIDUAL, [](Fused& c) { c.eps = 1e-5f; }),
            "1 eps is not 0, and an all-reduce + residual has none");
  EXPECT_EQ(refusal_of(NVRAR_FUSION_BIAS, [](Fused& c) { c.eps = std::nanf(""); }),
            "1 eps is not 0, and an all-reduce + bias has none");
  EXPECT_EQ(refusal_of(NVRAR_FUSION_RMS_FOLD, [](Fused& c) { c.eps = 1e-5f; }),
            "1 eps is not 0, and an all-reduce + residual + RMS fold has none");
}

struct Field {
  const char* name;
  uint64_t Fused::*address;
};
constexpr Field kFields[] = {{"input", &Fused::input},
                             {"output", &Fused::output},
                             {"residual", &Fused::residual},
                             {"weight", &Fused::weight},
                             {"residual_out", &Fused::residual_out},
                             {"squares", &Fused::squares}};

// What a form uses it needs, aligned and within the address space; what it does not use is 0.
TEST(CheckFusion, RefusesAddressesThatAreNoneOrTooMany) {
  const char* const names[] = {"", " + residual", " + bias", " + residual + RMS norm", " + residual + RMS fold"};
  for (const int32_t form : kAllForms) {
    for (const auto& [name, address] : kFields) {
      const auto with = [form = form, address = address](uint64_t value) {
        return refusal_of(form, [&](Fused& c) { c.*address = value; });
      };
      if (good(form).*address == 0) {
        EXPECT_EQ(with(kApart * 9),
                  std::string("1 ") + name + " is not 0, and an all-reduce" + names[form] + " has none");
        continue;
      }
      EXPECT_EQ(with(0), std::string("1 ") + name + " is null");
      for (const uint64_t distance : {1u, 2u, 4u, 8u}) {
        EXPECT_EQ(with(kApart * 9 + distance), std::string("1 ") + name + " is not aligned to 16 bytes");
      }
      EXPECT_EQ(with(~uint64_t{15}), std::string("1 ") + name +
                                         " and the count reach past the end of the address "
                                         "space");
    }
  }
}

TEST(CheckFusion, LooksAtNoBufferWithoutRows) {
  const auto without_rows = [](Fused& c) {
    c.rows = 0;
    c.input = c.output = 0;
  };
  for (const int32_t form : kAllForms) EXPECT_EQ(refusal_of(form, without_rows), "");
  EXPECT_EQ(refusal_of(NVRAR_FUSION_RESIDUAL,
                       [&](Fused& c) {
                         without_rows(c);
                         c.squares = 16;
                       }),
            "1 squares is not 0, and an all-reduce + residual has none");
}

// Rows of 128 bytes, with one sum of squares each.
TEST(CheckFusion, AcceptsOutputsAtInputsAndRefusesEveryOtherOverlap) {
  const auto bytes_of = [](const Field& field) {
    return field.address == &Fused::weight ? uint64_t{128} : kRows * (field.address == &Fused::squares ? 4 : 128);
  };
  const auto is_output = [](const Field& field) {
    return field.address == &Fused::output || field.address == &Fused::residual_out;
  };
  const auto is_input = [](const Field& field) {
    return field.address == &Fused::input || field.address == &Fused::residual;
  };
  const auto is_read = [&](const Field& field) { return is_input(field) || field.address == &Fused::weight; };
  for (const int32_t form : kAllForms) {
    for (const Field& a : kFields) {
      for (const Field& b : kFields) {
        if (a.address == b.address || good(form).*a.address == 0 || good(form).*b.address == 0) continue;
        const auto moved = [&](uint64_t distance) {
          return refusal_of(form, [&](Fused& c) { c.*a.address = c.*b.address + distance; });
        };
        const uint64_t last = (bytes_of(b) - 1) / 16 * 16;  // the last place that overlaps
        for (const uint64_t distance : {uint64_t{0}, uint64_t{16}, last, uint64_t{0} - 16}) {
          const std::string text = moved(distance);
          const bool may = (is_read(a) && is_read(b)) ||
                           (distance == 0 && ((is_output(a) && is_input(b)) || (is_output(b) && is_input(a))));
          const bool names = text.find(std::string(a.name) + " and " + b.name + " overlap") == 2 ||
                             text.find(std::string(b.name) + " and " + a.name + " overlap") == 2;
          EXPECT_TRUE(may ? text.empty() : names)
              << a.name << " at " << b.name << " + " << static_cast<int64_t>(distance) << ": " << text;
        }
        EXPECT_EQ(moved(last + 16), "") << a.name << " behind " << b.name;
      }
    }
  }
}

TEST(FusedRow, HasAPartForEvery128Bytes) {
  EXPECT_EQ(protocol::parts_of(16), 1u);
  EXPECT_EQ(protocol::parts_of(128), 1u);
  EXPECT_EQ(protocol::parts_of(144), 2u);
  EXPECT_EQ(protocol::parts_of(NVRAR_MAX_HIDDEN * 4), 512u);
}

TEST(DescribeCall, NamesTheFormOfAFusedAllReduce) {
  nvrar_call call{};
  call.sequence = 41;
  call.count = 4 * 8192;
  call.collective = NVRAR_ALL_REDUCE;
  call.data_type = NVRAR_BFLOAT16;
  call.algorithm = NVRAR_ALGORITHM_ONE_SHOT;
  call.fusion = NVRAR_FUSION_RMS_NORM;
  call.hidden = 8192;
  EXPECT_EQ(describe(call), "allReduce #41 bfloat16[4 x 8192] SUM + residual + RMS norm (one-shot)");
  call.fusion = 7;  // of a rank that lies
  call.hidden = 0;
  EXPECT_EQ(describe(call), "allReduce #41 bfloat16[32768] SUM + form 7 (one-shot)");
}

}  // namespace
}  // namespace nvrar::test
