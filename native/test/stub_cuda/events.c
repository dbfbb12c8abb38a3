// Events. In a capture an event is a place in it, and a stream that waits for it joins the capture.
#include "stub.h"

CUresult cuEventCreate(Event** event, unsigned flags) {
  ENTER(1);
  (void)flags;
  *event = calloc(1, sizeof **event);
  add_object(&(*event)->object, kEvent);
  return leave(kSuccess);
}

CUresult cuEventRecord(Event* event, Stream* stream) {
  ENTER(1);
  REQUIRE(lives(event, kEvent) && (stream == NULL || lives(stream, kStream)), kInvalidHandle);
  REQUIRE(stream == NULL || event->object.context == stream->object.context, kInvalidHandle);
  event->capture = stream == NULL ? NULL : stream->capture;
  event->behind = stream != NULL && stream->is_held && stream->capture == NULL ? stream : NULL;
  event->is_recorded = 1;
  clock_gettime(CLOCK_MONOTONIC, &event->at);
  return leave(kSuccess);
}

CUresult cuStreamWaitEvent(Stream* stream, Event* event, unsigned flags) {
  ENTER(1);
  (void)flags;
  REQUIRE(lives(event, kEvent) && lives(stream, kStream), kInvalidHandle);
  if (event->capture != NULL && lives(event->capture, kGraph)) stream->capture = event->capture;
  return leave(kSuccess);
}

static CUresult has_happened(Event* event) {
  REQUIRE(lives(event, kEvent), kInvalidHandle);
  REQUIRE(event->capture == NULL, kCapturedEvent);
  REQUIRE(event->behind == NULL, kNotReady);
  return leave(kSuccess);
}

CUresult cuEventQuery(Event* event) {
  ENTER(1);
  return has_happened(event);
}

CUresult cuEventSynchronize(Event* event) {
  ENTER(1);
  while (lives(event, kEvent) && event->behind != NULL) nap();
  return has_happened(event);
}

CUresult cuEventDestroy_v2(Event* event) {
  ENTER(1);
  REQUIRE(lives(event, kEvent), kInvalidHandle);
  remove_object(&event->object);
  return leave(kSuccess);
}

CUresult cuEventElapsedTime(float* milliseconds, Event* start, Event* end) {
  ENTER(1);
  REQUIRE(lives(start, kEvent) && lives(end, kEvent), kInvalidHandle);
  REQUIRE(start->is_recorded && end->is_recorded, kInvalidHandle);
  REQUIRE(start->capture == NULL && end->capture == NULL, kCapturedEvent);
  REQUIRE(start->behind == NULL && end->behind == NULL, kNotReady);
  *milliseconds =
      (float)((double)(end->at.tv_sec - start->at.tv_sec) * 1e3 + (double)(end->at.tv_nsec - start->at.tv_nsec) / 1e6);
  return leave(kSuccess);
}
