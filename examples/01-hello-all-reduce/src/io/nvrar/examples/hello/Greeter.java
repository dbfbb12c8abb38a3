package io.nvrar.examples.hello;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.ray.CollectiveActor;
import io.nvrar.ray.RayCollectives;
import java.util.Locale;

/** One member: an ordinary Ray actor that is also a {@link CollectiveActor}. */
public class Greeter implements CollectiveActor {

  /** Contributes rank + 1 and returns a line with the sum over all members. */
  public String sum(String name) {
    CollectiveGroup group = RayCollectives.group(name);
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1)) {
      buffer.copyFrom(new float[] {group.rank() + 1});
      group.allReduce(buffer);
      float[] sum = new float[1];
      buffer.copyTo(sum);
      return String.format(
          Locale.ROOT,
          "rank %d of %d on %s (%s): gave %d, the sum is %.0f",
          group.rank(),
          group.worldSize(),
          group.device(),
          group.backend(),
          group.rank() + 1,
          sum[0]);
    }
  }
}
