package io.nvrar.it.cluster;

import io.nvrar.support.ChildJvm;
import java.io.File;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** JVMs with the tests' class path. */
public final class ForkedJvm {
  private ForkedJvm() {}

  /**
   * Starts a driver of a cluster.
   *
   * @param command a main class and its arguments
   */
  public static ChildJvm driver(RayCluster cluster, String... command) throws IOException {
    return jvm(command)
        .options(
            Stream.concat(
                    Stream.of("nvrar.home=" + System.getProperty("nvrar.home")),
                    cluster.driverProperties().stream())
                .map(property -> "-D" + property)
                .toList())
        .classPath(RayCluster.classPath())
        .start();
  }

  /** Starts a JVM without Ray. */
  public static ChildJvm plain(String... command) throws IOException {
    String withoutRay =
        Arrays.stream(RayCluster.classPath().split(File.pathSeparator))
            .filter(path -> !path.endsWith("ray_dist.jar"))
            .collect(Collectors.joining(File.pathSeparator));
    return jvm(command).classPath(withoutRay).start();
  }

  private static ChildJvm.Builder jvm(String... command) {
    List<String> words = List.of(command);
    return ChildJvm.of(words.get(0), words.subList(1, words.size()).toArray(String[]::new))
        .options(RayCluster.jvmOptions());
  }
}
