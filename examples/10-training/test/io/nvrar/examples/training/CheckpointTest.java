package io.nvrar.examples.training;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CheckpointTest {
  private static final Map<String, String> OPTIONS =
      Map.of("--width", "8", "the text's checksum", "a1 b2");

  private static Checkpoint after(int steps) {
    float[] losses = new float[steps];
    Arrays.fill(losses, 1.5f);
    return new Checkpoint(OPTIONS, losses, new byte[] {1, 2, 3, 4});
  }

  @Test
  void whatIsReadIsWhatWasWritten() {
    Checkpoint read = Checkpoint.decode(after(3).encode(), "x");
    assertThat(read.options()).isEqualTo(OPTIONS);
    assertThat(read.losses()).containsExactly(1.5f, 1.5f, 1.5f);
    assertThat(read.state()).containsExactly(1, 2, 3, 4);
  }

  @Test
  void aTruncatedOneIsRefusedWhereverItEnds() {
    byte[] whole = after(3).encode();
    for (int size = 0; size < whole.length; size++) {
      byte[] part = Arrays.copyOf(whole, size);
      assertThatThrownBy(() -> Checkpoint.decode(part, "x"))
          .isInstanceOf(TrainingException.class)
          .hasMessageStartingWith("the checkpoint x is truncated: it has " + size + " of ");
    }
  }

  @Test
  void oneWithAnotherByteIsRefusedWhereverItIs() {
    byte[] whole = after(3).encode();
    for (int i = 0; i < whole.length; i++) {
      byte[] damaged = whole.clone();
      damaged[i] ^= 0x40;
      assertThatThrownBy(() -> Checkpoint.decode(damaged, "x"))
          .isInstanceOf(TrainingException.class)
          .hasMessageMatching("x is no checkpoint|the checkpoint x is (truncated|damaged): .*");
    }
  }

  @Test
  void theTwoNewestAreKept(@TempDir Path directory) throws IOException {
    CheckpointDirectory checkpoints = new CheckpointDirectory(directory.resolve("made"));
    assertThat(checkpoints.newest(OPTIONS)).isNull();
    for (int steps : new int[] {5, 10, 15, 100}) {
      checkpoints.write(after(steps));
    }
    assertThat(files(directory.resolve("made")))
        .containsExactly("step-00000015.checkpoint", "step-00000100.checkpoint");
    assertThat(Objects.requireNonNull(checkpoints.newest(OPTIONS)).steps()).isEqualTo(100);
  }

  @Test
  void whatAKilledRunWasWritingIsNoCheckpoint(@TempDir Path directory) throws IOException {
    new CheckpointDirectory(directory).write(after(5));
    Files.write(directory.resolve("unfinished"), new byte[3]);
    CheckpointDirectory again = new CheckpointDirectory(directory);
    assertThat(files(directory)).containsExactly("step-00000005.checkpoint");
    assertThat(Objects.requireNonNull(again.newest(OPTIONS)).steps()).isEqualTo(5);
  }

  @Test
  void aDamagedNewestOneIsRefusedWithWhatHelps(@TempDir Path directory) throws IOException {
    CheckpointDirectory checkpoints = new CheckpointDirectory(directory);
    checkpoints.write(after(5));
    Path newest = directory.resolve("step-00000005.checkpoint");
    Files.write(newest, Arrays.copyOf(Files.readAllBytes(newest), 30));
    assertThatThrownBy(() -> checkpoints.newest(OPTIONS))
        .isInstanceOf(TrainingException.class)
        .hasMessageMatching(
            "the checkpoint .*/step-00000005.checkpoint is truncated: it has 30 of [0-9]+ bytes;"
                + " without this file the run begins anew");
    checkpoints.write(after(10));
    Files.write(directory.resolve("step-00000010.checkpoint"), new byte[40]);
    assertThatThrownBy(() -> checkpoints.newest(OPTIONS))
        .hasMessageEndingWith(
            "step-00000010.checkpoint is no checkpoint; without this file the run goes on from the"
                + " one before");
  }

  @Test
  void oneOfAnotherRunIsRefusedWithTheDifference(@TempDir Path directory) throws IOException {
    CheckpointDirectory checkpoints = new CheckpointDirectory(directory);
    checkpoints.write(after(5));
    assertThatThrownBy(
            () -> checkpoints.newest(Map.of("--width", "16", "the text's checksum", "a1 b2")))
        .isInstanceOf(TrainingException.class)
        .hasMessageMatching(
            "the checkpoint .*/step-00000005.checkpoint is of another run: --width was 8, and is 16"
                + " now; another directory for --checkpoints begins a new one");
  }

  private static Stream<String> files(Path directory) throws IOException {
    try (Stream<Path> all = Files.list(directory)) {
      return all.map(file -> file.getFileName().toString()).sorted().toList().stream();
    }
  }
}
