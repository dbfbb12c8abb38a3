package io.nvrar.it.soak;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.it.soak.worker.ProcessResources;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class LeakCheckTest {
  private static final List<String> FILES = List.of("/lib/a.jar", "pipe", "pipe", "socket");
  private static final List<String> THREADS = List.of("main", "soak-reader");

  private static final List<String> TASKS = List.of("java", "main", "soak-reader");

  private static ProcessResources holding(
      List<String> descriptors, List<String> threads, int segments) {
    return new ProcessResources(descriptors, threads, TASKS, segments, 100 << 20, 4 << 20);
  }

  private static final ProcessResources FIRST = holding(FILES, THREADS, 0);

  @Test
  void theSameIsNoLeakNorIsAFileOpenedLate() {
    assertThat(LeakCheck.problem(FIRST, FIRST)).isEmpty();
    List<String> random = List.of("/dev/random", "/lib/a.jar", "pipe", "pipe", "socket");
    assertThat(LeakCheck.problem(holding(random, THREADS, 0), FIRST)).isEmpty();
  }

  @ParameterizedTest
  @CsvSource({"socket", "pipe", "anon_inode:[eventpoll]", "/memfd:nvrar (deleted)", "/lib/a.jar"})
  void oneDescriptorMoreIsALeak(String what) {
    List<String> more = List.of("/lib/a.jar", "pipe", "pipe", "socket", what);
    assertThat(LeakCheck.problem(holding(more, THREADS, 0), FIRST))
        .contains("descriptors of " + what);
  }

  @Test
  void aMappedSegmentIsALeakFromTheStart() {
    ProcessResources mapped = holding(FILES, THREADS, 2);
    assertThat(LeakCheck.problem(mapped, mapped)).contains("2 mappings of segments");
  }

  @Test
  void aThreadOfAGroupIsALeakFromTheStart() {
    ProcessResources running = holding(FILES, List.of("main", "nvrar-tp-hub"), 0);
    assertThat(LeakCheck.problem(running, running)).contains("nvrar-tp-hub");
  }

  @Test
  void aThreadThatJavaDoesNotKnowIsALeakAndIsNamed() {
    List<String> tasks = List.of("java", "java", "main", "soak-reader");
    ProcessResources now = new ProcessResources(FILES, THREADS, tasks, 0, 100 << 20, 4 << 20);
    assertThat(LeakCheck.problem(now, FIRST))
        .isEqualTo("4 threads of all kinds, after its first rounds it had 3: " + tasks);
  }

  @Test
  void aProcessThatGotThePidOfADeadOneIsNotComparedWithIt() {
    LeakCheck check = new LeakCheck();
    Object dead = new Object();
    Object replacement = new Object();
    for (int i = 0; i < 10; i++) {
      assertThat(check.check(dead, 77, logging("worker-0.log", 100))).isEmpty();
    }
    for (int i = 0; i < 10; i++) {
      assertThat(check.check(replacement, 77, logging("worker-1.log", 200))).isEmpty();
    }
    assertThat(check.growth()).isEmpty();
    assertThat(check.summary(5)).hasSize(2).allMatch(line -> line.startsWith("pid 77, 10 checks"));
  }

  private static ProcessResources logging(String log, int megabytes) {
    List<String> descriptors = List.of("/tmp/" + log, "/tmp/" + log, "pipe");
    return new ProcessResources(descriptors, THREADS, TASKS, 0, (long) megabytes << 20, 4 << 20);
  }

  @Test
  void memoryThatGrowsInTheLastThirdIsFound() {
    assertThat(growth(100, 130)).hasSize(1).first().asString().contains("resident memory");
    assertThat(growth(100, 104)).isEmpty();
  }

  private static List<String> growth(int megabytesBefore, int megabytesAfter) {
    List<ProcessResources> samples = new ArrayList<>();
    for (int i = 0; i < 30; i++) {
      long rss = (long) (i < 20 ? megabytesBefore : megabytesAfter) << 20;
      samples.add(new ProcessResources(FILES, THREADS, TASKS, 0, rss, 4 << 20));
    }
    return LeakCheck.growth(77, samples);
  }
}
