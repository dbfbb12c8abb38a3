#include "gpu/device.h"

namespace nvrar::bench {

Gpu::Gpu(int ordinal) : ordinal_(ordinal) {
  check_cuda(cuda().cuInit(0), "starting the NVIDIA driver");
  check_cuda(cuda().cuDeviceGet(&device_, ordinal), "finding a GPU");
  CudaContext context = nullptr;
  check_cuda(cuda().cuDevicePrimaryCtxRetain(&context, device_), "taking a GPU's context");
  check_cuda(cuda().cuCtxSetCurrent(context), "making a context current");
}

std::string Gpu::name() const {
  char text[128] = "";
  check_cuda(cuda().cuDeviceGetName(text, sizeof text, device_), "asking for a GPU's name");
  return text;
}

int Gpu::clock_khz() const { return attribute(kCudaClockRateKhz, "asking for a GPU's clock"); }

int Gpu::multiprocessors() const { return attribute(kCudaMultiprocessors, "asking for a GPU's multiprocessors"); }

uint64_t Gpu::l2_bytes() const {
  return static_cast<uint64_t>(attribute(kCudaL2Bytes, "asking for the size of a GPU's L2 cache"));
}

bool Gpu::has_programmatic_launch() const { return compute_capability() >= 9; }

bool Gpu::has_clusters() const { return compute_capability() >= 9; }

int Gpu::compute_capability() const { return attribute(kCudaMajor, "asking for a GPU's compute capability"); }

int Gpu::architecture() const {
  return 10 * compute_capability() + attribute(kCudaMinor, "asking for a GPU's compute capability");
}

int Gpu::attribute(int of, const char* asking) const {
  int value = 0;
  check_cuda(cuda().cuDeviceGetAttribute(&value, of, device_), asking);
  return value;
}

uint64_t Gpu::free_bytes() const {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  check_cuda(cuda().cuMemGetInfo_v2(&free_bytes, &total_bytes), "asking for free memory");
  return free_bytes;
}

void Gpu::settle() const { check_cuda(cuda().cuCtxSynchronize(), "waiting for a GPU"); }

DeviceMemory::DeviceMemory(uint64_t bytes) : bytes_(bytes == 0 ? 1 : bytes) {
  check_cuda(cuda().cuMemAlloc_v2(&address_, bytes_), "allocating");
}

DeviceMemory::~DeviceMemory() { (void)cuda().cuMemFree_v2(address_); }

// These functions may return before the GPU is done, and our streams do not synchronize with the default stream that
// they use.
void DeviceMemory::fill(uint8_t value) {
  check_cuda(cuda().cuMemsetD8_v2(address_, value, bytes_), "filling memory");
  check_cuda(cuda().cuCtxSynchronize(), "filling memory");
}

void DeviceMemory::write(const std::vector<uint8_t>& bytes) {
  if (bytes.empty()) return;
  check_cuda(cuda().cuMemcpyHtoD_v2(address_, bytes.data(), bytes.size()), "copying to the GPU");
  check_cuda(cuda().cuCtxSynchronize(), "copying to the GPU");
}

void DeviceMemory::read(std::vector<uint8_t>* bytes) const {
  if (bytes->empty()) return;
  check_cuda(cuda().cuMemcpyDtoH_v2(bytes->data(), address_, bytes->size()), "copying from the GPU");
}

Stream::Stream() { check_cuda(cuda().cuStreamCreate(&stream_, kCudaStreamNonBlocking), "creating a stream"); }

Stream::~Stream() { (void)cuda().cuStreamDestroy_v2(stream_); }

void Stream::synchronize() const { check_cuda(cuda().cuStreamSynchronize(stream_), "waiting for a stream"); }

Event::Event() { check_cuda(cuda().cuEventCreate(&event_, 0), "creating an event"); }

Event::~Event() { (void)cuda().cuEventDestroy_v2(event_); }

void Event::record(const Stream& stream) {
  check_cuda(cuda().cuEventRecord(event_, stream.handle()), "recording an event");
}

void Event::synchronize() const { check_cuda(cuda().cuEventSynchronize(event_), "waiting for an event"); }

double Event::us_since(const Event& start) const {
  float milliseconds = 0;
  check_cuda(cuda().cuEventElapsedTime(&milliseconds, start.event_, event_), "reading the time between events");
  return static_cast<double>(milliseconds) * 1e3;
}

Graph::Graph(const Stream& stream, const std::function<void()>& work) {
  CudaGraph graph = nullptr;
  check_cuda(cuda().cuStreamBeginCapture_v2(stream.handle(), kCudaCaptureRelaxed), "beginning a capture");
  work();
  check_cuda(cuda().cuStreamEndCapture(stream.handle(), &graph), "ending a capture");
  const int made = cuda().cuGraphInstantiateWithFlags(&executable_, graph, 0);
  (void)cuda().cuGraphDestroy(graph);
  check_cuda(made, "instantiating a graph");
  check_cuda(cuda().cuGraphUpload(executable_, stream.handle()), "uploading a graph");
  stream.synchronize();
}

Graph::~Graph() { (void)cuda().cuGraphExecDestroy(executable_); }

void Graph::launch(const Stream& stream) const {
  check_cuda(cuda().cuGraphLaunch(executable_, stream.handle()), "launching a graph");
}

Kernels::Kernels(const void* image) {
  check_cuda(cuda().cuModuleLoadData(&module_, image), "loading the benchmark's kernels");
}

CudaFunction Kernels::of(const char* name) const {
  CudaFunction function = nullptr;
  check_cuda(cuda().cuModuleGetFunction(&function, module_, name), name);
  return function;
}

void launch(CudaFunction kernel, const Grid& grid, bool programmatic, CudaStream stream, void** arguments) {
  CudaLaunchAttribute attributes[2] = {};
  CudaLaunchConfig config{};
  const auto add = [&](int id) -> CudaLaunchAttribute& {
    CudaLaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = id;
    return attribute;
  };
  if (programmatic) add(kCudaProgrammaticStreamSerialization).value = 1;
  if (grid.cluster > 1) {
    CudaLaunchAttribute& attribute = add(kCudaClusterDimension);
    attribute.cluster[0] = grid.cluster;
    attribute.cluster[1] = attribute.cluster[2] = 1;
  }
  config.grid[0] = grid.blocks;
  config.grid[1] = config.grid[2] = 1;
  config.block[0] = grid.threads;
  config.block[1] = config.block[2] = 1;
  config.stream = stream;
  config.attributes = attributes;
  check_cuda(cuda().cuLaunchKernelEx(&config, kernel, arguments, nullptr), "launching a kernel of the benchmark");
}

}  // namespace nvrar::bench
