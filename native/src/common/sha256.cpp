#include "common/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace nvrar {
namespace {

constexpr size_t kBlockBytes = 64;

constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

class Sha256 {
 public:
  void add(Bytes bytes) noexcept {
    total_ += bytes.size();
    while (!bytes.empty()) {
      const size_t taken = std::min(bytes.size(), kBlockBytes - filled_);
      std::memcpy(block_ + filled_, bytes.data(), taken);
      filled_ += taken;
      bytes = bytes.subspan(taken);
      if (filled_ == kBlockBytes) compress();
    }
  }
  Digest end() noexcept {
    const uint64_t bits = total_ * 8;
    block_[filled_++] = 0x80;
    if (filled_ > kBlockBytes - sizeof bits) {
      std::memset(block_ + filled_, 0, kBlockBytes - filled_);
      compress();
    }
    std::memset(block_ + filled_, 0, kBlockBytes - filled_);
    for (size_t i = 0; i < sizeof bits; ++i) block_[kBlockBytes - 1 - i] = static_cast<uint8_t>(bits >> 8 * i);
    compress();
    Digest digest;
    for (size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
    return digest;
  }

 private:
  void compress() noexcept {
    uint32_t w[64];
    for (size_t i = 0; i < 16; ++i) {
      const uint8_t* const b = block_ + 4 * i;
      w[i] = uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | uint32_t{b[3]};
    }
    for (size_t i = 16; i < 64; ++i) {
      const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
      const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
      const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    const uint32_t add[8] = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) state_[i] += add[i];
    filled_ = 0;
  }

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t block_[kBlockBytes];
  size_t filled_ = 0;
  uint64_t total_ = 0;
};

}  // namespace

Digest sha256(std::initializer_list<Bytes> parts) noexcept {
  Sha256 hash;
  for (const Bytes& part : parts) hash.add(part);
  return hash.end();
}

Digest hmac_sha256(Bytes key, std::initializer_list<Bytes> parts) noexcept {
  uint8_t padded[kBlockBytes] = {};
  if (key.size() > kBlockBytes) {
    const Digest shorter = sha256({key});
    std::memcpy(padded, shorter.data(), shorter.size());
  } else if (!key.empty()) {
    std::memcpy(padded, key.data(), key.size());
  }
  uint8_t inner[kBlockBytes];
  uint8_t outer[kBlockBytes];
  for (size_t i = 0; i < kBlockBytes; ++i) {
    inner[i] = padded[i] ^ 0x36;
    outer[i] = padded[i] ^ 0x5C;
  }
  Sha256 hash;
  hash.add(inner);
  for (const Bytes& part : parts) hash.add(part);
  const Digest of_inner = hash.end();
  return sha256({outer, of_inner});
}

bool equal_digests(const Digest& a, const Digest& b) noexcept {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace nvrar
