#include "call/fusion.h"

#include <cmath>

#include "common/error.h"
#include "protocol/fusion.h"

namespace nvrar {
namespace {

using protocol::kHiddenStep;

constexpr uint32_t kAlignment = 16;

struct Form {
  const char* text = nullptr;  // null: no form has this code
  bool residual = false;
  bool weight = false;
  bool residual_out = false;
  bool squares = false;
  bool eps = false;
};

Form form_of(int32_t form) noexcept {
  switch (form) {
    case NVRAR_FUSION_RESIDUAL:
      return {.text = " + residual", .residual = true};
    case NVRAR_FUSION_BIAS:
      return {.text = " + bias", .weight = true};
    case NVRAR_FUSION_RMS_NORM:
      return {.text = " + residual + RMS norm", .residual = true, .weight = true, .residual_out = true, .eps = true};
    case NVRAR_FUSION_RMS_FOLD:
      return {
          .text = " + residual + RMS fold", .residual = true, .weight = true, .residual_out = true, .squares = true};
    default:
      return {};
  }
}

[[noreturn]] void invalid(const std::string& sentence) { throw Error(NVRAR_INVALID_ARGUMENT, sentence); }

void check_type(int32_t data_type) {
  if (data_type == NVRAR_BFLOAT16 || data_type == NVRAR_FLOAT16 || data_type == NVRAR_FLOAT32) return;
  invalid(std::string("a fused all-reduce is for bfloat16, float16 and float32, and the elements are ") +
          element_type(data_type).name);
}

void check_eps(const Form& form, float eps) {
  if (!form.eps && eps != 0) invalid(std::string("eps is not 0, and an all-reduce") + form.text + " has none");
  if (!std::isfinite(eps) || eps < 0) invalid("eps is not a finite number of at least 0");
}

void check_unused(const Form& form, bool used, const char* name, uint64_t address) {
  if (!used && address != 0) {
    invalid(std::string(name) + " is not 0, and an all-reduce" + form.text + " has none");
  }
}

struct Buffer {
  const char* name;
  Range range;  // empty: the form has none
};

Buffer check_buffer(bool used, const char* name, uint64_t address, uint64_t bytes) {
  if (!used) return {name, {0, 0}};
  if (address % kAlignment != 0)
    invalid(std::string(name) + " is not aligned to " + std::to_string(kAlignment) + " bytes");
  return {name, check_range([name] { return std::string(name); }, address, bytes, kAlignment)};
}

void check_apart(const Buffer& a, const Buffer& b) {
  if (overlap(a.range, b.range)) invalid(std::string(a.name) + " and " + b.name + " overlap");
}

void check_apart_or_same(const Buffer& a, const Buffer& b) {
  if (overlap(a.range, b.range) && a.range.begin != b.range.begin) {
    invalid(std::string(a.name) + " and " + b.name + " overlap, and are not the same address");
  }
}

}  // namespace

Fusion fusion_of(const nvrar_fused_all_reduce& given) {
  if (given.reserved != 0) invalid("call.reserved is not 0");
  return {given.form,     given.rows,   given.hidden,       given.eps,
          given.residual, given.weight, given.residual_out, given.squares};
}

Call fused_call(const nvrar_fused_all_reduce& given, const Fusion& fusion) {
  return {NVRAR_ALL_REDUCE, given.input, given.output, uint64_t{given.rows} * given.hidden,
          given.data_type,  NVRAR_SUM,   kNoRoot,      given.algorithm,
          &fusion};
}

void check_fusion(const Call& call) {
  const Fusion& fusion = *call.fusion;
  const Form form = form_of(fusion.form);
  if (form.text == nullptr) invalid("there is no form " + std::to_string(fusion.form) + " of a fused all-reduce");
  check_type(call.data_type);
  if (fusion.hidden == 0 || fusion.hidden % kHiddenStep != 0 || fusion.hidden > NVRAR_MAX_HIDDEN) {
    invalid("hidden " + std::to_string(fusion.hidden) + " is not a multiple of " + std::to_string(kHiddenStep) +
            " between " + std::to_string(kHiddenStep) + " and " + std::to_string(NVRAR_MAX_HIDDEN));
  }
  check_eps(form, fusion.eps);
  check_unused(form, form.residual, "residual", fusion.residual);
  check_unused(form, form.weight, "weight", fusion.weight);
  check_unused(form, form.residual_out, "residual_out", fusion.residual_out);
  check_unused(form, form.squares, "squares", fusion.squares);
  if (fusion.rows == 0) return;

  const uint32_t row_bytes = fusion.hidden * element_bytes(call.data_type);
  const uint64_t bytes = uint64_t{fusion.rows} * row_bytes;
  const uint64_t square_bytes = uint64_t{fusion.rows} * protocol::parts_of(row_bytes) * sizeof(float);
  const Buffer input = check_buffer(true, "input", call.send, bytes);
  const Buffer residual = check_buffer(form.residual, "residual", fusion.residual, bytes);
  const Buffer weight = check_buffer(form.weight, "weight", fusion.weight, row_bytes);
  const Buffer residual_out = check_buffer(form.residual_out, "residual_out", fusion.residual_out, bytes);
  const Buffer output = check_buffer(true, "output", call.recv, bytes);
  const Buffer squares = check_buffer(form.squares, "squares", fusion.squares, square_bytes);
  check_apart(output, residual_out);
  for (const Buffer& written : {output, residual_out}) {
    check_apart_or_same(written, input);
    check_apart_or_same(written, residual);
    check_apart(written, weight);
  }
  for (const Buffer& other : {input, residual, weight, residual_out, output}) check_apart(squares, other);
}

std::string describe_form(int32_t form) {
  const char* const text = form_of(form).text;
  return text != nullptr ? text : " + form " + std::to_string(form);
}

}  // namespace nvrar
