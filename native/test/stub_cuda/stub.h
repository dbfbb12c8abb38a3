// A stand-in for NVIDIA's libcuda.so.1 that is no GPU: memory is host memory, a stream runs what is submitted at once,
// a capture records copies and sets and a graph runs them again. Every failure that a real driver has can be ordered by
// a variable of the environment, so that what is said about it can be tested on any machine:
//
//   STUB_CUDA_DEVICES=2               the number of devices, 0 to 8; 1 without it, and with 0 cuInit finds none
//   STUB_CUDA_FIRST_DEVICE=2          the first device that this process sees, as with CUDA_VISIBLE_DEVICES
//   STUB_CUDA_PCI_DOMAIN=1            that of all devices, 0 without it; a device's bus has its number
//   STUB_CUDA_SAME_UUID=1             all devices are one
//   STUB_CUDA_PEER_ACCESS=0           no device can access another one's memory
//   STUB_CUDA_PCIE=0-1,2-3            those pairs of devices have PCIe between them; all others NVLink
//   STUB_CUDA_MULTIPROCESSORS=2       of each device; 132 without it
//   STUB_CUDA_MEMORY=1000000          bytes of each device; 1 GiB without it
//   STUB_CUDA_DRIVER_VERSION=11080    what cuDriverGetVersion says; 13000 without it
//   STUB_CUDA_COMPUTE_CAPABILITY=75   of all devices; 90 without it
//   STUB_CUDA_OLD_PTX=1               modules have no kernels whose names end with _programmatic, as PTX for older GPUs
//   STUB_CUDA_FAIL=NAME:ERROR:N,...   from its N-th call on, since this was set, the function NAME fails with that
//                                     error; one that breaks the context stays, for all functions, as with a driver
//
// Five things that no driver has are for tests in the same process: stub_cuda_living() counts what was made and not
// given back, stub_cuda_refuse(order) orders failures from now on instead of STUB_CUDA_FAIL, which a test whose group
// has threads may not change any more, stub_cuda_before sees every call, and stub_cuda_kernel is what launches run.
// stub_cuda_hold(stream, 1) is what a kernel that waits is to a GPU: until stub_cuda_hold(stream, 0) the stream runs
// no copy, set or graph, and whoever waits for it or for an event behind it waits, other streams too. So do the legacy
// stream and the streams that block for each other; kernels wait for nothing.
//
// A missing symbol cannot be ordered: the library in the folder "incomplete" lacks cuGraphLaunch.
//
// A call that needs a context fails where the calling thread has none, a handle or an address that is not alive is
// refused, and an address of one device is no address on another: what a real driver would forgive or crash on fails
// here.
#ifndef NVRAR_STUB_CUDA_STUB_H
#define NVRAR_STUB_CUDA_STUB_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// What the files share is nothing of the library's.
#pragma GCC visibility push(hidden)

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;

enum {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kPeerAccessUnsupported = 217,
  kInvalidHandle = 400,
  kNotFound = 500,
  kIllegalState = 401,
  kNotReady = 600,
  kPeerAccessAlreadyEnabled = 704,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCaptureImplicit = 906,
  kCapturedEvent = 907
};

// What lives: contexts are the devices' primary ones, graphs are lists of copies and sets.

enum { kMaxDevices = 8 };

typedef struct Context {
  CUdevice device;
  int retained;
  size_t used_bytes;
  unsigned peers;  // bit d: access to device d was enabled
} Context;

typedef enum { kDeviceMemory, kHostMemory, kPeerMemory } MemoryKind;

typedef enum { kAllocation, kStream, kDestroyedStream, kEvent, kGraph, kExecutable, kModule } Kind;

// One list of all that lives, so that a handle can be checked before it is believed.
typedef struct Object {
  struct Object* next;
  Kind kind;
  Context* context;
} Object;

typedef struct Allocation {
  Object object;
  MemoryKind memory;
  void* base;
  size_t bytes;
  int fd;  // of device memory, a file that other processes can map; -1 where it is a mapping of theirs
} Allocation;

