package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.examples.llama.weights.ModelException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.Locale;

/**
 * The kernels of one source file, loaded on a GPU. No work that uses them may be running when it is
 * closed.
 */
final class KernelImage implements Resources.Resource {
  private static final String FOLDER = "/io/nvrar/examples/llama/kernels/";

  // CUDA_ERROR_NO_BINARY_FOR_GPU
  private static final int NO_IMAGE = 209;

  private final Gpu gpu;
  private final String name;
  private long module;

  private KernelImage(Gpu gpu, String name, long module) {
    this.gpu = gpu;
    this.name = name;
    this.module = module;
  }

  /** Whether this build has the kernels of a source file. */
  static boolean exists(String name) {
    return KernelImage.class.getResource(resource(name)) != null;
  }

  /** Why kernels cannot be loaded; empty if they can. They are loaded for a moment to see that. */
  static String problem(Gpu gpu, String... names) {
    for (String name : names) {
      try (KernelImage image = load(gpu, name)) {
        image.gpu.enter();
      } catch (ModelException e) {
        return String.valueOf(e.getMessage());
      }
    }
    return "";
  }

  /**
   * Loads the kernels of a source file.
   *
   * @param name the file's name without {@code .cu}
   * @throws ModelException if this build has no such kernels, or none for this GPU
   */
  static KernelImage load(Gpu gpu, String name) {
    ByteBuffer image = read(name);
    long[] module = new long[1];
    gpu.enter();
    int status = Driver.cuModuleLoadData(module, image);
    if (status == NO_IMAGE) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "The decoder's kernels %s are built for other GPUs than %s, which has compute capability %d.%d.",
              name,
              gpu,
              gpu.capabilityMajor(),
              gpu.capabilityMinor()));
    }
    Driver.check("cuModuleLoadData", "the kernels " + name + " on " + gpu, status);
    return new KernelImage(gpu, name, module[0]);
  }

  /** A kernel by its name in the source. */
  Kernel kernel(String function) {
    long[] handle = new long[1];
    gpu.enter();
    Driver.check(
        "cuModuleGetFunction",
        String.format(Locale.ROOT, "%s of the kernels %s on %s", function, name, gpu),
        Driver.cuModuleGetFunction(handle, module, function));
    return new Kernel(gpu, function, handle[0]);
  }

  @Override
  public void close() {
    long loaded = module;
    module = 0;
    if (loaded != 0) {
      gpu.enter();
      Driver.check("cuModuleUnload", this, Driver.cuModuleUnload(loaded));
    }
  }

  @Override
  public String toString() {
    return "the kernels " + name + " on " + gpu;
  }

  private static ByteBuffer read(String name) {
    try (InputStream stream = KernelImage.class.getResourceAsStream(resource(name))) {
      if (stream == null) {
        throw new ModelException(
            "This build has no kernels for GPUs, because there was no nvcc where it was built:"
                + " bin/nvrar setup --cuda gets one, and --backend cpu decodes without them.");
      }
      byte[] bytes = stream.readAllBytes();
      return ByteBuffer.allocateDirect(bytes.length).put(bytes).flip();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String resource(String name) {
    return FOLDER + name + ".fatbin";
  }
}
