#include "gpu/graph.h"

#include <dlfcn.h>

#include "support/gpu.h"

// The kernel of device/hog.cu, as nvcc made it.
asm(".pushsection .rodata\n"
    ".balign 16\n"
    "nvrar_test_hog_cubin:\n"
    ".incbin \"" NVRAR_TEST_HOG
    "\"\n"
    ".popsection");
extern "C" const char nvrar_test_hog_cubin[];

namespace nvrar::test {
namespace {

using cuda::check;
using cuda::CurrentContext;
using cuda::driver;

constexpr int kCaptureRelaxed = 2;      // CU_STREAM_CAPTURE_MODE_RELAXED
constexpr unsigned kHogThreads = 1024;  // of a block, two of which fill a multiprocessor
constexpr unsigned kFreeMultiprocessors = 4;

template <class Call>
Call find(const char* name) {
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const symbol = ::dlsym(library, name);
  check(symbol != nullptr ? cuda::kSuccess : cuda::kErrorNotFound, name);
  return reinterpret_cast<Call>(symbol);
}

cuda::Stream stream_at(uint64_t handle) { return reinterpret_cast<cuda::Stream>(handle); }

}  // namespace

Graph::Graph(int rank, const std::function<void(uint64_t stream)>& work) : Graph(rank, stream_of(rank), work) {}

Graph::Graph(int rank, uint64_t stream, const std::function<void(uint64_t stream)>& work) : rank_(rank) {
  const CurrentContext current(context_of(rank));
  check(find<cuda::Result (*)(cuda::Stream, int)>("cuStreamBeginCapture_v2")(stream_at(stream), kCaptureRelaxed),
        "beginning a capture");
  work(stream);
  check(find<cuda::Result (*)(cuda::Stream, Opaque**)>("cuStreamEndCapture")(stream_at(stream), &graph_),
        "ending a capture");
  check(find<cuda::Result (*)(OpaqueExecutable**, Opaque*, unsigned long long)>("cuGraphInstantiateWithFlags")(
            &executable_, graph_, 0),
        "instantiating a graph");
}

Graph::~Graph() {
  const CurrentContext current(context_of(rank_));
  (void)find<cuda::Result (*)(OpaqueExecutable*)>("cuGraphExecDestroy")(executable_);
  (void)find<cuda::Result (*)(Opaque*)>("cuGraphDestroy")(graph_);
}

void Graph::launch(uint64_t stream) const {
  const CurrentContext current(context_of(rank_));
  check(find<cuda::Result (*)(OpaqueExecutable*, cuda::Stream)>("cuGraphLaunch")(executable_, stream_at(stream)),
        "launching a graph");
}

SecondStream::SecondStream(int rank, unsigned flags) : rank_(rank) {
  const CurrentContext current(context_of(rank));
  check(driver().cuStreamCreate(&stream_, flags), "creating a stream");
}

SecondStream::~SecondStream() {
  const CurrentContext current(context_of(rank_));
  (void)driver().cuStreamSynchronize(stream_);
  (void)driver().cuStreamDestroy_v2(stream_);
}

void SecondStream::wait() const {
  const CurrentContext current(context_of(rank_));
  check(driver().cuStreamSynchronize(stream_), "waiting for a stream");
}

ForeignKernel::ForeignKernel(int rank) : rank_(rank) {
  const CurrentContext current(context_of(rank));
  cuda::Module module = nullptr;
  check(driver().cuModuleLoadData(&module, nvrar_test_hog_cubin), "loading a kernel");
  check(driver().cuModuleGetFunction(&function_, module, "hog"), "finding a kernel");
  cuda::DeviceHandle device = 0;
  check(driver().cuDeviceGet(&device, gpu_of(rank)), "finding a GPU");
  int multiprocessors = 0;
  check(driver().cuDeviceGetAttribute(&multiprocessors, cuda::kMultiprocessorCount, device), "asking a GPU");
  multiprocessors_ = static_cast<unsigned>(multiprocessors);
}

void ForeignKernel::launch(const SecondStream& stream, unsigned blocks, unsigned threads, uint64_t ns) const {
  const CurrentContext current(context_of(rank_));
  cuda::LaunchConfig config{};
  config.grid[0] = blocks;
  config.grid[1] = config.grid[2] = 1;
  config.block[0] = threads;
  config.block[1] = config.block[2] = 1;
  config.stream = stream_at(stream.handle());
  void* arguments[] = {&ns};
  check(driver().cuLaunchKernelEx(&config, function_, arguments, nullptr), "launching a kernel");
}

void hog_gpu(int rank, const SecondStream& stream, uint64_t ns) {
  const ForeignKernel hog(rank);
  hog.launch(stream, 2 * (hog.multiprocessors() - kFreeMultiprocessors), kHogThreads, ns);
}

}  // namespace nvrar::test
