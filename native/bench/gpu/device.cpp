#include "gpu/device.h"

namespace nvrar::bench {
namespace {

// CUdevice_attribute
constexpr int kClockRateKhz = 13;
constexpr int kL2Bytes = 38;

}  // namespace

int visible_gpus() {
  int count = 0;
  cuda::check(cuda::driver().cuDeviceGetCount(&count), "counting the GPUs");
  return count;
}

Gpu::Gpu(int ordinal) : ordinal_(ordinal) {
  cuda::check(cuda::driver().cuDeviceGet(&device_, ordinal), "finding a GPU");
  cuda::Context context = nullptr;
  cuda::check(cuda::driver().cuDevicePrimaryCtxRetain(&context, device_), "taking a GPU's context");
  cuda::check(cuda::driver().cuCtxPushCurrent_v2(context), "making a context current");
}

std::string Gpu::name() const {
  char text[128] = "";
  cuda::check(cuda::driver().cuDeviceGetName(text, sizeof text, device_), "asking for a GPU's name");
  return text;
}

int Gpu::clock_khz() const { return attribute(kClockRateKhz, "asking for a GPU's clock"); }

int Gpu::multiprocessors() const { return attribute(cuda::kMultiprocessorCount, "asking for a GPU's multiprocessors"); }

uint64_t Gpu::l2_bytes() const {
  return static_cast<uint64_t>(attribute(kL2Bytes, "asking for the size of a GPU's L2 cache"));
}

bool Gpu::has_programmatic_launch() const { return compute_capability() >= 9; }

bool Gpu::has_clusters() const { return compute_capability() >= 9; }

int Gpu::compute_capability() const {
  return attribute(cuda::kComputeCapabilityMajor, "asking for a GPU's compute capability");
}

int Gpu::architecture() const {
  return 10 * compute_capability() + attribute(cuda::kComputeCapabilityMinor, "asking for a GPU's compute capability");
}

int Gpu::attribute(int of, const char* asking) const {
  int value = 0;
  cuda::check(cuda::driver().cuDeviceGetAttribute(&value, of, device_), asking);
  return value;
}

uint64_t Gpu::free_bytes() const {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  cuda::check(cuda::driver().cuMemGetInfo_v2(&free_bytes, &total_bytes), "asking for free memory");
  return free_bytes;
}

void Gpu::settle() const { cuda::check(cuda::driver().cuCtxSynchronize(), "waiting for a GPU"); }

DeviceMemory::DeviceMemory(uint64_t bytes) : bytes_(bytes == 0 ? 1 : bytes) {
  cuda::check(cuda::driver().cuMemAlloc_v2(&address_, bytes_), "allocating");
}

DeviceMemory::~DeviceMemory() { (void)cuda::driver().cuMemFree_v2(address_); }

// May return before the GPU is done, and our streams do not synchronize with the default stream that it uses.
void DeviceMemory::fill(uint8_t value) {
  cuda::check(cuda::driver().cuMemsetD8_v2(address_, value, bytes_), "filling memory");
  cuda::check(cuda::driver().cuCtxSynchronize(), "filling memory");
}

void DeviceMemory::write(const std::vector<uint8_t>& bytes) {
  if (bytes.empty()) return;
  cuda::check(cuda::copy_to_gpu(address_, bytes.data(), bytes.size()), "copying to the GPU");
}

void DeviceMemory::read(std::vector<uint8_t>* bytes) const {
  if (bytes->empty()) return;
  cuda::check(cuda::copy_from_gpu(bytes->data(), address_, bytes->size()), "copying from the GPU");
}

Stream::Stream() {
  cuda::check(cuda::driver().cuStreamCreate(&stream_, cuda::kStreamNonBlocking), "creating a stream");
}

Stream::~Stream() { (void)cuda::driver().cuStreamDestroy_v2(stream_); }

void Stream::synchronize() const { cuda::check(cuda::driver().cuStreamSynchronize(stream_), "waiting for a stream"); }

Event::Event() { cuda::check(cuda::driver().cuEventCreate(&event_, 0), "creating an event"); }

Event::~Event() { (void)cuda::driver().cuEventDestroy_v2(event_); }

void Event::record(const Stream& stream) {
  cuda::check(cuda::driver().cuEventRecord(event_, stream.handle()), "recording an event");
}

void Event::synchronize() const { cuda::check(cuda::driver().cuEventSynchronize(event_), "waiting for an event"); }

double Event::us_since(const Event& start) const {
  float milliseconds = 0;
  cuda::check(cuda::driver().cuEventElapsedTime(&milliseconds, start.event_, event_),
              "reading the time between events");
  return static_cast<double>(milliseconds) * 1e3;
}

Graph::Graph(const Stream& stream, const std::function<void()>& work) {
  cuda::Graph graph = nullptr;
  cuda::check(cuda::driver().cuStreamBeginCapture_v2(stream.handle(), cuda::kCaptureRelaxed), "beginning a capture");
  work();
  cuda::check(cuda::driver().cuStreamEndCapture(stream.handle(), &graph), "ending a capture");
  const int made = cuda::driver().cuGraphInstantiateWithFlags(&executable_, graph, 0);
  (void)cuda::driver().cuGraphDestroy(graph);
  cuda::check(made, "instantiating a graph");
  cuda::check(cuda::driver().cuGraphUpload(executable_, stream.handle()), "uploading a graph");
  stream.synchronize();
}

Graph::~Graph() { (void)cuda::driver().cuGraphExecDestroy(executable_); }

void Graph::launch(const Stream& stream) const {
  cuda::check(cuda::driver().cuGraphLaunch(executable_, stream.handle()), "launching a graph");
}

Kernels::Kernels(const void* image) {
  cuda::check(cuda::driver().cuModuleLoadData(&module_, image), "loading the benchmark's kernels");
}

CudaFunction Kernels::of(const char* name) const {
  CudaFunction function = nullptr;
  cuda::check(cuda::driver().cuModuleGetFunction(&function, module_, name), name);
  return function;
}

void launch(CudaFunction kernel, const Grid& grid, bool programmatic, CudaStream stream, void** arguments) {
  cuda::LaunchAttribute attributes[2] = {};
  cuda::LaunchConfig config{};
  const auto add = [&](int id) -> cuda::LaunchAttribute& {
    cuda::LaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = id;
    return attribute;
  };
  if (programmatic) add(cuda::kProgrammaticStreamSerialization).value = 1;
  if (grid.cluster > 1) {
    cuda::LaunchAttribute& attribute = add(cuda::kClusterDimension);
    attribute.cluster[0] = grid.cluster;
    attribute.cluster[1] = attribute.cluster[2] = 1;
  }
  config.grid[0] = grid.blocks;
  config.grid[1] = config.grid[2] = 1;
  config.block[0] = grid.threads;
  config.block[1] = config.block[2] = 1;
  config.stream = stream;
  config.attributes = attributes;
  cuda::check(cuda::driver().cuLaunchKernelEx(&config, kernel, arguments, nullptr),
              "launching a kernel of the benchmark");
}

}  // namespace nvrar::bench
