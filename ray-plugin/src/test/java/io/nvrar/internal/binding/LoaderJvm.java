package io.nvrar.internal.binding;

import io.nvrar.support.ChildJvm;
import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/** JVMs that load the native library, which happens once per process. */
final class LoaderJvm {
  private LoaderJvm() {}

  /**
   * Starts {@link LoaderProcess} without any native library but that of {@code nativeClassPath}.
   *
   * @param prefix the command to run java under, may be empty
   * @param options of the JVM
   */
  static ChildJvm start(
      List<String> prefix, Path nativeClassPath, List<String> options, String... args)
      throws IOException {
    String classes =
        Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator, -1))
            .filter(entry -> !new File(entry).getName().startsWith("ray-nvrar-native"))
            .filter(entry -> !new File(entry, TestLibrary.RESOURCE).exists())
            .collect(Collectors.joining(File.pathSeparator));
    return ChildJvm.of(LoaderProcess.class.getName(), args)
        .under(prefix)
        .options("-Xmx64m", "-XX:+UseSerialGC", "--enable-native-access=ALL-UNNAMED")
        .options(options)
        .classPath(nativeClassPath + File.pathSeparator + classes)
        .environment("XDG_CACHE_HOME", null)
        .start();
  }
}
