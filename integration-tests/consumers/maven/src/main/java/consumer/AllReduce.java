package consumer;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import java.util.concurrent.CompletableFuture;

/** Two ranks, which are threads here, sum what each of them has. */
public final class AllReduce {
  private AllReduce() {}

  static float sum(GroupTicket ticket, int rank) {
    try (CollectiveGroup group = Groups.join(ticket, rank);
        DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1)) {
      buffer.copyFrom(new float[] {rank + 1});
      group.allReduce(buffer);
      float[] sum = new float[1];
      buffer.copyTo(sum);
      return sum[0];
    }
  }

  public static void main(String[] args) {
    GroupTicket ticket = Groups.createTicket("consumer", 2, GroupConfig.defaults(), "127.0.0.1");
    CompletableFuture<Float> other = CompletableFuture.supplyAsync(() -> sum(ticket, 1));
    System.out.println("the sums are " + sum(ticket, 0) + " and " + other.join());
  }
}
