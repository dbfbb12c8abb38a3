#include "link/cipher.h"

#include <dlfcn.h>

#include <cstring>
#include <string>

#include "common/error.h"

namespace nvrar::link {
namespace {

constexpr const char* kNames[] = {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"};
// EVP_CTRL_AEAD_GET_TAG and EVP_CTRL_AEAD_SET_TAG of openssl/evp.h.
constexpr int kGetTag = 0x10;
constexpr int kSetTag = 0x11;
constexpr uint64_t kNoAtExit = 0x00080000;  // OPENSSL_INIT_NO_ATEXIT of openssl/crypto.h
constexpr size_t kNonceBytes = 12;

// The functions of OpenSSL that are used here; they are the same in OpenSSL 1.1 and 3.
struct Libcrypto {
  void* (*EVP_CIPHER_CTX_new)();
  void (*EVP_CIPHER_CTX_free)(void*);
  int (*EVP_CIPHER_CTX_ctrl)(void*, int, int, void*);
  const void* (*EVP_aes_256_gcm)();
  int (*EVP_CipherInit_ex)(void*, const void*, void*, const uint8_t*, const uint8_t*, int);
  int (*EVP_CipherUpdate)(void*, uint8_t*, int*, const uint8_t*, int);
  int (*EVP_CipherFinal_ex)(void*, uint8_t*, int*);
  int (*OPENSSL_init_crypto)(uint64_t options, const void* settings);
  const char* (*OpenSSL_version)(int);
  std::string missing;  // why there is none; "" if there is

  Libcrypto() {
    void* library = nullptr;
    for (const char* name : kNames) {
      library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (library != nullptr) break;
      missing += (missing.empty() ? "" : "; ") + std::string(::dlerror());
    }
    if (library == nullptr) return;
    missing.clear();
    const auto find = [&](auto* function, const char* name) {
      *reinterpret_cast<void**>(function) = ::dlsym(library, name);
      if (*function == nullptr) missing = std::string("libcrypto has no ") + name;
    };
    find(&EVP_CIPHER_CTX_new, "EVP_CIPHER_CTX_new");
    find(&EVP_CIPHER_CTX_free, "EVP_CIPHER_CTX_free");
    find(&EVP_CIPHER_CTX_ctrl, "EVP_CIPHER_CTX_ctrl");
    find(&EVP_aes_256_gcm, "EVP_aes_256_gcm");
    find(&EVP_CipherInit_ex, "EVP_CipherInit_ex");
    find(&EVP_CipherUpdate, "EVP_CipherUpdate");
    find(&EVP_CipherFinal_ex, "EVP_CipherFinal_ex");
    find(&OPENSSL_init_crypto, "OPENSSL_init_crypto");
    find(&OpenSSL_version, "OpenSSL_version");
    // Links go on while the process exits, when a handler of OpenSSL frees what their threads still use. Only the first
    // initialisation in a process decides whether there is one: if other code has made it, its choice stays.
    if (missing.empty()) (void)OPENSSL_init_crypto(kNoAtExit, nullptr);
  }
};

const Libcrypto& libcrypto() {
  static const auto* const opened = new Libcrypto;  // never destroyed: threads use it while the process exits
  if (!opened->missing.empty()) {
    throw Error(NVRAR_UNAVAILABLE,
                "encrypted links need OpenSSL's libcrypto, and it cannot be opened: " + opened->missing);
  }
  return *opened;
}

}  // namespace

std::string find_libcrypto() {
  const Libcrypto& opened = libcrypto();
  Dl_info info{};
  const bool has_file = ::dladdr(reinterpret_cast<const void*>(opened.EVP_aes_256_gcm), &info) != 0;
  constexpr int kVersionText = 0;  // OPENSSL_VERSION of openssl/crypto.h
  return std::string(opened.OpenSSL_version(kVersionText)) + ", " + (has_file ? info.dli_fname : "libcrypto");
}

Cipher::Cipher(const Digest& key, bool seals) : context_(libcrypto().EVP_CIPHER_CTX_new()) {
  if (context_ == nullptr || libcrypto().EVP_CipherInit_ex(context_, libcrypto().EVP_aes_256_gcm(), nullptr, key.data(),
                                                           nullptr, seals ? 1 : 0) != 1) {
    if (context_ != nullptr) libcrypto().EVP_CIPHER_CTX_free(context_);
    throw Error(NVRAR_SYSTEM, "libcrypto has no AES-256-GCM");
  }
}

Cipher::~Cipher() { libcrypto().EVP_CIPHER_CTX_free(context_); }

bool Cipher::seal(const uint8_t* plain, size_t bytes, uint8_t* sealed) noexcept {
  uint8_t nonce[kNonceBytes] = {};
  std::memcpy(nonce, &number_, sizeof number_);
  ++number_;
  int done = 0;
  int rest = 0;
  const Libcrypto& crypto = libcrypto();
  return crypto.EVP_CipherInit_ex(context_, nullptr, nullptr, nullptr, nonce, 1) == 1 &&
         crypto.EVP_CipherUpdate(context_, sealed, &done, plain, static_cast<int>(bytes)) == 1 &&
         crypto.EVP_CipherFinal_ex(context_, sealed + done, &rest) == 1 &&
         crypto.EVP_CIPHER_CTX_ctrl(context_, kGetTag, kTagBytes, sealed + bytes) == 1;
}

bool Cipher::open(const uint8_t* sealed, size_t bytes, uint8_t* plain) noexcept {
  uint8_t nonce[kNonceBytes] = {};
  std::memcpy(nonce, &number_, sizeof number_);
  ++number_;
  uint8_t tag[kTagBytes];
  std::memcpy(tag, sealed + bytes, sizeof tag);
  int done = 0;
  int rest = 0;
  const Libcrypto& crypto = libcrypto();
  return crypto.EVP_CipherInit_ex(context_, nullptr, nullptr, nullptr, nonce, 0) == 1 &&
         crypto.EVP_CipherUpdate(context_, plain, &done, sealed, static_cast<int>(bytes)) == 1 &&
         crypto.EVP_CIPHER_CTX_ctrl(context_, kSetTag, kTagBytes, tag) == 1 &&
         crypto.EVP_CipherFinal_ex(context_, plain + done, &rest) == 1;
}

}  // namespace nvrar::link
