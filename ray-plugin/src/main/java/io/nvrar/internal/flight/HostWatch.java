package io.nvrar.internal.flight;

import com.google.gson.Gson;
import io.nvrar.BackendUnavailableException;
import io.nvrar.internal.binding.CallRecord;
import io.nvrar.internal.binding.HostKey;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.binding.Onlooker;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Looks again and again at this user's members on this host, and says what each has done since the
 * last look. The members do not notice: what they do is read from the memory that they share with
 * their peers, so a member is seen, too, that waits in a call or is stopped.
 */
public final class HostWatch {
  private static final double NANOS_PER_SECOND = 1e9;

  private final Presences presences;
  private final Supplier<String> machine;

  /** By group, rank and process: what the last look has seen. */
  private Map<String, Seen> before = new HashMap<>();

  /** Watches the directory of this process. */
  public HostWatch() {
    this(Announcement.directoryOfProcess(), HostKey::ofThisProcess);
  }

  HostWatch(Path directory, Supplier<String> machine) {
    presences = new Presences(directory);
    this.machine = machine;
  }

  private record Seen(long begun, long nanos) {}

  /**
   * A member at the time of a look. The rates are those since the look before; at a member's first
   * look they are 0.
   *
   * @param group its group's name
   * @param id differs between groups of the same name
   * @param worldSize the number of ranks
   * @param backend the group's backend
   * @param rank its rank
   * @param host its host
   * @param pid its process
   * @param state {@code idle}, {@code running} (in a call), {@code queued} (its last call is
   *     enqueued, and not known to have ended), {@code stopped} (its process is), {@code failed},
   *     {@code gone} (its process has ended without closing the group) or {@code unseen}
   * @param call its last call; "" if there was none or it is not known
   * @param seconds how long it has been in its call, or has been out of the last one
   * @param calls the calls that it has begun so far; sends and recvs count one each
   * @param callsPerSecond of these
   * @param bytesPerSecond the bytes that these calls name; of more than 1,024 calls between two
   *     looks, an estimate by the last 1,024
   * @param inCalls the part of the time that it has spent in calls, 0 to 1
   * @param problem why it has failed or is not seen; "" if neither
   */
  public record RankSample(
      String group,
      String id,
      int worldSize,
      String backend,
      int rank,
      String host,
      long pid,
      String state,
      String call,
      double seconds,
      long calls,
      double callsPerSecond,
      double bytesPerSecond,
      double inCalls,
      String problem) {}

  /**
   * What {@link #look} returns, as JSON.
   *
   * @throws UncheckedIOException as {@link #look} does
   */
  public synchronized String lookAsJson() {
    return new Gson().toJson(look());
  }

  /**
   * All members of this machine that have announced themselves here, ordered by group and rank.
   * Containers and hosts may share the directory, but the processes of another one are not known
   * here by their numbers.
   *
   * @throws UncheckedIOException if another user could have written the files; the message is one
   *     sentence
   */
  public synchronized List<RankSample> look() {
    List<RankSample> samples = new ArrayList<>();
    Map<String, Seen> now = new HashMap<>();
    List<Presence> announced = announced();
    try {
      String here = announced.isEmpty() ? "" : machine.get();
      for (Presence member : announced) {
        if (member.machine().equals(here)) {
          samples.add(sample(member, now));
        }
      }
    } catch (BackendUnavailableException e) { // then nothing but what they have written is seen
      announced.forEach(member -> samples.add(unseen(member, e)));
    }
    before = now;
    samples.sort(
        Comparator.comparing(RankSample::group)
            .thenComparing(RankSample::id)
            .thenComparing(RankSample::rank)
            .thenComparing(RankSample::pid));
    return samples;
  }

  private List<Presence> announced() {
    try {
      return presences.all();
    } catch (IOException e) {
      throw new UncheckedIOException("members cannot be found: " + e.getMessage(), e);
    }
  }

