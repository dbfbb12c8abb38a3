package io.nvrar.examples.hosts;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupHealth;
import io.nvrar.ray.CollectiveActor;
import io.nvrar.ray.RayCollectives;
import java.util.Locale;

/** One member. Nothing in it depends on where the others are. */
public class Neighbour implements CollectiveActor {

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
          "rank %d of %d on %s: gave %d, the sum is %.0f",
          group.rank(),
          group.worldSize(),
          host(group),
          group.rank() + 1,
          sum[0]);
    }
  }

  private static String host(CollectiveGroup group) {
    return group.health().ranks().get(group.rank()).host();
  }

  /** What this member knows of all members. */
  public GroupHealth health(String name) {
    return RayCollectives.group(name).health();
  }
}
