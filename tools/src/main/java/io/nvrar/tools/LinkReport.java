package io.nvrar.tools;

import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.GroupConfig;
import io.nvrar.internal.binding.NativeReport;
import io.nvrar.internal.group.LinkAddress;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/** What links to members on other hosts would use on this host. */
final class LinkReport {
  /** A line of the report. */
  interface Lines {
    void add(String state, String what, String detail);
  }

  private LinkReport() {}

  /** Returns whether this host has what the configuration asks for by name or number. */
  static boolean of(GroupConfig.Links links, Lines lines) {
    @Nullable InetAddress address = null;
    boolean hasAddress = true;
    if (links.networkInterface().isEmpty()) {
      lines.add("ok", "link address", automatic());
    } else {
      try {
        LinkAddress.Own own = LinkAddress.of(links.networkInterface());
        address = own.address();
        lines.add(
            "ok", "link address", own + ", by links.networkInterface " + links.networkInterface());
      } catch (CollectiveException e) {
        hasAddress = false;
        lines.add("missing", "link address", String.valueOf(e.getMessage()));
      }
    }
    boolean hasPort = !hasAddress || ports(links, address, lines);
    encryption(lines);
    return hasAddress && hasPort;
  }

  private static String automatic() {
    String all =
        LinkAddress.all().stream().map(LinkAddress.Own::toString).collect(Collectors.joining(", "));
    return all.isEmpty()
        ? "this host has none by which others could reach it"
        : "the one from which a member reaches rank 0, without links.networkInterface; this host has "
            + all;
  }

  private static boolean ports(
      GroupConfig.Links links, @Nullable InetAddress address, Lines lines) {
    int first = links.firstPort();
    int last = links.lastPort();
    if (first == 0) {
      lines.add("ok", "link ports", "any free ones, without links.ports");
      return true;
    }
    long free = IntStream.rangeClosed(first, last).filter(port -> isFree(port, address)).count();
    lines.add(
        free > 0 ? "ok" : "missing",
        "link ports",
        String.format(
            Locale.ROOT,
            "%d to %d, of which %d are free now; each member of this host takes one while its group is made",
            first,
            last,
            free));
    return free > 0;
  }

  private static boolean isFree(int port, @Nullable InetAddress address) {
    try (ServerSocket socket = new ServerSocket(port, 1, address)) {
      return socket.isBound();
    } catch (IOException e) {
      return false;
    }
  }

  private static void encryption(Lines lines) {
    try {
      lines.add("ok", "link encryption", NativeReport.libcrypto());
    } catch (BackendUnavailableException e) {
      lines.add(
          "none", "link encryption", e.getMessage() + "; only links.security ENCRYPTED uses it");
    }
  }
}
