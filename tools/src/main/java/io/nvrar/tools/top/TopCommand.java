package io.nvrar.tools.top;

import com.google.gson.Gson;
import com.google.gson.reflect.TypeToken;
import io.nvrar.internal.flight.HostWatch;
import io.nvrar.internal.flight.HostWatch.RankSample;
import io.nvrar.ray.ClusterWatch;
import io.nvrar.ray.RayDriver;
import io.nvrar.tools.NvrarCommand;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code nvrar top}: a live table of groups and their ranks. */
@Command(
    name = "top",
    mixinStandardHelpOptions = true,
    description = {
      "Show what the groups do now: calls and bytes a second, who waits for whom, what has failed.",
      "Without --address, this user's groups on this host, of Ray actors and of plain processes; with it, those on all nodes of a Ray cluster.",
      "Members are not disturbed: what they do is read from their memory."
    })
public final class TopCommand implements NvrarCommand {
  private static final double LEAST_SECONDS = 0.1;
  private static final double MOST_SECONDS = 3600;

  /** Of the interval, how much may go by until all nodes have answered. */
  private static final double ANSWER_SECONDS = 2;

  private static final String HOME = "\033[H";
  private static final String CLEAR_REST_OF_LINE = "\033[K";
  private static final String CLEAR_BELOW = "\033[J";

  /** Long lines end at the edge, so that what is drawn has as many rows as lines. */
  private static final String NO_WRAP = "\033[?7l";

  private static final String WRAP = "\033[?7h";

  @Spec private @Nullable CommandSpec spec;

  @Option(
      names = "--address",
      paramLabel = "HOST:PORT",
      description = "A running Ray cluster that this host is part of.")
  private @Nullable String address;

  @Option(
      names = "--interval",
      paramLabel = "SECONDS",
      defaultValue = "1",
      description = "Between two looks, 0.1 to 3600 (default: 1).")
  private double interval;

  @Option(
      names = "--count",
      paramLabel = "N",
      defaultValue = "0",
      description = "How many tables to print (default: until it is interrupted).")
  private int count;

  @Option(names = "--json", description = "Print a JSON object a line instead of tables.")
  private boolean json;

  /** For {@link java.util.ServiceLoader}. */
  public TopCommand() {}

  @Override
  public Integer call() throws InterruptedException {
    if (!(interval >= LEAST_SECONDS && interval <= MOST_SECONDS)) {
      throw wrong(
          String.format(
              Locale.ROOT,
              "--interval is %s, must be %s to %s",
              interval,
              LEAST_SECONDS,
              MOST_SECONDS));
    }
    if (count < 0) {
      throw wrong(String.format(Locale.ROOT, "--count is %d, must be 0 or more", count));
    }
    if (address == null) {
      HostWatch host = new HostWatch();
      run(() -> Look.of(host.look(), List.of()));
      return 0;
    }
    try (RayDriver driver = RayDriver.connect(address)) {
      ClusterWatch cluster = driver.watch();
      run(() -> of(cluster.look(Duration.ofMillis((long) (1e3 * ANSWER_SECONDS)))));
    }
    return 0;
  }

  private ParameterException wrong(String sentence) {
    return new ParameterException(Objects.requireNonNull(spec).commandLine(), sentence);
  }

  private static Look of(List<ClusterWatch.NodeLook> nodes) {
    List<RankSample> ranks = new ArrayList<>();
    List<String> problems = new ArrayList<>();
    for (ClusterWatch.NodeLook node : nodes) {
      if (node.members() == null) {
        problems.add(
            String.format(Locale.ROOT, "node %s is not seen: %s", node.node(), node.problem()));
      } else {
        ranks.addAll(new Gson().fromJson(node.members(), new TypeToken<List<RankSample>>() {}));
      }
    }
    return Look.of(ranks, problems);
  }

  private void run(Supplier<Look> looks) throws InterruptedException {
    PrintWriter out = Objects.requireNonNull(spec).commandLine().getOut();
    boolean redraw = !json && isTerminal();
    if (redraw) {
      out.print(NO_WRAP + HOME + CLEAR_BELOW);
      Runtime.getRuntime().addShutdownHook(new Thread(() -> wrapAgain(out)));
    }
    Look unused = looks.get(); // rates are those between two looks
    for (int printed = 0; count == 0 || printed < count; printed++) {
      Thread.sleep((long) (1e3 * interval));
      Look look = looks.get();
      if (json) {
        out.println(look.toJson());
      } else {
        print(out, TopTable.lines(look), redraw);
      }
      if (out.checkError()) {
        return; // nobody reads it any more
      }
    }
    if (redraw) {
      wrapAgain(out);
    }
  }

  private static void wrapAgain(PrintWriter out) {
    out.print(WRAP);
    out.flush();
  }

  private static void print(PrintWriter out, List<String> lines, boolean redraw) {
    if (redraw) {
      out.print(HOME);
    }
    for (String line : lines) {
      out.println(redraw ? line + CLEAR_REST_OF_LINE : line);
    }
    if (redraw) {
      out.print(CLEAR_BELOW);
    } else {
      out.println();
    }
    out.flush();
  }

  private static boolean isTerminal() {
    try {
      String output = Files.readSymbolicLink(Path.of("/proc/self/fd/1")).toString();
      return output.startsWith("/dev/pts/") || output.startsWith("/dev/tty");
    } catch (IOException e) {
      return false;
    }
  }
}
