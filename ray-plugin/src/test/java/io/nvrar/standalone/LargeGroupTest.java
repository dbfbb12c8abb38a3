package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.ReduceOp;
import java.time.Duration;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Groups of more members than a node may have, which only the CPU backend has. */
class LargeGroupTest {
  private static final int PER_NODE = 3;

  /** Eight nodes of 3 and one of 1. */
  private static final int MEMBERS = 25;

  private static GroupConfig.Builder config() {
    return Members.config().backend(Backend.CPU).gpusPerNode(PER_NODE);
  }

  private static Members join(GroupConfig config) {
    return Members.join("large", MEMBERS, config);
  }

  private static DeviceBuffer buffer(CollectiveGroup group, double... values) {
    DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, values.length);
    Elements.write(buffer, values);
    return buffer;
  }

  @Test
  void everyMemberGetsEveryonesData() {
    try (Members members = join(config().build())) {
      members.onAll(
          group -> {
            int next = (group.rank() + 1) % MEMBERS;
            int before = (group.rank() + MEMBERS - 1) % MEMBERS;
            try (DeviceBuffer own = buffer(group, 1 + group.rank());
                DeviceBuffer all = buffer(group, new double[MEMBERS])) {
              group.allGather(own, all);
              assertThat(Elements.read(all))
                  .isEqualTo(IntStream.rangeClosed(1, MEMBERS).asDoubleStream().toArray());
              group.batch(
                  () -> {
                    group.send(own, next);
                    group.recv(all.slice(0, 1), before);
                  });
              assertThat(Elements.read(all)[0]).isEqualTo(1 + before);
              group.broadcast(own, MEMBERS - 1);
              assertThat(Elements.read(own)).isEqualTo(new double[] {MEMBERS});
              group.allReduce(own, ReduceOp.SUM);
              assertThat(Elements.read(own)).isEqualTo(new double[] {MEMBERS * MEMBERS});
            }
            group.barrier();
          });
    }
  }

  @Test
  void aTimeOutNamesTheMemberThatIsMissing() {
    int absent = MEMBERS - 1;
    Members members = join(config().timeout(Duration.ofSeconds(1)).build());
    try {
      members.onAll(
          group -> {
            if (group.rank() == absent) {
              return;
            }
            CollectiveTimeoutException failure =
                catchThrowableOfType(CollectiveTimeoutException.class, group::barrier);
            assertThat(failure.missingRanks()).containsExactly(absent);
            assertThat(failure).hasMessageContaining("without rank " + absent);
          });
    } finally {
      IntStream.range(0, MEMBERS).forEach(rank -> members.rank(rank).close());
    }
  }

  @Test
  void membersOfANodeThatAreTooManyForItCannotJoin() {
    GroupConfig oneNode = config().gpusPerNode(0).build();
    // Each finds out itself, or is told by the first that did.
    assertThatThrownBy(() -> Members.join("crowded", 9, oneNode))
        .hasMessageContaining("9 ranks from rank 0 on are in one node, which has at most 8");
  }
}
