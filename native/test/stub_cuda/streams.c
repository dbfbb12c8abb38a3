// Streams, which run copies and sets at once; a capturing one records.
#include "stub.h"

static CUresult submit(Stream* stream, Operation operation, int target_is_device, int source_is_device) {
  TAKE(stream);
  REQUIRE(!target_is_device || is_device_memory(operation.target, operation.bytes), kInvalidValue);
  REQUIRE(!source_is_device || is_device_memory(operation.source, operation.bytes), kInvalidValue);
  if (stream->capture != NULL) {
    append(stream->capture, &operation);
  } else {
    run_in_order(stream, &operation);
  }
  return leave(kSuccess);
}

static CUresult copy(Stream* stream, void* target, int target_is_device, const void* source, int source_is_device,
                     size_t bytes) {
  if (bytes == 0) return leave(kSuccess);
  return submit(stream, (Operation){.target = target, .source = source, .bytes = bytes}, target_is_device,
                source_is_device);
}

// On the legacy stream, once that has run what it waits for; not behind what others submit meanwhile.
static CUresult copy_now(void* target, int target_is_device, const void* source, int source_is_device, size_t bytes) {
  Stream* stream = NULL;
  TAKE(stream);
  if (bytes == 0) return leave(kSuccess);
  REQUIRE(!target_is_device || is_device_memory(target, bytes), kInvalidValue);
  REQUIRE(!source_is_device || is_device_memory(source, bytes), kInvalidValue);
  order_by_default(stream);
  while (has_work(stream)) nap();
  run(&(Operation){.target = target, .source = source, .bytes = bytes});
  return leave(kSuccess);
}

static CUresult set(Stream* stream, CUdeviceptr target, uint32_t value, size_t element_bytes, size_t count) {
  return submit(
      stream,
      (Operation){
          .target = pointer(target), .value = value, .element_bytes = element_bytes, .bytes = count * element_bytes},
      1, 0);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void* source, size_t bytes) {
  ENTER(1);
  return copy_now(pointer(target), 1, source, 0, bytes);
}

CUresult cuMemcpyDtoH_v2(void* target, CUdeviceptr source, size_t bytes) {
  ENTER(1);
  return copy_now(target, 0, pointer(source), 1, bytes);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  ENTER(1);
  return copy_now(pointer(target), 1, pointer(source), 1, bytes);
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
  return copy_now(pointer(target), 0, pointer(source), 0, bytes);
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

CUresult cuStreamCreate(Stream** stream, unsigned flags) {
  ENTER(1);
  *stream = new_stream(flags == 0);
  return leave(kSuccess);
}

CUresult cuStreamCreateWithPriority(Stream** stream, unsigned flags, int priority) {
  ENTER(1);
  (void)priority;
  *stream = new_stream(flags == 0);
  return leave(kSuccess);
}

CUresult cuStreamDestroy_v2(Stream* stream) {
  ENTER(1);
  REQUIRE(lives(stream, kStream), kInvalidHandle);
  REQUIRE(stream->capture == NULL, kIllegalState);
  if (has_work(stream)) {
    stream->object.kind = kDestroyedStream;
  } else {
    remove_object(&stream->object);
  }
  return leave(kSuccess);
}

// The default streams' context is the calling thread's.
CUresult cuStreamGetCtx(Stream* stream, Context** context) {
  ENTER(1);
  stream = stream_of(stream);
  REQUIRE(stream != NULL, kInvalidHandle);
  *context = stream->object.context;
  return leave(kSuccess);
}

CUresult stub_cuda_hold(Stream* stream, int held) {
  ENTER(0);
  stream = lives(stream, kDestroyedStream) ? stream : stream_of(stream);
  REQUIRE(stream != NULL, kInvalidHandle);
  stream->is_held = held;
  run_what_can_run();
  return leave(kSuccess);
}

static CUresult all_has_run(const Stream* stream) {
  REQUIRE(stream->capture == NULL, kCaptureUnsupported);
  REQUIRE(!has_work(stream), kNotReady);
  return leave(kSuccess);
}

CUresult cuStreamQuery(Stream* stream) {
  ENTER(1);
  TAKE(stream);
  return all_has_run(stream);
}

CUresult cuStreamSynchronize(Stream* stream) {
  ENTER(1);
  TAKE(stream);
  while (lives(stream, kStream) && stream->capture == NULL && has_work(stream)) nap();
  REQUIRE(lives(stream, kStream), kInvalidHandle);
  return all_has_run(stream);
}
