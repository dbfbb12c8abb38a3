package io.nvrar.examples.llama.engine.cuda.driver;

import io.nvrar.BackendUnavailableException;
import io.nvrar.cuda.CudaKernel;
import io.nvrar.cuda.CudaModule;
import io.nvrar.examples.llama.weights.ModelException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Locale;

/**
 * The kernels of one source file, loaded on a GPU. No work that uses them may be running when it is
 * closed.
 */
public final class KernelImage implements Resources.Resource {
  private static final String FOLDER = "/io/nvrar/examples/llama/kernels/";

  private final Gpu gpu;
  private final CudaModule module;

  private KernelImage(Gpu gpu, CudaModule module) {
    this.gpu = gpu;
    this.module = module;
  }

  /** Whether this build has the kernels of a source file. */
  public static boolean exists(String name) {
    return KernelImage.class.getResource(resource(name)) != null;
  }

  /** Why kernels cannot be loaded; empty if they can. They are loaded for a moment to see that. */
  public static String problem(Gpu gpu, String... names) {
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
  public static KernelImage load(Gpu gpu, String name) {
    byte[] image = read(name);
    try {
      return new KernelImage(gpu, CudaModule.load(gpu.device(), image));
    } catch (BackendUnavailableException e) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "The decoder's kernels %s are built for other GPUs than %s, which has compute capability %d.%d.",
              name,
              gpu,
              gpu.capabilityMajor(),
              gpu.capabilityMinor()));
    }
  }

  /** A kernel by its name in the source. */
  public CudaKernel kernel(String function) {
    return module.kernel(function);
  }

  @Override
  public void close() {
    module.close();
  }

  private static byte[] read(String name) {
    try (InputStream stream = KernelImage.class.getResourceAsStream(resource(name))) {
      if (stream == null) {
        throw new ModelException(
            "This build has no kernels for GPUs, because there was no nvcc where it was built:"
                + " bin/nvrar setup --cuda gets one, and --backend cpu decodes without them.");
      }
      return stream.readAllBytes();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String resource(String name) {
    return FOLDER + name + ".fatbin";
  }
}
