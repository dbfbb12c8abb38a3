// One fused all-reduce with its data, from any rank's side, and what it must give: a reference written from nvrar.h.
#ifndef NVRAR_TEST_SUPPORT_FUSED_CASE_H
#define NVRAR_TEST_SUPPORT_FUSED_CASE_H

#include <nvrar.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/pool.h"

namespace nvrar::test {

constexpr int32_t kForms[] = {NVRAR_FUSION_RESIDUAL, NVRAR_FUSION_BIAS, NVRAR_FUSION_RMS_NORM, NVRAR_FUSION_RMS_FOLD};
constexpr int32_t kFusedTypes[] = {NVRAR_BFLOAT16, NVRAR_FLOAT16, NVRAR_FLOAT32};

// Where a result goes.
enum class Place { kApart, kInput, kResidual };

struct FusedCase {
  int32_t form = NVRAR_FUSION_RMS_NORM;
  int32_t data_type = NVRAR_BFLOAT16;
  int32_t algorithm = NVRAR_ALGORITHM_AUTO;
  uint32_t rows = 1;
  uint32_t hidden = 8;
  float eps = 0;       // of RMS_NORM
  uint64_t first = 0;  // start of the window in the data
  Place output = Place::kApart;
  Place residual_out = Place::kApart;
  uint64_t distance = 0;  // of the buffers from multiples of 64 bytes, in units of 16 and differing among them

  bool has_residual() const { return form != NVRAR_FUSION_BIAS; }
  bool has_weight() const { return form != NVRAR_FUSION_RESIDUAL; }
  bool has_residual_out() const { return form == NVRAR_FUSION_RMS_NORM || form == NVRAR_FUSION_RMS_FOLD; }
  bool has_squares() const { return form == NVRAR_FUSION_RMS_FOLD; }
  uint64_t row_bytes() const;
  uint64_t bytes() const { return rows * row_bytes(); }
  uint64_t parts() const { return (row_bytes() + 127) / 128; }  // of a row
};
std::string describe_case(const FusedCase& c);
// Every pair of places that the form allows.
std::vector<std::pair<Place, Place>> places(int32_t form);

// What the ranks of a group pass: inputs that differ, and the same residual and weight.
struct FusedData {
  FusedData(int32_t data_type, int world, int ranks_per_node, uint64_t elements, uint64_t seed);
  FusedData(int32_t data_type, int world, int ranks_per_node, uint64_t elements, const Pool::Bits& inputs,
            const Pool::Bits& residual, const Pool::Bits& weight);

  Pool sums;
  std::vector<uint8_t> residual;
  std::vector<uint8_t> weight;
};
// The bits of the type that are nearest to the number.
uint64_t bits_of(int32_t data_type, double number);

struct FusedResult {
  std::vector<uint8_t> output;
  std::vector<uint8_t> residual_out;
  std::vector<uint8_t> squares;
};
// By float32 arithmetic in the stated order. contracted: as a wrong build would compute, with squares added without
// being rounded.
FusedResult fused_reference(const FusedCase& c, const FusedData& data, bool contracted = false);
// The largest error of the output in ulps of the type, by float64 arithmetic from the sums and the stored h.
double largest_error(const FusedCase& c, const FusedData& data, const FusedResult& result);

// The call as a caller passes it, of buffers that hold all zeros where the form has none.
nvrar_fused_all_reduce fused_call_of(const FusedCase& c);

// Asserts that the results are these, and that inputs and the memory around the buffers are unchanged.
void run_case(int rank, nvrar_comm* comm, const FusedCase& c, const FusedData& data, const FusedResult& expected);

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_FUSED_CASE_H
