package io.nvrar.it.soak.worker;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Breaks the connection of one link of this process, as a network does, behind the back of the
 * library that uses it.
 */
final class LinkCut {
  private static final Path SELF = Path.of("/proc/self");
  private static final Pattern OPEN = Pattern.compile(".*:([0-9]+) to .*:([0-9]+), open");
  private static final List<SocketBreaker.Way> WAYS = List.of(SocketBreaker.Way.values());

  private final String target;
  private final SocketBreaker.Way way;

  private LinkCut(String target, SocketBreaker.Way way) {
    this.target = target;
    this.way = way;
  }

  /**
   * Finds the socket of a link.
   *
   * @param link both ends and the state, as {@link io.nvrar.RankHealth#link} gives them
   * @param variant the way in which it is to break
   * @throws IllegalArgumentException if this process has no such open link
   */
  static LinkCut of(String link, int variant) {
    Matcher ends = OPEN.matcher(link);
    if (!ends.matches()) {
      throw new IllegalArgumentException("no open link: " + link);
    }
    int local = Integer.parseInt(ends.group(1));
    int remote = Integer.parseInt(ends.group(2));
    try {
      return TcpTable.of(SELF).stream()
          .filter(entry -> entry.localPort() == local && entry.remotePort() == remote)
          .findFirst()
          .map(entry -> new LinkCut(entry.target(), WAYS.get(variant % WAYS.size())))
          .orElseThrow(() -> new IllegalArgumentException("no socket of this process: " + link));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Breaks it; returns false if it is closed or broken already. */
  boolean cut() {
    try {
      int descriptor = Descriptors.find(SELF, target);
      return descriptor >= 0 && SocketBreaker.breakOff(descriptor, target, way);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
