package io.nvrar.examples.processes;

import io.nvrar.Backend;
import io.nvrar.device.Devices;
import io.nvrar.standalone.GroupObserver;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.tools.AnswerPipe;
import io.nvrar.tools.NvrarCommand;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The launcher: starts a JVM for each member and carries the ticket between them. */
@Command(
    name = "hello-processes",
    description = "Sum numbers over plain JVM processes by an all-reduce, without Ray.",
    mixinStandardHelpOptions = true)
public final class HelloProcessesCommand implements NvrarCommand {

  private static final int RANKS_DEFAULT = 4;

  @Option(
      names = "--ranks",
      paramLabel = "N",
      description =
          "Number of processes, 1 to 8 (default: 4, or the GPUs of this machine if it has fewer).")
  private @Nullable Integer ranks;

  @Option(
      names = "--backend",
      paramLabel = "NAME",
      defaultValue = "AUTO",
      description = "auto, cpu or cuda (default: auto, which is cuda where it can run).")
  private Backend backend = Backend.AUTO;

  @Option(names = "--rank", hidden = true, description = "Be the member of this rank.")
  private @Nullable Integer rank;

  /** picocli sets it. */
  @Spec
  @SuppressWarnings("NullAway.Init")
  private CommandSpec spec;

  @Override
  public Integer call() throws IOException, InterruptedException {
    int worldSize = ranks != null ? ranks : defaultRanks();
    if (worldSize < 1 || worldSize > Groups.MAX_NODE_SIZE) {
      throw new ParameterException(
          spec.commandLine(), "--ranks is " + worldSize + ", must be 1 to " + Groups.MAX_NODE_SIZE);
    }
    PrintWriter out = spec.commandLine().getOut();
    if (rank != null) {
      BufferedReader in =
          new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      try (PrintWriter answers = AnswerPipe.open(spec.commandLine())) {
        new Member(rank, worldSize, backend).run(in, answers);
      }
    } else {
      launch(worldSize, out);
    }
    return 0;
  }

  private int defaultRanks() {
    return Devices.resolve(backend) == Backend.CUDA
        ? Math.min(RANKS_DEFAULT, Devices.count(Backend.CUDA))
        : RANKS_DEFAULT;
  }

  private void launch(int worldSize, PrintWriter out) throws IOException, InterruptedException {
    List<MemberProcess> members = new ArrayList<>();
    try {
      for (int i = 0; i < worldSize; i++) {
        members.add(new MemberProcess(i, worldSize, backend));
      }
      String ticket = members.get(0).readLine();
      // If this process ends in any way, so do the members: the loss of its observer fails the
      // group.
      GroupObserver observer = Groups.observe(GroupTicket.of(Base64.getDecoder().decode(ticket)));
      for (MemberProcess member : members) {
        member.give(ticket);
      }
      for (MemberProcess member : members) {
        out.println(member.readLine());
      }
      for (MemberProcess member : members) {
        member.await();
      }
      observer.close();
    } finally {
      members.forEach(MemberProcess::close);
    }
  }
}