// A place in a stream, of whoever has yet to pass it, waits for it or asks for it.
typedef struct Mark {
  int users;
  int is_passed;
  struct timespec at;
} Mark;

typedef struct Operation {
  struct Operation* next;
  Mark* mark;  // null: a copy or a set
  int waits;   // for the mark, which it passes otherwise
  void* target;
  const void* source;  // null: a set
  uint32_t value;
  size_t element_bytes;
  size_t bytes;
} Operation;

typedef struct Graph {
  Object object;
  Operation* first;
  Operation** end;
  uint64_t capture;  // no two graphs of a process have one number
  int is_global;     // while it is captured, other threads may not do what is unsafe
  int is_broken;     // somebody did, or waited for the context
} Graph;

typedef struct Stream {
  Object object;
  Graph* capture;
  int is_origin;
  int is_blocking;  // it and the legacy stream wait for each other
  int is_default;   // it is the driver's own
  int is_held;
  Graph queue;  // what it has yet to run
} Stream;

typedef struct Event {
  Object object;
  Graph* capture;
  Mark* mark;  // where it was recorded last, outside of captures
} Event;

extern int g_initialized;
extern Context g_contexts[kMaxDevices];
extern Object* g_objects;
extern _Thread_local Context* t_current;

// Of the environment.
long setting(const char* name, long otherwise);
int device_count(void);
size_t device_bytes(void);

// Every function but those that say errors and versions begins with ENTER, which takes the lock, and ends with leave().
CUresult enter(const char* function, int needs_context);
CUresult leave(CUresult result);

#define ENTER(needs_context)                           \
  do {                                                 \
    CUresult entered = enter(__func__, needs_context); \
    if (entered != kSuccess) return leave(entered);    \
  } while (0)
#define REQUIRE(condition, error)          \
  do {                                     \
    if (!(condition)) return leave(error); \
  } while (0)

// Unlocks for a moment.
void nap(void);

void add_object(Object* object, Kind kind);
void remove_object(Object* object);
int lives(const void* handle, Kind kind);
Allocation* allocation_of(const void* address, size_t bytes);
int is_device_memory(const void* address, size_t bytes);
void* pointer(CUdeviceptr address);
void fill_uuid(unsigned char* uuid, CUdevice device);

// Of CUstreamCaptureMode.
enum { kGlobal = 0, kRelaxed = 2 };

// Whether what is unsafe in a capture is refused to this thread, since somebody captures in the global mode.
int breaks_captures(void);
Graph* new_graph(Kind kind, const Graph* contents);
void delete_graph(Graph* graph);
void append(Graph* graph, const Operation* operation);
void run(const Operation* operation);

// The streams' own order, and that of the default streams with others.
Stream* new_stream(int is_blocking);
Stream* stream_of(Stream* handle);
int is_legacy(const Stream* stream);
int has_work(const Stream* stream);
void run_in_order(Stream* stream, const Operation* operation);
void run_what_can_run(void);
void order_by_default(Stream* stream);
void enqueue(Stream* stream, const Operation* operation);
Mark* keep(Mark* mark);
void drop(Mark* mark);

// A blocking stream of the current context captures, so that the legacy stream cannot be used.
int legacy_is_implicit(void);
// Makes a handle the stream that work is for.
CUresult take(Stream** stream);

#define TAKE(stream)                            \
  do {                                          \
    CUresult taken = take(&(stream));           \
    if (taken != kSuccess) return leave(taken); \
  } while (0)

#pragma GCC visibility pop

// Allocations, streams, events, graphs, modules and retained contexts of this process.
size_t stub_cuda_living(void);
void stub_cuda_refuse(const char* order);
// If not null: called at the beginning of every function, by its thread and under no lock, so that it may wait.
extern void (*stub_cuda_before)(const char* function);
// If not null: called for every launch on a stream that does not capture, with the CUlaunchConfig and the kernel's
// arguments; what it returns the launch returns. Without it no kernel runs, every launch is refused.
extern CUresult (*stub_cuda_kernel)(const void* config, void** arguments);

CUresult stub_cuda_hold(Stream* stream, int held);

#endif  // NVRAR_STUB_CUDA_STUB_H
