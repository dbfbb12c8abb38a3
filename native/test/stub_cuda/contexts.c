// Primary contexts, and which is current.
#include "stub.h"

enum { kMaxDepth = 16 };
static _Thread_local Context* t_pushed[kMaxDepth];
static _Thread_local int t_depth;

CUresult cuDevicePrimaryCtxRetain(Context** context, CUdevice device) {
  ENTER(0);
  REQUIRE(device >= 0 && device < device_count(), kInvalidDevice);
  g_contexts[device].retained++;
  *context = &g_contexts[device];
  return leave(kSuccess);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  ENTER(0);
  REQUIRE(device >= 0 && device < device_count(), kInvalidDevice);
  REQUIRE(g_contexts[device].retained > 0, kInvalidContext);
  g_contexts[device].retained--;
  return leave(kSuccess);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  ENTER(0);
  *flags = 0;
  *active = g_contexts[device].retained > 0;
  return leave(kSuccess);
}

CUresult cuCtxSetCurrent(Context* context) {
  ENTER(0);
  t_current = context;
  return leave(kSuccess);
}

CUresult cuCtxGetCurrent(Context** context) {
  ENTER(0);
  *context = t_current;
  return leave(kSuccess);
}

CUresult cuCtxGetDevice(CUdevice* device) {
  ENTER(1);
  *device = t_current->device;
  return leave(kSuccess);
}

CUresult cuCtxPushCurrent_v2(Context* context) {
  ENTER(0);
  REQUIRE(t_depth < kMaxDepth, kInvalidValue);
  t_pushed[t_depth++] = t_current;
  t_current = context;
  return leave(kSuccess);
}

CUresult cuCtxPopCurrent_v2(Context** context) {
  ENTER(0);
  REQUIRE(t_depth > 0, kInvalidContext);
  *context = t_current;
  t_current = t_pushed[--t_depth];
  return leave(kSuccess);
}

CUresult cuCtxEnablePeerAccess(Context* peer, unsigned flags) {
  ENTER(1);
  REQUIRE(flags == 0 && peer != t_current, kInvalidDevice);
  REQUIRE(setting("STUB_CUDA_PEER_ACCESS", 1), kPeerAccessUnsupported);
  unsigned bit = 1U << peer->device;
  REQUIRE((t_current->peers & bit) == 0, kPeerAccessAlreadyEnabled);
  t_current->peers |= bit;
  return leave(kSuccess);
}

// As of a driver: it is refused while any stream of the context captures, and breaks that capture.
CUresult cuCtxSynchronize(void) {
  ENTER(1);
  CUresult result = kSuccess;
  for (Object* object = g_objects; object != NULL; object = object->next) {
    Graph* capture = object->kind == kStream && object->context == t_current ? ((Stream*)object)->capture : NULL;
    if (capture == NULL) continue;
    capture->is_broken = 1;
    result = kCaptureUnsupported;
  }
  REQUIRE(result == kSuccess, result);
  return leave(kSuccess);
}
