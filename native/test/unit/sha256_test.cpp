// SHA-256 and HMAC by the published vectors (FIPS 180-4's examples, NIST's CAVP, RFC 4231).
#include "common/sha256.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nvrar::test {
namespace {

std::string hex(const Digest& digest) {
  std::string text;
  for (const uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::vector<uint8_t> repeated(size_t count, uint8_t byte) { return std::vector<uint8_t>(count, byte); }

TEST(Sha256, OfPublishedMessages) {
  EXPECT_EQ(hex(sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256({bytes_of("abc")})), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256({bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")})),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256({repeated(1'000'000, 'a')})),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Where the padding just fits into the last block, and where it needs another one.
TEST(Sha256, AtTheEndsOfBlocks) {
  const std::pair<size_t, const char*> of_a[] = {
      {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
      {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
      {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
      {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
      {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"}};
  for (const auto& [count, digest] : of_a) EXPECT_EQ(hex(sha256({repeated(count, 'a')})), digest) << count;
}

TEST(Sha256, DoesNotDependOnHowTheMessageIsDivided) {
  const std::vector<uint8_t> message = repeated(300, 'q');
  const Digest whole = sha256({message});
  for (size_t at = 0; at <= message.size(); ++at) {
    const Bytes bytes(message);
    ASSERT_EQ(sha256({bytes.first(at), {}, bytes.subspan(at)}), whole) << at;
  }
}

TEST(HmacSha256, OfRfc4231) {
  struct Case {
    std::vector<uint8_t> key;
    std::vector<uint8_t> data;
    const char* digest;
  };
  std::vector<uint8_t> counted(25);
  for (size_t i = 0; i < counted.size(); ++i) counted[i] = static_cast<uint8_t>(i + 1);
  const Case cases[] = {
      {repeated(20, 0x0B), bytes_of("Hi There"), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {bytes_of("Jefe"), bytes_of("what do ya want for nothing?"),
       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {repeated(20, 0xAA), repeated(50, 0xDD), "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
      {counted, repeated(50, 0xCD), "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
      {repeated(131, 0xAA), bytes_of("Test Using Larger Than Block-Size Key - Hash Key First"),
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
      {repeated(131, 0xAA),
       bytes_of("This is a test using a larger than block-size key and a larger than block-size data. The key needs to "
                "be hashed before being used by the HMAC algorithm."),
       "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"}};
  for (const Case& c : cases) {
    EXPECT_EQ(hex(hmac_sha256(c.key, {c.data})), c.digest);
    const Bytes data(c.data);
    EXPECT_EQ(hex(hmac_sha256(c.key, {data.first(3), data.subspan(3)})), c.digest);
  }
}

// A key of exactly one block is not hashed first, a longer one is.
TEST(HmacSha256, TakesKeysAroundABlock) {
  EXPECT_EQ(hmac_sha256(repeated(65, 7), {bytes_of("x")}), hmac_sha256(sha256({repeated(65, 7)}), {bytes_of("x")}));
  EXPECT_NE(hmac_sha256(repeated(64, 7), {bytes_of("x")}), hmac_sha256(sha256({repeated(64, 7)}), {bytes_of("x")}));
  EXPECT_EQ(hmac_sha256({}, {bytes_of("x")}), hmac_sha256(repeated(64, 0), {bytes_of("x")}));
}

TEST(Digests, AreComparedInEveryByte) {
  const Digest digest = sha256({});
  EXPECT_TRUE(equal_digests(digest, digest));
  for (size_t i = 0; i < digest.size(); ++i) {
    Digest other = digest;
    other[i] ^= 0x80;
    EXPECT_FALSE(equal_digests(digest, other)) << i;
  }
}

}  // namespace
}  // namespace nvrar::test