  private RankSample sample(Presence member, Map<String, Seen> now) {
    if (!LinuxProcess.lives(member.pid(), member.started())) {
      return of(member, "gone", "its process has ended");
    }
    Onlooker.Sight sight;
    try {
      sight = Onlooker.lookAt(member.descriptor(), NativeCommunicator.FLIGHT_RECORDS);
    } catch (RuntimeException e) { // ended or closed meanwhile, or of another build
      return unseen(member, e);
    }
    String key = member.groupId() + " " + member.rank() + " " + member.pid();
    Seen seen = new Seen(sight.begun(), System.nanoTime());
    now.put(key, seen);
    return sample(member, sight, before.get(key), seen);
  }

  private static RankSample unseen(Presence member, RuntimeException why) {
    return member.failure() == null
        ? of(member, "unseen", String.valueOf(why.getMessage()))
        : of(member, "failed", member.failure());
  }

  private static RankSample of(Presence member, String state, String problem) {
    return new RankSample(
        member.group(),
        member.groupId(),
        member.worldSize(),
        member.backend(),
        member.rank(),
        member.host(),
        member.pid(),
        state,
        "",
        0,
        0,
        0,
        0,
        0,
        problem);
  }

  private static RankSample sample(
      Presence member, Onlooker.Sight sight, @Nullable Seen last, Seen now) {
    CallRecord call = current(sight.newest());
    boolean inCall = call.state() == CallRecord.State.RUNNING;
    boolean failed = sight.failed() || member.failure() != null;
    String state =
        failed
            ? "failed"
            : LinuxProcess.isStopped(member.pid())
                ? "stopped"
                : inCall ? "running" : call.state() == CallRecord.State.QUEUED ? "queued" : "idle";
    long since = inCall || call.endNanos() == 0 ? call.beginNanos() : call.endNanos();
    double period = last == null ? 0 : (now.nanos - last.nanos) / NANOS_PER_SECOND;
    double rate = period <= 0 ? 0 : (now.begun - last(last, now).begun) / period;
    return new RankSample(
        member.group(),
        member.groupId(),
        member.worldSize(),
        member.backend(),
        member.rank(),
        member.host(),
        member.pid(),
        state,
        call.state() == CallRecord.State.NONE ? "" : call.description(),
        since == 0 ? 0 : Math.max(0, (now.nanos - since) / NANOS_PER_SECOND),
        now.begun,
        rate,
        rate * bytesOfCall(sight.newest(), now.begun - last(last, now).begun),
        last == null ? 0 : inCalls(sight.newest(), last.nanos, now.nanos),
        failed ? Objects.requireNonNullElse(member.failure(), "the group has failed") : "");
  }

  private static Seen last(@Nullable Seen last, Seen now) {
    return last == null ? now : last;
  }

  /** The call that a rank is in, or else its last one. */
  private static CallRecord current(List<CallRecord> newest) {
    for (int i = newest.size() - 1; i >= 0; i--) {
      CallRecord call = newest.get(i);
      if (call.state() == CallRecord.State.RUNNING) {
        return call;
      }
      if (!call.isTransfer()) { // the transfers of a batch run side by side
        break;
      }
    }
    return newest.isEmpty() ? CallRecord.NONE : newest.get(newest.size() - 1);
  }

  /** The mean over the newest calls, as many as were made or are kept. */
  private static double bytesOfCall(List<CallRecord> newest, long made) {
    int count = (int) Math.min(newest.size(), made);
    return newest.subList(newest.size() - count, newest.size()).stream()
        .mapToLong(CallRecord::bytes)
        .average()
        .orElse(0);
  }

  /** The part of a time that is covered by calls, as far back as they are kept. */
  private static double inCalls(List<CallRecord> newest, long from, long to) {
    long begin = from;
    if (newest.size() == NativeCommunicator.FLIGHT_RECORDS) {
      begin = Math.max(from, newest.get(0).beginNanos());
    }
    long covered = 0;
    long until = begin; // transfers of a batch lie above each other
    for (CallRecord call : newest) {
      if (call.beginNanos() == 0) {
        continue;
      }
      long end = call.endNanos() == 0 ? to : call.endNanos();
      long start = Math.max(until, call.beginNanos());
      covered += Math.max(0, Math.min(to, end) - start);
      until = Math.max(until, Math.min(to, end));
    }
    return to <= begin ? 0 : Math.min(1, covered / (double) (to - begin));
  }
}
