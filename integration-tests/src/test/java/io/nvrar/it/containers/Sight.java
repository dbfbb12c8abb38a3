package io.nvrar.it.containers;

import io.nvrar.PeerLostException;
import java.util.Locale;

/**
 * How a member, or the driver, saw its group end. All hosts of the tests have the same clock.
 *
 * @param rank -1 for the driver
 * @param millis since 1970
 * @param kind the class of the exception
 * @param lost the rank that was lost; -1 if the exception names none
 * @param message on one line
 */
record Sight(int rank, long millis, String kind, int lost, String message) {

  static Sight of(int rank, Throwable end) {
    return new Sight(
        rank,
        System.currentTimeMillis(),
        end.getClass().getSimpleName(),
        end instanceof PeerLostException peer ? peer.lostRank() : -1,
        String.valueOf(end.getMessage()).replaceAll("\\s+", " "));
  }

  /** Of what {@link #toString} has made. */
  static Sight parse(String text) {
    String[] parts = text.strip().split("\t", 5);
    return new Sight(
        Integer.parseInt(parts[0]),
        Long.parseLong(parts[1]),
        parts[2],
        Integer.parseInt(parts[3]),
        parts[4]);
  }

  @Override
  public String toString() {
    return String.format(Locale.ROOT, "%d\t%d\t%s\t%d\t%s", rank, millis, kind, lost, message);
  }
}
