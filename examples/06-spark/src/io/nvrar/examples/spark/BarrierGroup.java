package io.nvrar.examples.spark;

import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import java.util.Arrays;
import java.util.Base64;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.BarrierTaskContext;
import org.apache.spark.resource.ResourceInformation;

/** A group whose members are the tasks of a barrier stage. */
public final class BarrierGroup {

  /** What a task does as a member. */
  @FunctionalInterface
  public interface Work<R> {
    R apply(CollectiveGroup group) throws Exception;
  }

  private BarrierGroup() {}

  /**
   * Joins the group of this stage's tasks, does the work, and closes the group. Every task of the
   * stage must call it equally often. If the work fails in one task, those of the others fail with
   * its reason, and Spark repeats the stage with a new group.
   *
   * @param name the group's name in messages; the stage and its attempt are appended
   * @param config that of the task of partition 0 counts
   */
  public static <R> R run(String name, GroupConfig config, Work<R> work) throws Exception {
    try (CollectiveGroup group = join(name, config)) {
      try {
        return work.apply(group);
      } catch (Exception | Error e) {
        group.abort(e);
        throw e;
      }
    }
  }

  private static CollectiveGroup join(String name, GroupConfig config) {
    BarrierTaskContext task = BarrierTaskContext.get();
    List<String> hosts = hosts(task);
    String mine = "";
    if (task.partitionId() == 0) {
      // A group lives as long as an attempt; the next one's messages must not look like this one's.
      String full = name + " of stage " + task.stageId() + "." + task.stageAttemptNumber();
      GroupTicket ticket = Groups.createTicket(full, hosts.size(), config, hosts.get(0));
      mine = Base64.getEncoder().encodeToString(ticket.toBytes());
    }
    String[] tickets = task.allGather(mine);
    GroupTicket ticket = GroupTicket.of(Base64.getDecoder().decode(tickets[0]));
    return Groups.join(ticket, rank(hosts, task.partitionId()), gpu(task));
  }

  /** The host of each partition's executor. Spark gives its address with a port. */
  private static List<String> hosts(BarrierTaskContext task) {
    return Arrays.stream(task.getTaskInfos())
        .map(info -> info.address().substring(0, info.address().lastIndexOf(':')))
        .toList();
  }

  /**
   * The partition's number, if those of every host are consecutive. Spark does not place them so,
   * but the ranks of a host have to be; the hosts are in the order of their first partitions.
   */
  static int rank(List<String> hosts, int partition) {
    List<Integer> byRank =
        IntStream.range(0, hosts.size())
            .boxed()
            .sorted(Comparator.comparingInt(other -> hosts.indexOf(hosts.get(other))))
            .toList();
    return byRank.indexOf(partition);
  }

  /** The GPU that Spark has assigned, or 0, which CPU groups ignore. */
  private static int gpu(BarrierTaskContext task) {
    ResourceInformation gpu = task.resourcesJMap().get("gpu");
    return gpu == null ? 0 : Integer.parseInt(gpu.addresses()[0]);
  }
}
