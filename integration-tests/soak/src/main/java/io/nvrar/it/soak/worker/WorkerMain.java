package io.nvrar.it.soak.worker;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import io.nvrar.MemoryProvider;
import io.nvrar.it.soak.call.CallSpec;
import io.nvrar.it.soak.call.CheckedCall;
import io.nvrar.it.soak.call.Dice;
import io.nvrar.it.soak.call.Shape;
import io.nvrar.it.soak.call.Tally;
import io.nvrar.it.soak.plan.Fleet;
import io.nvrar.it.soak.plan.GroupPlan;
import io.nvrar.it.soak.plan.Round;
import io.nvrar.standalone.GroupObserver;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.tools.AnswerPipe;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.util.Base64;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A worker process, which holds members of many groups, in sequence and concurrently, or their
 * observers. It reads commands from standard input and writes events to the {@link AnswerPipe}, one
 * {@link Line} each; standard output and standard error are a log, where the JVM also writes a
 * thread dump. It ends when its input ends.
 */
public final class WorkerMain {
  private static final String HOST = "127.0.0.1";
  private static final int WARM_UP_CALLS = 100;

  private final long seed;
  private final Fleet fleet;
  private final MemberRun.Joiner joiner;
  private final PrintWriter out;
  private final Map<String, GroupObserver> observers = new ConcurrentHashMap<>();

  private WorkerMain(long seed, Fleet fleet, MemberRun.Joiner joiner, PrintWriter out) {
    this.seed = seed;
    this.fleet = fleet;
    this.joiner = joiner;
    this.out = out;
  }

  /**
   * Arguments: the seed and the {@link Fleet}'s numbers, from which the rounds are drawn, and the
   * host that this worker is on.
   */
  public static void main(String[] args) throws IOException {
    serve(args, Groups::join);
  }

  public static void serve(String[] args, MemberRun.Joiner joiner) throws IOException {
    PrintWriter out = AnswerPipe.open();
    Fleet fleet =
        new Fleet(Integer.parseInt(args[1]), Integer.parseInt(args[2]), Integer.parseInt(args[3]));
    new WorkerMain(Long.parseLong(args[0]), fleet, joiner, out).serve(Integer.parseInt(args[4]));
    System.exit(0); // members may still be in calls that will never end
  }

  private void serve(int host) throws IOException {
    warmUp(Backend.CPU, host);
    if (host < fleet.gpus()) {
      warmUp(Backend.CUDA, host);
    }
    say(Line.of("ready"));
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, UTF_8));
    for (String text = commands.readLine(); text != null; text = commands.readLine()) {
      obey(Line.parse(text));
    }
  }

  /** Loads classes and opens files that stay open, before resources are counted. */
  private void warmUp(Backend backend, int deviceOrdinal) {
    // As the groups of rounds: NVSHMEM's ids, which no group over links uses, are kept for later
    // groups, each with a thread and a socket. A group and one split from it need two at a time.
    GroupConfig config =
        GroupConfig.builder()
            .backend(backend)
            .cuda(cuda -> cuda.memory(MemoryProvider.IPC))
            .build();
    GroupTicket ticket = Groups.createTicket("warm-up", 1, config, HOST);
    try (GroupObserver observer = Groups.observe(ticket);
        CollectiveGroup group = joiner.join(ticket, 0, deviceOrdinal)) {
      Dice dice = Dice.of(seed);
      Shape alone = Shape.divided(1, 0);
      for (int i = 0; i < WARM_UP_CALLS; i++) {
        CheckedCall.run(group, CallSpec.draw(dice, alone, backend), alone);
      }
      try (CollectiveGroup child = group.split(0, 0).orElseThrow()) {
        CheckedCall.run(child, CallSpec.draw(dice, alone, backend), alone);
      }
      observer.destroy();
    }
  }

  private void obey(Line command) throws IOException {
    String task = command.word(1);
    switch (command.kind()) {
      case "ticket" ->
          start(task, () -> say(Line.of("ticket", task, createTicket(group(command)))));
      case "member" -> start(task, () -> runMember(task, command));
      case "observe" ->
          start(
              task,
              () -> observe(task, GroupTicket.of(Base64.getDecoder().decode(command.word(2)))));
      case "abort" -> observer(task).abort("soak's observer wants it");
      case "destroy" -> start(task, observer(task)::destroy); // found before a release drops it
      case "release" -> start(task, () -> release(task));
      case "holdings" -> say(Line.of("holdings").with(ProcessResources.ofThisProcess().words()));
      default -> throw new IOException("no command: " + command);
    }
  }

  private GroupPlan group(Line command) {
    return Round.draw(seed, command.number(2), fleet).groups().get(command.number(3));
  }

  private static String createTicket(GroupPlan group) {
    GroupTicket ticket = Groups.createTicket(group.name(), group.worldSize(), group.config(), HOST);
    return Base64.getEncoder().encodeToString(ticket.toBytes());
  }

  private void runMember(String task, Line command) {
    Tally verified = new Tally();
    MemberRun run =
        new MemberRun(
            group(command),
            command.number(4),
            joiner,
            new MemberRun.Listener() {
              @Override
              public void reached(long atNanos) {
                say(Line.of("reached", task, atNanos));
              }

              @Override
              public void verified(CallSpec call) {
                verified.add(call);
              }
            });
    Outcome outcome = run.run(GroupTicket.of(Base64.getDecoder().decode(command.word(5))));
    say(Line.of("verified", task).with(verified.words()));
    say(Line.of("ended", task).with(outcome.words()));
  }

  private void observe(String task, GroupTicket ticket) {
    observers.put(task, Groups.observe(ticket));
    say(Line.of("observing", task));
  }

  private GroupObserver observer(String task) {
    GroupObserver observer = observers.get(task);
    if (observer == null) {
      throw new IllegalStateException("there is no observer " + task);
    }
    return observer;
  }

  private void release(String task) {
    GroupObserver observer = observers.remove(task);
    if (observer != null) {
      observer.close();
    }
    say(Line.of("released", task));
  }

  private void start(String task, Runnable work) {
    new Thread(
            () -> {
              try {
                work.run();
              } catch (RuntimeException | Error e) {
                say(Line.of("broken", task, e.toString()));
                throw e;
              }
            },
            "soak-task-" + task)
        .start();
  }

  private void say(Line line) {
    out.println(line);
  }
}
