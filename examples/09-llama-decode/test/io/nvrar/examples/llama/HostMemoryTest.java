package io.nvrar.examples.llama;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Test;

final class HostMemoryTest {
  private static final HostMemory A = new HostMemory("a", 1000, 300, 0.9);
  private static final HostMemory B = new HostMemory("b", 1000, 100, 0.95);

  @Test
  void ranksOfAHostShareItsMemory() {
    assertThat(HostMemory.problem(List.of(300L, 850L, 300L), List.of(A, B, A))).isEmpty();
    assertThat(HostMemory.problem(List.of(300L, 850L, 301L), List.of(A, B, A)))
        .isEqualTo(
            "The weights, keys and values of 2 ranks take 601 bytes on a, where Ray lets 90 % of"
                + " 1000 bytes be used and 300 are in use: 1 bytes are missing.");
    assertThat(HostMemory.problem(List.of(0L, 851L), List.of(A, B)))
        .startsWith("The weights, keys and values of 1 rank take 851 bytes on b");
  }

  @Test
  void aHostThatIsFullAlreadyHasNothingLeft() {
    HostMemory full = new HostMemory("c", 1000, 990, 0.95);
    assertThat(HostMemory.problem(List.of(10L), List.of(full))).endsWith("10 bytes are missing.");
  }

  @Test
  void thisHostsMemoryIsFound() {
    assertThat(HostMemory.problem(List.of(1L), List.of(HostMemory.here()))).isEmpty();
    assertThat(HostMemory.problem(List.of(1L << 50), List.of(HostMemory.here()))).isNotEmpty();
  }
}
