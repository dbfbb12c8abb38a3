package io.nvrar.internal.group;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.support.ChildJvm;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

class CloseUnderCallsTest {
  private static final int GROUPS = 12;
  private static final int CALLERS = 6;
  private static final Pattern TOLD = Pattern.compile("(\\d+) REFUSED (\\d+)");

  /** A call may find the close, or the close the call; neither may find freed memory. */
  @Test
  void aCloseFreesNothingUnderACall() throws Exception {
    ChildJvm.Builder jvm =
        ChildJvm.of(
                CloseUnderCalls.class.getName(),
                Integer.toString(GROUPS),
                Long.toString(System.nanoTime() % 100_000))
            .options("-Xmx128m", "-Dkryo.unsafe=false", "--enable-native-access=ALL-UNNAMED")
            // glibc overwrites what the native library frees; the ranks' shared memory is unmapped.
            .environment("MALLOC_PERTURB_", "165");
    String directory = System.getProperty("nvrar.native.dir");
    if (directory != null) {
      jvm.options("-Dnvrar.native.dir=" + directory);
    }
    try (ChildJvm child = jvm.start()) {
      Matcher told = TOLD.matcher(child.awaitLine("MADE "));
      assertThat(told.matches()).isTrue();
      child.end(0);
      assertThat(Long.parseLong(told.group(1))).as("calls").isGreaterThan(100);
      assertThat(told.group(2))
          .as("every caller is refused at the end")
          .isEqualTo(Integer.toString(GROUPS * CALLERS));
    }
  }
}
