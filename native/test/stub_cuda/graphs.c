// Captures, and the graphs that they record.
#include "stub.h"

void run(const Operation* operation) {
  if (operation->mark != NULL) {
    if (!operation->waits) {
      clock_gettime(CLOCK_MONOTONIC, &operation->mark->at);
      operation->mark->is_passed = 1;
    }
    drop(operation->mark);
    return;
  }
  if (operation->source != NULL) {
    memmove(operation->target, operation->source, operation->bytes);
    return;
  }
  for (size_t i = 0; i < operation->bytes; i += operation->element_bytes) {
    memcpy((char*)operation->target + i, &operation->value, operation->element_bytes);
  }
}

void append(Graph* graph, const Operation* operation) {
  Operation* copy = malloc(sizeof *copy);
  *copy = *operation;
  copy->next = NULL;
  *graph->end = copy;
  graph->end = &copy->next;
}

Graph* new_graph(Kind kind, const Graph* contents) {
  static uint64_t made;
  Graph* graph = calloc(1, sizeof *graph);
  graph->capture = ++made;
  graph->end = &graph->first;
  for (const Operation* at = contents == NULL ? NULL : contents->first; at != NULL; at = at->next) append(graph, at);
  add_object(&graph->object, kind);
  return graph;
}

void delete_graph(Graph* graph) {
  while (graph->first != NULL) {
    Operation* next = graph->first->next;
    free(graph->first);
    graph->first = next;
  }
  remove_object(&graph->object);
}

CUresult cuStreamIsCapturing(Stream* stream, int* status) {
  ENTER(1);
  stream = stream_of(stream);
  REQUIRE(stream != NULL, kInvalidHandle);
  REQUIRE(!is_legacy(stream) || !legacy_is_implicit(), kCaptureImplicit);
  *status = stream->capture != NULL;
  return leave(kSuccess);
}

CUresult cuStreamGetCaptureInfo_v2(Stream* stream, int* status, uint64_t* id, Graph** graph, const void** dependencies,
                                   size_t* count) {
  ENTER(1);
  stream = stream_of(stream);
  REQUIRE(stream != NULL, kInvalidHandle);
  REQUIRE(!is_legacy(stream) || !legacy_is_implicit(), kCaptureImplicit);
  REQUIRE(graph == NULL && dependencies == NULL && count == NULL, kNotSupported);
  *status = stream->capture != NULL;
  if (stream->capture != NULL && id != NULL) *id = stream->capture->capture;
  return leave(kSuccess);
}

CUresult cuStreamBeginCapture_v2(Stream* stream, int mode) {
  ENTER(1);
  stream = stream_of(stream);
  REQUIRE(stream != NULL, kInvalidHandle);
  REQUIRE(!is_legacy(stream), kCaptureUnsupported);
  REQUIRE(stream->capture == NULL, kIllegalState);
  stream->capture = new_graph(kGraph, NULL);
  stream->capture->is_global = mode == kGlobal;
  stream->is_origin = 1;
  return leave(kSuccess);
}

CUresult cuStreamEndCapture(Stream* stream, Graph** graph) {
  ENTER(1);
  *graph = NULL;
  stream = stream_of(stream);
  REQUIRE(stream != NULL, kInvalidHandle);
  REQUIRE(stream->capture != NULL, kIllegalState);
  REQUIRE(stream->is_origin, kCaptureUnmatched);
  *graph = stream->capture;
  for (Object* object = g_objects; object != NULL; object = object->next) {
    if (object->kind == kStream && ((Stream*)object)->capture == *graph) ((Stream*)object)->capture = NULL;
  }
  stream->is_origin = 0;
  if ((*graph)->is_broken) {
    delete_graph(*graph);
    *graph = NULL;
    return leave(kCaptureInvalidated);
  }
  return leave(kSuccess);
}

static _Thread_local int t_mode = kGlobal;

CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
  ENTER(0);
  int before = t_mode;
  t_mode = *mode;
  *mode = before;
  return leave(kSuccess);
}

int breaks_captures(void) {
  int breaks = 0;
  for (Object* object = g_objects; t_mode != kRelaxed && object != NULL; object = object->next) {
    Graph* capture = object->kind == kStream ? ((Stream*)object)->capture : NULL;
    if (capture != NULL && capture->is_global) breaks = capture->is_broken = 1;
  }
  return breaks;
}

CUresult cuGraphInstantiateWithFlags(Graph** executable, Graph* graph, unsigned long long flags) {
  ENTER(1);
  (void)flags;
  REQUIRE(lives(graph, kGraph), kInvalidHandle);
  *executable = new_graph(kExecutable, graph);
  return leave(kSuccess);
}

CUresult cuGraphUpload(Graph* executable, Stream* stream) {
  ENTER(1);
  REQUIRE(lives(executable, kExecutable) && stream_of(stream) != NULL, kInvalidHandle);
  return leave(kSuccess);
}

#ifndef STUB_CUDA_INCOMPLETE
CUresult cuGraphLaunch(Graph* executable, Stream* stream) {
  ENTER(1);
  REQUIRE(lives(executable, kExecutable), kInvalidHandle);
  TAKE(stream);
  REQUIRE(stream->capture == NULL, kCaptureUnsupported);
  for (const Operation* at = executable->first; at != NULL; at = at->next) run_in_order(stream, at);
  return leave(kSuccess);
}
#endif

CUresult cuGraphExecDestroy(Graph* executable) {
  ENTER(1);
  REQUIRE(lives(executable, kExecutable), kInvalidHandle);
  delete_graph(executable);
  return leave(kSuccess);
}

CUresult cuGraphDestroy(Graph* graph) {
  ENTER(1);
  REQUIRE(lives(graph, kGraph), kInvalidHandle);
  delete_graph(graph);
  return leave(kSuccess);
}
