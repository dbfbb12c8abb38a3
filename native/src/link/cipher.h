// Encryption of a link's traffic, by AES-256-GCM of OpenSSL's libcrypto, which is opened at run time: this library
// links nothing that only some groups need.
#ifndef NVRAR_LINK_CIPHER_H
#define NVRAR_LINK_CIPHER_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/sha256.h"

namespace nvrar::link {

// Its version and file. Throws NVRAR_UNAVAILABLE with a sentence that lists what was tried if there is no libcrypto.
std::string find_libcrypto();

// One direction of a link. Its messages are numbered, and the number is the nonce, so none can be left out, repeated or
// moved.
class Cipher {
 public:
  static constexpr size_t kTagBytes = 16;

  // Throws NVRAR_UNAVAILABLE or NVRAR_SYSTEM.
  Cipher(const Digest& key, bool seals);
  ~Cipher();
  Cipher(const Cipher&) = delete;
  Cipher& operator=(const Cipher&) = delete;

  // Writes `bytes` bytes of ciphertext and then the tag.
  bool seal(const uint8_t* plain, size_t bytes, uint8_t* sealed) noexcept;
  // Takes them. False: the message is not the peer's next one, and nothing of `plain` may be used.
  bool open(const uint8_t* sealed, size_t bytes, uint8_t* plain) noexcept;

 private:
  void* context_;
  uint64_t number_ = 0;
};

}  // namespace nvrar::link

#endif  // NVRAR_LINK_CIPHER_H
