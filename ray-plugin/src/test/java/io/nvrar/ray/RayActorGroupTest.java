package io.nvrar.ray;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.ray.api.placementgroup.PlacementGroup;
import java.lang.reflect.Proxy;
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

  @Test
  void closingAfterTheEndOfRayIsNoError() {
    PlacementGroup gone =
        (PlacementGroup)
            Proxy.newProxyInstance(
                PlacementGroup.class.getClassLoader(),
                new Class<?>[] {PlacementGroup.class},
                (proxy, method, arguments) -> {
                  throw new AssertionError(method + " was called without Ray");
                });
    RayActorGroup<CollectiveActor> group = new RayActorGroup<>(gone, List.of());
    assertThatCode(group::close).doesNotThrowAnyException();
  }
}
