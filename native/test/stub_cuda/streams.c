// Streams, which run copies and sets at once; a capturing one records.
#include "stub.h"

void run_in_order(Stream* stream, const Operation* operation) {
  if (stream != NULL && stream->is_held) {
    append(&stream->held, operation);
  } else {
    run(operation);
  }
}

// What is asked of the legacy stream, whatever the thread's mode.
static int legacy_breaks_captures(void) {
  int breaks = 0;
  for (Object* object = g_objects; object != NULL; object = object->next) {
    Stream* stream = object->kind == kStream && object->context == t_current ? (Stream*)object : NULL;
    if (stream == NULL || stream->capture == NULL || !stream->is_blocking) continue;
    breaks = stream->capture->is_broken = 1;
  }
  return breaks;
}

static CUresult submit(Stream* stream, Operation operation, int target_is_device, int source_is_device) {
  REQUIRE(stream == NULL || lives(stream, kStream), kInvalidHandle);
  REQUIRE(!target_is_device || is_device_memory(operation.target, operation.bytes), kInvalidValue);
  REQUIRE(!source_is_device || is_device_memory(operation.source, operation.bytes), kInvalidValue);
  REQUIRE(stream != NULL || !legacy_breaks_captures(), kCaptureImplicit);
  if (stream != NULL && stream->capture != NULL) {
    append(stream->capture, &operation);
  } else {
    run_in_order(stream, &operation);
  }
  return leave(kSuccess);
}

static CUresult copy(Stream* stream, void* target, int target_is_device, const void* source, int source_is_device,
                     size_t bytes) {
  if (bytes == 0) return leave(kSuccess);
  return submit(stream, (Operation){NULL, target, source, 0, 1, bytes}, target_is_device, source_is_device);
}

static CUresult set(Stream* stream, CUdeviceptr target, uint32_t value, size_t element_bytes, size_t count) {
  return submit(stream, (Operation){NULL, pointer(target), NULL, value, element_bytes, count * element_bytes}, 1, 0);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void* source, size_t bytes) {
  ENTER(1);
  return copy(NULL, pointer(target), 1, source, 0, bytes);
}

CUresult cuMemcpyDtoH_v2(void* target, CUdeviceptr source, size_t bytes) {
  ENTER(1);
  return copy(NULL, target, 0, pointer(source), 1, bytes);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  ENTER(1);
  return copy(NULL, pointer(target), 1, pointer(source), 1, bytes);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void* source, size_t bytes, Stream* stream) {
  ENTER(1);
  return copy(stream, pointer(target), 1, source, 0, bytes);
}

CUresult cuMemcpyDtoHAsync_v2(void* target, CUdeviceptr source, size_t bytes, Stream* stream) {
  ENTER(1);
  return copy(stream, target, 0, pointer(source), 1, bytes);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes, Stream* stream) {
  ENTER(1);
  return copy(stream, pointer(target), 1, pointer(source), 1, bytes);
}

CUresult cuMemcpy(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  ENTER(1);
  REQUIRE(allocation_of(pointer(target), bytes) != NULL && allocation_of(pointer(source), bytes) != NULL,
          kInvalidValue);
  return copy(NULL, pointer(target), 0, pointer(source), 0, bytes);
}

CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, Stream* stream) {
  ENTER(1);
  REQUIRE(allocation_of(pointer(target), bytes) != NULL && allocation_of(pointer(source), bytes) != NULL,
          kInvalidValue);
  return copy(stream, pointer(target), 0, pointer(source), 0, bytes);
}

CUresult cuMemsetD8_v2(CUdeviceptr target, unsigned char value, size_t count) {
  ENTER(1);
  return set(NULL, target, value, 1, count);
}

CUresult cuMemsetD32_v2(CUdeviceptr target, unsigned value, size_t count) {
  ENTER(1);
  return set(NULL, target, value, 4, count);
}

CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, Stream* stream) {
  ENTER(1);
  return set(stream, target, value, 1, count);
}

CUresult cuMemsetD32Async(CUdeviceptr target, unsigned value, size_t count, Stream* stream) {
  ENTER(1);
  return set(stream, target, value, 4, count);
}

static CUresult new_stream(Stream** stream, unsigned flags) {
  *stream = calloc(1, sizeof **stream);
  (*stream)->is_blocking = flags == 0;
  add_object(&(*stream)->object, kStream);
  return leave(kSuccess);
}

CUresult cuStreamCreate(Stream** stream, unsigned flags) {
  ENTER(1);
  return new_stream(stream, flags);
}

CUresult cuStreamCreateWithPriority(Stream** stream, unsigned flags, int priority) {
  ENTER(1);
  (void)priority;
  return new_stream(stream, flags);
}

CUresult cuStreamDestroy_v2(Stream* stream) {
  ENTER(1);
  REQUIRE(lives(stream, kStream), kInvalidHandle);
  REQUIRE(stream->capture == NULL, kIllegalState);
  if (stream->is_held) {
    stream->object.kind = kDestroyedStream;
  } else {
    remove_object(&stream->object);
  }
  return leave(kSuccess);
}

CUresult cuStreamGetCtx(Stream* stream, Context** context) {
  ENTER(1);
  REQUIRE(lives(stream, kStream), kInvalidHandle);
  *context = stream->object.context;
  return leave(kSuccess);
}

CUresult stub_cuda_hold(Stream* stream, int held) {
  ENTER(0);
  REQUIRE(lives(stream, kStream) || lives(stream, kDestroyedStream), kInvalidHandle);
  if (held && !stream->is_held) stream->held.end = &stream->held.first;
  stream->is_held = held;
  while (!held && stream->held.first != NULL) {
    Operation* first = stream->held.first;
    run(first);
    stream->held.first = first->next;
    free(first);
  }
  for (Object* object = g_objects; !held && object != NULL; object = object->next) {
    if (object->kind == kEvent && ((Event*)object)->behind == stream) ((Event*)object)->behind = NULL;
  }
  if (!held && stream->object.kind == kDestroyedStream) remove_object(&stream->object);
  return leave(kSuccess);
}

static CUresult all_has_run(Stream* stream) {
  REQUIRE(stream == NULL || lives(stream, kStream), kInvalidHandle);
  REQUIRE(stream == NULL || stream->capture == NULL, kCaptureUnsupported);
  REQUIRE(stream == NULL || !stream->is_held, kNotReady);
  return leave(kSuccess);
}

CUresult cuStreamQuery(Stream* stream) {
  ENTER(1);
  return all_has_run(stream);
}

CUresult cuStreamSynchronize(Stream* stream) {
  ENTER(1);
  while (stream != NULL && lives(stream, kStream) && stream->is_held) nap();
  return all_has_run(stream);
}
