// In which order streams run what is submitted: each its own work, behind the events that it waits for; the legacy
// stream and the streams that block also behind each other.
#include "stub.h"

static Stream* g_legacy[kMaxDevices];
static _Thread_local Stream* t_own[kMaxDevices];

Stream* new_stream(int is_blocking) {
  Stream* stream = calloc(1, sizeof *stream);
  stream->is_blocking = is_blocking;
  stream->queue.end = &stream->queue.first;
  add_object(&stream->object, kStream);
  return stream;
}

// As the driver reads handles: 0 and 1 are the legacy stream of the current context, 2 is the calling thread's own.
// Null: there is no such stream.
Stream* stream_of(Stream* handle) {
  const uintptr_t number = (uintptr_t)handle;
  if (number > 2) return lives(handle, kStream) ? handle : NULL;
  if (t_current == NULL) return NULL;
  Stream** at = number == 2 ? &t_own[t_current->device] : &g_legacy[t_current->device];
  if (*at == NULL) {
    *at = new_stream(number == 2);
    (*at)->is_default = 1;
  }
  return *at;
}

int is_legacy(const Stream* stream) { return stream == g_legacy[stream->object.context->device]; }

int legacy_is_implicit(void) {
  for (Object* object = g_objects; object != NULL; object = object->next) {
    Stream* stream = object->kind == kStream && object->context == t_current ? (Stream*)object : NULL;
    if (stream != NULL && stream->capture != NULL && stream->is_blocking) return 1;
  }
  return 0;
}

// The captures that the legacy stream would have to wait for are broken, whatever the thread's mode.
static void break_implicit_captures(void) {
  for (Object* object = g_objects; object != NULL; object = object->next) {
    Stream* stream = object->kind == kStream && object->context == t_current ? (Stream*)object : NULL;
    if (stream != NULL && stream->capture != NULL && stream->is_blocking) stream->capture->is_broken = 1;
  }
}

CUresult take(Stream** stream) {
  *stream = stream_of(*stream);
  if (*stream == NULL) return kInvalidHandle;
  if (!is_legacy(*stream) || !legacy_is_implicit()) return kSuccess;
  break_implicit_captures();
  return kCaptureImplicit;
}

Mark* keep(Mark* mark) {
  mark->users++;
  return mark;
}

void drop(Mark* mark) {
  if (mark != NULL && --mark->users == 0) free(mark);
}

int has_work(const Stream* stream) { return stream->is_held || stream->queue.first != NULL; }

void enqueue(Stream* stream, const Operation* operation) {
  if (has_work(stream) || (operation->waits && !operation->mark->is_passed)) {
    append(&stream->queue, operation);
  } else {
    run(operation);
  }
}

static void order_after(Stream* later, Stream* earlier) {
  if (!has_work(earlier)) return;
  Mark* mark = calloc(1, sizeof *mark);
  enqueue(earlier, &(Operation){.mark = keep(mark)});
  enqueue(later, &(Operation){.mark = keep(mark), .waits = 1});
}

void order_by_default(Stream* stream) {
  Stream* legacy = g_legacy[stream->object.context->device];
  if (legacy != NULL && legacy != stream && stream->is_blocking) order_after(stream, legacy);
  for (Object* object = g_objects; stream == legacy && object != NULL; object = object->next) {
    if (object->context != stream->object.context) continue;
    if (object->kind != kStream && object->kind != kDestroyedStream) continue;
    if (((Stream*)object)->is_blocking) order_after(stream, (Stream*)object);
  }
}

void run_in_order(Stream* stream, const Operation* operation) {
  order_by_default(stream);
  enqueue(stream, operation);
}

static int run_first(Stream* stream) {
  Operation* first = stream->queue.first;
  if (stream->is_held || first == NULL || (first->waits && !first->mark->is_passed)) return 0;
  stream->queue.first = first->next;
  if (first->next == NULL) stream->queue.end = &stream->queue.first;
  run(first);
  free(first);
  return 1;
}

void run_what_can_run(void) {
  for (int again = 1; again;) {
    again = 0;
    for (Object *object = g_objects, *next; object != NULL; object = next) {
      next = object->next;
      if (object->kind != kStream && object->kind != kDestroyedStream) continue;
      Stream* stream = (Stream*)object;
      while (run_first(stream)) again = 1;
      if (object->kind == kDestroyedStream && !has_work(stream)) remove_object(object);
    }
  }
}
