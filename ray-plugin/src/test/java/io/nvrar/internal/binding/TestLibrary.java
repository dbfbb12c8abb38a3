package io.nvrar.internal.binding;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.nvrar.internal.loading.LoaderSettings;
import java.io.IOException;
import java.io.InputStream;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

/**
 * The native library as the tests of its loader need it: as bytes, as a class path of its own, and
 * in broken editions.
 */
public final class TestLibrary {
  static final String RESOURCE = "io/nvrar/native/linux-x86_64/libnvrar.so";

  private TestLibrary() {}

  /** The library that this build tests. */
  static byte[] bytes() throws IOException {
    String dir = System.getProperty(LoaderSettings.NATIVE_DIR_PROPERTY);
    if (dir != null) {
      return Files.readAllBytes(Path.of(dir, "libnvrar.so"));
    }
    try (InputStream in = TestLibrary.class.getClassLoader().getResourceAsStream(RESOURCE)) {
      assertThat(in).as("the class path has %s", RESOURCE).isNotNull();
      return in.readAllBytes();
    }
  }

  /** Makes {@code root} a class path with a library of these bytes. */
  static Path classPath(Path root, byte[] library) throws IOException {
    Path file = root.resolve(RESOURCE);
    Files.createDirectories(file.getParent());
    Files.write(file, library);
    return root;
  }

  /** A class loader that sees a library of these bytes and nothing else of ours. */
  static ClassLoader classLoader(Path root, byte[] library) throws IOException {
    return loaderOf(classPath(root, library));
  }

  /** A class loader that sees no native library. */
  public static ClassLoader emptyClassLoader(Path root) throws IOException {
    return loaderOf(root);
  }

  /** Compiles C to a shared library, or skips the test where there is no compiler. */
  public static byte[] compile(Path scratch, String source) throws Exception {
    Path c = Files.writeString(scratch.resolve("library.c"), source);
    Path so = scratch.resolve("library.so");
    Process cc;
    try {
      cc =
          new ProcessBuilder("cc", "-shared", "-fPIC", "-o", so.toString(), c.toString())
              .redirectErrorStream(true)
              .start();
    } catch (IOException e) {
      assumeTrue(false, "there is no C compiler: " + e.getMessage());
      throw e;
    }
    String output = new String(cc.getInputStream().readAllBytes(), UTF_8);
    assertThat(cc.waitFor(60, TimeUnit.SECONDS)).isTrue();
    assertThat(cc.exitValue()).as(output).isZero();
    return Files.readAllBytes(so);
  }

  private static ClassLoader loaderOf(Path root) throws MalformedURLException {
    return new URLClassLoader(new URL[] {root.toUri().toURL()}, null);
  }
}
