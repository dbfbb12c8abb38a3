package io.nvrar.ray;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.regex.Pattern;

/** The options of an actor's JVM: those that Ray and this library need, then the user's. */
final class ActorJvm {
  private static final String COLLECTOR = "-XX:+UseSerialGC";

  private static final Pattern COLLECTORS = Pattern.compile("-XX:\\+Use[A-Za-z0-9]+GC");

  /**
   * Ray's serializer reflects on six JDK packages; unless they are opened, an exception ends the
   * actor's process.
   */
  static final List<String> REQUIRED =
      List.of(
          "--add-opens=java.base/java.lang=ALL-UNNAMED",
          "--add-opens=java.base/java.math=ALL-UNNAMED",
          "--add-opens=java.base/java.util=ALL-UNNAMED",
          "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
          "--add-opens=java.base/java.net=ALL-UNNAMED",
          "--add-opens=java.base/java.text=ALL-UNNAMED",
          "--enable-native-access=ALL-UNNAMED",
          // Keeps Kryo from using sun.misc.Unsafe, which newer JDKs warn about.
          "-Dkryo.unsafe=false",
          // Several JVMs share the node's cores; the serial collector has the fewest threads and
          // starts fastest.
          COLLECTOR);

  private final List<String> options = new ArrayList<>(REQUIRED);

  void add(String option) {
    Objects.requireNonNull(option, "option");
    if (COLLECTORS.matcher(option).matches()) {
      options.remove(COLLECTOR); // a JVM with two collectors does not start
    }
    options.add(option);
  }

  List<String> options() {
    return List.copyOf(options);
  }
}
