package io.nvrar.tools.top;

import com.google.gson.Gson;
import io.nvrar.internal.flight.HostWatch.RankSample;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;

/**
 * What was seen at one moment; as JSON, a line of {@code nvrar top --json}.
 *
 * @param time when, ISO 8601 in UTC
 * @param groups the groups
 * @param problems what could not be looked at, a sentence each
 */
record Look(String time, List<GroupSample> groups, List<String> problems) {
  /** With copies of its lists. */
  Look {
    groups = List.copyOf(groups);
    problems = List.copyOf(problems);
  }

  static Look of(List<RankSample> ranks, List<String> problems) {
    return new Look(
        Instant.now().truncatedTo(ChronoUnit.MILLIS).toString(), GroupSample.of(ranks), problems);
  }

  String toJson() {
    return new Gson().toJson(this);
  }
}
