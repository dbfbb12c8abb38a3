package io.nvrar.tools.bench.measure;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.JsonObject;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.standalone.GroupObserver;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.tools.bench.measure.CpuMemberRun.Batch;
import io.nvrar.tools.bench.results.ResultLine;
import io.nvrar.tools.bench.setup.CollectiveValues;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.OptionNames;
import io.nvrar.tools.bench.setup.Settings;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

/** The measurement with a JVM for each rank. */
public final class JavaRun {
  private static final int START_SECONDS = 60;
  private static final int RESULT_SECONDS = 600;

  private JavaRun() {}

  /** Starts the members, and combines their results. */
  public static List<JsonObject> run(Settings settings) throws IOException, InterruptedException {
    List<MemberProcess> members = new ArrayList<>();
    Path barrier = SpinBarrier.create(settings.processes());
    try {
      for (int rank = 0; rank < settings.processes(); rank++) {
        members.add(new MemberProcess(rank, settings, barrier));
      }
      String ticket = members.get(0).readLine(START_SECONDS);
      // If this process ends in any way, so do the members: the loss of its observer fails the
      // group.
      GroupObserver observer = Groups.observe(GroupTicket.of(Base64.getDecoder().decode(ticket)));
      try {
        return rows(settings, measure(members, ticket));
      } finally {
        observer.close();
      }
    } finally {
      members.forEach(MemberProcess::close);
      Files.deleteIfExists(barrier);
    }
  }

  /** A result of what will be measured, of one size, without its time. */
  public static JsonObject planned(Settings settings) {
    CollectiveValues values = CpuMemberRun.sizes(settings).get(0);
    Mode mode = settings.modes().get(0);
    return ResultLine.of(
        Implementation.CPP, settings, values, ResultLine.OUT_OF_PLACE, mode, List.of(0.0), 0);
  }

  private static List<List<Batch>> measure(List<MemberProcess> members, String ticket)
      throws IOException, InterruptedException {
    for (MemberProcess member : members) {
      member.give(ticket);
    }
    List<List<Batch>> byRank = new ArrayList<>();
    for (MemberProcess member : members) {
      byRank.add(batches(member));
    }
    for (MemberProcess member : members) {
      member.await();
    }
    return byRank;
  }

  private static List<Batch> batches(MemberProcess member) throws InterruptedException {
    int count = Integer.parseInt(member.readLine(RESULT_SECONDS));
    List<Batch> batches = new ArrayList<>(count);
    for (int i = 0; i < count; i++) {
      batches.add(Batch.parse(member.readLine(START_SECONDS)));
    }
    return batches;
  }

  /** Takes the slowest rank of each batch, and the median of the batches. */
  public static List<JsonObject> rows(Settings settings, List<List<Batch>> byRank) {
    List<JsonObject> rows = new ArrayList<>();
    List<Batch> costs =
        byRank.stream()
            .flatMap(List::stream)
            .filter(one -> one.mode().equals(GpuMember.CREATE))
            .toList();
    if (!costs.isEmpty()) {
      rows.add(
          ResultLine.ofGroup(
              Implementation.JAVA,
              settings,
              costs.stream().mapToDouble(Batch::us).max().orElseThrow(),
              costs.stream().mapToLong(Batch::bytes).max().orElseThrow()));
    }
    for (CollectiveValues problem : CpuMemberRun.sizes(settings)) {
      for (String placement : List.of(ResultLine.OUT_OF_PLACE, ResultLine.IN_PLACE)) {
        for (Mode mode : settings.modes()) {
          Measured measured = measured(byRank, problem, placement, OptionNames.of(mode));
          if (!measured.slowestUs.isEmpty()) {
            List<Double> alone =
                measured(byRank, problem, placement, OptionNames.of(mode) + Mode.ALONE).slowestUs;
            double computing = alone.isEmpty() ? 0 : ResultLine.median(alone);
            rows.add(
                ResultLine.of(
                    Implementation.JAVA,
                    settings,
                    problem,
                    placement,
                    mode,
                    measured.slowestUs.stream().map(us -> us - computing).toList(),
                    measured.wrong));
          }
        }
      }
    }
    return rows;
  }

  private record Measured(List<Double> slowestUs, long wrong) {}

  private static Measured measured(
      List<List<Batch>> byRank, CollectiveValues problem, String placement, String mode) {
    List<Double> slowestUs = new ArrayList<>();
    long wrong = 0;
    for (List<Batch> ofRank : byRank) {
      int number = 0;
      for (Batch batch : ofRank) {
        if (batch.bytes() != problem.bytes()
            || !batch.placement().equals(placement)
            || !batch.mode().equals(mode)) {
          continue;
        }
        if (number == slowestUs.size()) {
          slowestUs.add(0.0);
        }
        slowestUs.set(number, Math.max(slowestUs.get(number), batch.us()));
        number++;
        wrong += batch.wrong();
      }
    }
    return new Measured(slowestUs, wrong);
  }

  /**
   * Runs a member's process. Rank 0 creates the ticket, because the rendezvous is in its process.
   * Each rank reads the ticket from standard input, measures, and answers with the number of its
   * batches and a line for each.
   */
  public static void member(Settings settings, int rank, Path barrier, PrintWriter out)
      throws IOException {
    if (rank == 0) {
      GroupTicket ticket =
          Groups.createTicket("bench", settings.processes(), settings.groupConfig(), "127.0.0.1");
      out.println(Base64.getEncoder().encodeToString(ticket.toBytes()));
    }
    String line = new BufferedReader(new InputStreamReader(System.in, UTF_8)).readLine();
    if (line == null) {
      throw new CollectiveException("the launching process ended before rank " + rank + " joined");
    }
    GroupTicket ticket = GroupTicket.of(Base64.getDecoder().decode(line));
    List<Batch> batches =
        settings.onGpu()
            ? GpuMember.run(settings, ticket, rank, barrier)
            : onHost(settings, ticket, rank);
    out.println(batches.size());
    batches.forEach(batch -> out.println(batch.toLine()));
  }

  private static List<Batch> onHost(Settings settings, GroupTicket ticket, int rank) {
    try (CollectiveGroup group = Groups.join(ticket, rank)) {
      return new CpuMemberRun(group, settings).run();
    }
  }
}
