// What lives, what is ordered to fail, and how every function begins and ends.
#include "stub.h"

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static CUresult g_sticky;
int g_initialized;
Context g_contexts[kMaxDevices];
Object* g_objects;
_Thread_local Context* t_current;
void (*stub_cuda_before)(const char* function);
CUresult (*stub_cuda_kernel)(const void* config, void** arguments);

// Errors after which a context never works again.
static int is_sticky(CUresult code) { return code == 214 || code == 226 || code == 700 || code == 719; }

long setting(const char* name, long otherwise) {
  const char* value = getenv(name);
  return value == NULL ? otherwise : strtol(value, NULL, 10);
}

int device_count(void) {
  long count = setting("STUB_CUDA_DEVICES", 1);
  return count < 0 ? 0 : count > kMaxDevices ? kMaxDevices : (int)count;
}

size_t device_bytes(void) { return (size_t)setting("STUB_CUDA_MEMORY", 1L << 30); }

static char g_refused[256];  // what a test refuses while it runs
static int g_refuses;

static const char* what_fails(void) {
  const char* order = g_refuses ? g_refused : getenv("STUB_CUDA_FAIL");
  return order == NULL ? "" : order;
}

// What is ordered for this call of a function. The table of counters is as long as any order is.
static CUresult ordered_failure(const char* function) {
  static struct Counter {
    const char* function;
    long calls;
  } counters[32];
  static char counted[256];  // the order that the counters are of
  const char* order = what_fails();
  if (strncmp(counted, order, sizeof counted - 1) != 0) {
    snprintf(counted, sizeof counted, "%s", order);
    memset(counters, 0, sizeof counters);
  }
  size_t length = strlen(function);
  while (order != NULL && *order != '\0') {
    int code = 0;
    long from = 0;
    if (strncmp(order, function, length) == 0 && sscanf(order + length, ":%d:%ld", &code, &from) == 2) {
      size_t i = 0;
      while (counters[i].function != NULL && strcmp(counters[i].function, function) != 0) i++;
      counters[i].function = function;
      if (++counters[i].calls >= from) return code;
    }
    order = strchr(order, ',');
    order = order == NULL ? NULL : order + 1;
  }
  return kSuccess;
}

CUresult enter(const char* function, int needs_context) {
  if (stub_cuda_before != NULL) stub_cuda_before(function);
  pthread_mutex_lock(&g_lock);
  CUresult ordered = ordered_failure(function);
  if (g_sticky != kSuccess) return g_sticky;
  if (is_sticky(ordered)) g_sticky = ordered;
  if (ordered != kSuccess) return ordered;
  if (!g_initialized && strcmp(function, "cuInit") != 0) return kNotInitialized;
  if (needs_context && t_current == NULL) return kInvalidContext;
  return kSuccess;
}

CUresult leave(CUresult result) {
  pthread_mutex_unlock(&g_lock);
  return result;
}

void nap(void) {
  pthread_mutex_unlock(&g_lock);
  struct timespec time = {0, 200000};
  nanosleep(&time, NULL);
  pthread_mutex_lock(&g_lock);
}

void add_object(Object* object, Kind kind) {
  object->kind = kind;
  object->context = t_current;
  object->next = g_objects;
  g_objects = object;
}

void remove_object(Object* object) {
  Object** at = &g_objects;
  while (*at != object) at = &(*at)->next;
  *at = object->next;
  free(object);
}

int lives(const void* handle, Kind kind) {
  for (Object* object = g_objects; object != NULL; object = object->next) {
    if (object == handle) return object->kind == kind;
  }
  return 0;
}

Allocation* allocation_of(const void* address, size_t bytes) {
  for (Object* object = g_objects; object != NULL; object = object->next) {
    Allocation* allocation = (Allocation*)object;
    if (object->kind == kAllocation && (uintptr_t)address >= (uintptr_t)allocation->base &&
        (uintptr_t)address + bytes <= (uintptr_t)allocation->base + allocation->bytes) {
      return allocation;
    }
  }
  return NULL;
}

int is_device_memory(const void* address, size_t bytes) {
  Allocation* allocation = allocation_of(address, bytes);
  return allocation != NULL && allocation->memory != kHostMemory;
}

void* pointer(CUdeviceptr address) { return (void*)(uintptr_t)address; }

void stub_cuda_refuse(const char* order) {
  pthread_mutex_lock(&g_lock);
  g_refuses = 1;
  snprintf(g_refused, sizeof g_refused, "%s", order);
  pthread_mutex_unlock(&g_lock);
}

size_t stub_cuda_living(void) {
  size_t living = 0;
  pthread_mutex_lock(&g_lock);
  for (const Object* object = g_objects; object != NULL; object = object->next) {
    living += object->kind != kStream || !((const Stream*)object)->is_default;
  }
  for (int i = 0; i < kMaxDevices; i++) living += (size_t)g_contexts[i].retained;
  pthread_mutex_unlock(&g_lock);
  return living;
}
