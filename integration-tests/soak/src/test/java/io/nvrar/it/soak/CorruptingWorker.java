package io.nvrar.it.soak;

import io.nvrar.CollectiveGroup;
import io.nvrar.DeviceBuffer;
import io.nvrar.it.soak.worker.WorkerMain;
import io.nvrar.standalone.Groups;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;

/** A worker that changes one bit of the last element that rank 1 receives in an all-reduce. */
final class CorruptingWorker {
  private CorruptingWorker() {}

  public static void main(String[] args) throws IOException {
    WorkerMain.serve(args, (ticket, rank, device) -> corrupting(Groups.join(ticket, rank, device)));
  }

  private static CollectiveGroup corrupting(CollectiveGroup group) {
    return (CollectiveGroup)
        Proxy.newProxyInstance(
            CorruptingWorker.class.getClassLoader(),
            new Class<?>[] {CollectiveGroup.class},
            (proxy, method, args) -> {
              Object result;
              try {
                result = method.invoke(group, args);
              } catch (InvocationTargetException e) {
                throw e.getTargetException();
              }
              if (method.getName().equals("allReduce") && group.rank() == 1) {
                flipOneBit((DeviceBuffer) args[1]);
              }
              return result;
            });
  }

  private static void flipOneBit(DeviceBuffer buffer) {
    if (buffer.count() == 0) {
      return;
    }
    DeviceBuffer last = buffer.slice(buffer.count() - 1, 1);
    ByteBuffer bytes = ByteBuffer.allocate(last.dataType().sizeBytes());
    last.copyTo(bytes);
    bytes.put(0, (byte) (bytes.get(0) ^ 1)).flip();
    last.copyFrom(bytes);
  }
}
