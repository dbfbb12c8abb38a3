package io.nvrar.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class GroupLifeTest {

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5, 6, 7, 8})
  void membersOfEveryWorldSizeReduceAndClose(int worldSize) {
    try (Members members = Members.join("life", worldSize, Members.config().build())) {
      members.onAll(
          group -> {
            try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 100)) {
              float[] values = new float[100];
              java.util.Arrays.fill(values, group.rank() + 1);
              buffer.copyFrom(values);
              group.allReduce(buffer);
              buffer.copyTo(values);
              assertThat(values).containsOnly(worldSize * (worldSize + 1) / 2f);
            }
          });
    }
  }
}
