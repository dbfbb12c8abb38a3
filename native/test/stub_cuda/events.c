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
  REQUIRE(lives(event, kEvent), kInvalidHandle);
  TAKE(stream);
  REQUIRE(event->object.context == stream->object.context, kInvalidHandle);
  drop(event->mark);
  event->mark = NULL;
  event->capture = stream->capture;
  if (stream->capture == NULL) {
    event->mark = keep(calloc(1, sizeof *event->mark));
    run_in_order(stream, &(Operation){.mark = keep(event->mark)});
  }
  return leave(kSuccess);
}

CUresult cuStreamWaitEvent(Stream* stream, Event* event, unsigned flags) {
  ENTER(1);
  (void)flags;
  REQUIRE(lives(event, kEvent), kInvalidHandle);
  TAKE(stream);
  if (event->capture != NULL && lives(event->capture, kGraph)) {
    REQUIRE(!is_legacy(stream), kCaptureImplicit);
    stream->capture = event->capture;
  } else if (event->mark != NULL) {
    if (stream->capture != NULL) stream->capture->is_broken = 1;
    REQUIRE(stream->capture == NULL, kCaptureIsolation);
    run_in_order(stream, &(Operation){.mark = keep(event->mark), .waits = 1});
  }
  return leave(kSuccess);
}

CUresult cuEventQuery(Event* event) {
  ENTER(1);
  REQUIRE(lives(event, kEvent), kInvalidHandle);
  REQUIRE(event->capture == NULL, kCapturedEvent);
  REQUIRE(event->mark == NULL || event->mark->is_passed, kNotReady);
  return leave(kSuccess);
}

// Waits for where it was recorded by now; meanwhile it may be recorded again, or destroyed.
CUresult cuEventSynchronize(Event* event) {
  ENTER(1);
  REQUIRE(lives(event, kEvent), kInvalidHandle);
  REQUIRE(event->capture == NULL, kCapturedEvent);
  if (event->mark == NULL) return leave(kSuccess);
  Mark* mark = keep(event->mark);
  while (!mark->is_passed) nap();
  drop(mark);
  return leave(kSuccess);
}

CUresult cuEventDestroy_v2(Event* event) {
  ENTER(1);
  REQUIRE(lives(event, kEvent), kInvalidHandle);
  drop(event->mark);
  remove_object(&event->object);
  return leave(kSuccess);
}

CUresult cuEventElapsedTime(float* milliseconds, Event* start, Event* end) {
  ENTER(1);
  REQUIRE(lives(start, kEvent) && lives(end, kEvent), kInvalidHandle);
  REQUIRE(start->capture == NULL && end->capture == NULL, kCapturedEvent);
  REQUIRE(start->mark != NULL && end->mark != NULL, kInvalidHandle);
  REQUIRE(start->mark->is_passed && end->mark->is_passed, kNotReady);
  const struct timespec from = start->mark->at;
  const struct timespec to = end->mark->at;
  *milliseconds = (float)((double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6);
  return leave(kSuccess);
}
