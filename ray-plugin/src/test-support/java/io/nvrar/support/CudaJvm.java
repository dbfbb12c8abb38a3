package io.nvrar.support;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.stream.Collectors;

/** JVMs that use CUDA, and the stub that is no GPU. */
public final class CudaJvm {
  private CudaJvm() {}

  /** The folder with the stub's libcuda.so.1. */
  public static Path stub() {
    Path folder = Path.of(System.getProperty("nvrar.stub.cuda"));
    assertThat(folder.resolve("libcuda.so.1"))
        .as("the stub, which is built with the library")
        .exists();
    return folder;
  }

  /**
   * Starts a main class on the stub.
   *
   * @param scratch for its temporary files and its home
   * @param environment what the stub is to do
   */
  public static ChildJvm onStub(
      Path scratch, Map<String, String> environment, Class<?> main, String... args)
      throws IOException {
    ChildJvm.Builder jvm =
        jvm(scratch, main, args)
            .environment("LD_LIBRARY_PATH", stub().toString())
            .environment("CUDA_VISIBLE_DEVICES", null);
    environment.forEach(jvm::environment);
    return jvm.start();
  }

  /**
   * Starts a main class on the driver of this JVM.
   *
   * @param scratch for its temporary files and its home
   */
  public static ChildJvm start(Path scratch, Class<?> main, String... args) throws IOException {
    return jvm(scratch, main, args).start();
  }

  private static ChildJvm.Builder jvm(Path scratch, Class<?> main, String... args) {
    return ChildJvm.of(main.getName(), args)
        .options("-Xmx64m", "-XX:+UseSerialGC", "--enable-native-access=ALL-UNNAMED")
        .options("-Djava.io.tmpdir=" + scratch, "-Duser.home=" + scratch)
        .environment("XDG_CACHE_HOME", null)
        .classPath(withoutRay());
  }

  // Its logger speaks on standard output where the tests run beside it.
  private static String withoutRay() {
    return Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
        .filter(entry -> !entry.endsWith("ray_dist.jar"))
        .collect(Collectors.joining(File.pathSeparator));
  }
}
