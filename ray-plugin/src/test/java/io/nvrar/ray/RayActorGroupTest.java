package io.nvrar.ray;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class RayActorGroupTest {

  @Test
  void oneActorThatCannotBeKilledDoesNotSpareTheOthers() {
    List<String> done = new ArrayList<>();
    IllegalStateException first = new IllegalStateException("first");
    IllegalStateException second = new IllegalStateException("second");
    List<Runnable> steps =
        List.of(
            () -> {
              throw first;
            },
            () -> done.add("kill"),
            () -> {
              throw second;
            },
            () -> done.add("give room back"));
    assertThatThrownBy(() -> RayActorGroup.runAll(steps)).isSameAs(first);
    assertThat(first).hasSuppressedException(second);
    assertThat(done).containsExactly("kill", "give room back");
  }
}
