// Errors, the version, devices.
#include "stub.h"

static const struct Error {
  CUresult code;
  const char* name;
  const char* text;
} kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {kPeerAccessUnsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {226, "CUDA_ERROR_CONTAINED", "Invalid access of peer GPU memory over nvlink or a hardware error"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kIllegalState, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kPeerAccessAlreadyEnabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {kCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not initiated in this stream / not joined to it"},
    {kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {kCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"}};

static const struct Error* find_error(CUresult code) {
  for (size_t i = 0; i < sizeof kErrors / sizeof kErrors[0]; i++) {
    if (kErrors[i].code == code) return &kErrors[i];
  }
  return NULL;
}

CUresult cuGetErrorName(CUresult code, const char** name) {
  const struct Error* error = find_error(code);
  *name = error == NULL ? NULL : error->name;
  return error == NULL ? kInvalidValue : kSuccess;
}

CUresult cuGetErrorString(CUresult code, const char** text) {
  const struct Error* error = find_error(code);
  *text = error == NULL ? NULL : error->text;
  return error == NULL ? kInvalidValue : kSuccess;
}

CUresult cuDriverGetVersion(int* version) {
  *version = (int)setting("STUB_CUDA_DRIVER_VERSION", 13000);
  return kSuccess;
}

CUresult cuInit(unsigned flags) {
  ENTER(0);
  REQUIRE(flags == 0, kInvalidValue);
  REQUIRE(device_count() > 0, kNoDevice);
  g_initialized = 1;
  for (int i = 0; i < kMaxDevices; i++) g_contexts[i].device = i;
  return leave(kSuccess);
}

CUresult cuDeviceGetCount(int* count) {
  ENTER(0);
  *count = device_count();
  return leave(kSuccess);
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  ENTER(0);
  REQUIRE(ordinal >= 0 && ordinal < device_count(), kInvalidDevice);
  *device = ordinal;
  return leave(kSuccess);
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  ENTER(0);
  snprintf(name, (size_t)length, "stub %d (host memory, no GPU)", device);
  return leave(kSuccess);
}

void fill_uuid(unsigned char* uuid, CUdevice device) {
  memset(uuid, 0xAB, 16);
  if (!setting("STUB_CUDA_SAME_UUID", 0)) uuid[15] = (unsigned char)(setting("STUB_CUDA_FIRST_DEVICE", 0) + device);
}

CUresult cuDeviceGetUuid(unsigned char* uuid, CUdevice device) {
  ENTER(0);
  fill_uuid(uuid, device);
  return leave(kSuccess);
}

CUresult cuDeviceGetUuid_v2(unsigned char* uuid, CUdevice device) {
  ENTER(0);
  fill_uuid(uuid, device);
  return leave(kSuccess);
}

static int pci_domain(void) { return (int)setting("STUB_CUDA_PCI_DOMAIN", 0); }

static int pci_bus(CUdevice device) { return (int)setting("STUB_CUDA_FIRST_DEVICE", 0) + device; }

CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  ENTER(0);
  snprintf(id, (size_t)length, "%04X:%02X:00.0", (unsigned)pci_domain(), (unsigned)pci_bus(device));
  return leave(kSuccess);
}

CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
  ENTER(0);
  switch (attribute) {
    case 10:  // warp size
      *value = 32;
      break;
    case 33:  // the bus, of which it is device 0
      *value = pci_bus(device);
      break;
    case 50:  // and the bus's domain
      *value = pci_domain();
      break;
    case 16:  // multiprocessors
      *value = (int)setting("STUB_CUDA_MULTIPROCESSORS", 132);
      break;
    case 38:  // bytes of the L2 cache
      *value = 4 << 20;
      break;
    case 120:  // clusters
      *value = 1;
      break;
    case 41:  // unified addressing
      *value = 1;
      break;
    case 81:  // shared memory of a multiprocessor
      *value = 228 << 10;
      break;
    case 111:  // of which the driver takes this for every block
      *value = 1 << 10;
      break;
    case 82:  // registers of a multiprocessor
      *value = 65536;
      break;
    case 75:  // compute capability, major
      *value = (int)setting("STUB_CUDA_COMPUTE_CAPABILITY", 90) / 10;
      break;
    case 76:  // and minor
      *value = (int)setting("STUB_CUDA_COMPUTE_CAPABILITY", 90) % 10;
      break;
    default:
      *value = 0;
  }
  return leave(kSuccess);
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  ENTER(0);
  (void)device;
  *bytes = device_bytes();
  return leave(kSuccess);
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  ENTER(0);
  *can = device != peer && setting("STUB_CUDA_PEER_ACCESS", 1);
  return leave(kSuccess);
}

static int is_pcie(int a, int b) {
  const char* pairs = getenv("STUB_CUDA_PCIE");
  while (pairs != NULL && *pairs != '\0') {
    int first = 0;
    int second = 0;
    if (sscanf(pairs, "%d-%d", &first, &second) == 2 && ((first == a && second == b) || (first == b && second == a))) {
      return 1;
    }
    pairs = strchr(pairs, ',');
    pairs = pairs == NULL ? NULL : pairs + 1;
  }
  return 0;
}

CUresult cuDeviceGetP2PAttribute(int* value, int attribute, CUdevice device, CUdevice peer) {
  ENTER(0);
  REQUIRE(device >= 0 && device < device_count() && peer >= 0 && peer < device_count(), kInvalidDevice);
  REQUIRE(device != peer, kInvalidDevice);
  const int first = (int)setting("STUB_CUDA_FIRST_DEVICE", 0);
  const int access = setting("STUB_CUDA_PEER_ACCESS", 1) != 0;
  switch (attribute) {
    case 1:  // how fast, the fastest is 0
      *value = is_pcie(first + device, first + peer);
      break;
    case 2:  // access
      *value = access;
      break;
    case 3:  // atomics
      *value = access && !is_pcie(first + device, first + peer);
      break;
    default:
      return leave(kInvalidValue);
  }
  return leave(kSuccess);
}
