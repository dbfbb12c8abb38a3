package io.nvrar.tools.trace;

import com.google.gson.JsonObject;
import io.nvrar.Algorithm;
import io.nvrar.internal.binding.CallRecord;
import io.nvrar.internal.flight.FlightRecord;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * The calls in a flight record as a trace: a process for each rank, a track for its collectives,
 * and as many as needed for its sends and receives, which may run side by side. Collectives of a
 * rank run one after the other, so one that was enqueued while another ran is shown from that one's
 * end. A call that had not ended is shown up to the last moment that the record tells of.
 */
final class CallTrace {
  private static final double NANOS = 1e-3;
  private static final int COLLECTIVES = 0;

  private final FlightRecord record;
  private final long begin;
  private final long end;
  private int slices;
  private int untimed;

  CallTrace(FlightRecord record) {
    this.record = record;
    long first = Long.MAX_VALUE;
    long last = record.header().nanos();
    for (FlightRecord.Rank rank : record.ranks()) {
      for (CallRecord call : rank.calls()) {
        if (call.beginNanos() != 0) {
          first = Math.min(first, call.beginNanos());
          last = Math.max(last, Math.max(call.beginNanos(), call.endNanos()));
        }
      }
    }
    begin = first == Long.MAX_VALUE ? last : first;
    end = last;
  }

  /** Writes it to a file. Called once; only then it is known how many calls there are. */
  void write(Path file) throws IOException {
    ChromeTrace.write(
        file,
        about(),
        trace -> {
          for (FlightRecord.Rank rank : record.ranks()) {
            add(trace, rank);
          }
        });
  }

  /** How many calls it shows. */
  int slices() {
    return slices;
  }

  /** How many calls it cannot show, because the record does not have their times. */
  int untimed() {
    return untimed;
  }

  /** From the first begin of a call on. */
  double spanMillis() {
    return (end - begin) / 1e6;
  }

  private void add(ChromeTrace trace, FlightRecord.Rank rank) throws IOException {
    trace.process(
        rank.rank(),
        String.format(
            Locale.ROOT, "rank %d (pid %d on host %s)", rank.rank(), rank.pid(), rank.host()));
    trace.track(rank.rank(), COLLECTIVES, "collectives");
    List<Long> ends = new ArrayList<>(); // of the last slice on each track
    ends.add(Long.MIN_VALUE);
    for (CallRecord call : rank.calls()) {
      if (call.beginNanos() == 0) {
        untimed++;
        continue;
      }
      long to = call.endNanos() == 0 ? end : Math.max(call.beginNanos(), call.endNanos());
      int track = COLLECTIVES;
      long from = call.beginNanos();
      if (call.isTransfer()) {
        track = free(ends, from);
        if (track == ends.size()) {
          ends.add(to);
          trace.track(rank.rank(), track, track == 1 ? "send and recv" : "send and recv " + track);
        }
      } else {
        from = Math.max(from, Math.min(to, ends.get(COLLECTIVES)));
      }
      ends.set(track, to);
      slices++;
      trace.slice(
          rank.rank(),
          track,
          call.method(),
          (from - begin) * NANOS,
          (to - from) * NANOS,
          arguments(call, from));
    }
  }

  private static int free(List<Long> ends, long from) {
    int track = COLLECTIVES + 1;
    while (track < ends.size() && ends.get(track) > from) {
      track++;
    }
    return track;
  }

  private static JsonObject arguments(CallRecord call, long from) {
    JsonObject arguments = new JsonObject();
    arguments.addProperty("call", call.description());
    arguments.addProperty("number", call.sequence());
    arguments.addProperty("status", call.state().name().toLowerCase(Locale.ROOT));
    if (!call.type().isEmpty()) {
      arguments.addProperty("type", call.type());
      arguments.addProperty("elements", call.elements());
      arguments.addProperty("bytes", call.bytes());
    }
    for (Algorithm algorithm : Algorithm.values()) {
      if (call.algorithm() == algorithm.code() && algorithm != Algorithm.AUTO) {
        arguments.addProperty(
            "algorithm", algorithm.name().toLowerCase(Locale.ROOT).replace('_', '-'));
      }
    }
    if (call.launches() > 1) {
      arguments.addProperty("launches", call.launches());
    }
    if (call.peer() >= 0) {
      arguments.addProperty("peer", call.peer());
    }
    if (from != call.beginNanos()) {
      arguments.addProperty("queued_us", (from - call.beginNanos()) * NANOS);
    }
    return arguments;
  }

  /** What is said of the trace as a whole. */
  private JsonObject about() {
    FlightRecord.Header header = record.header();
    JsonObject about = new JsonObject();
    about.addProperty("group", header.group());
    about.addProperty("ranks", header.worldSize());
    about.addProperty("backend", header.backend());
    about.addProperty("build", header.build());
    about.addProperty("written", header.time());
    about.addProperty("failure", header.message());
    return about;
  }
}
