package io.nvrar.internal.wire;

import java.util.Arrays;
import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Which ranks of a group are on one host, for messages and records. Which ones share memory is
 * decided by the native library (member/nodes_of_hosts). Immutable.
 */
public final class Hosts {
  private final ProcessIdentity[] processes;

  /** By rank: the first rank of its host. */
  private final int[] firstOf;

  private Hosts(ProcessIdentity[] processes) {
    this.processes = processes;
    firstOf =
        IntStream.range(0, processes.length)
            .map(
                rank ->
                    IntStream.rangeClosed(0, rank)
                        .filter(r -> processes[r].sameHost(processes[rank]))
                        .findFirst()
                        .orElseThrow())
            .toArray();
  }

  public static Hosts of(Message.Members members) {
    return new Hosts(
        Arrays.stream(members.inRankOrder())
            .map(Message.MemberInfo::process)
            .toArray(ProcessIdentity[]::new));
  }

  public boolean areSeveral() {
    return Arrays.stream(firstOf).anyMatch(first -> first != 0);
  }

  /** The ranks that are on another host than this one. */
  public BitSet elsewhere(int rank) {
    BitSet elsewhere = new BitSet();
    for (int r = 0; r < firstOf.length; r++) {
      elsewhere.set(r, firstOf[r] != firstOf[rank]);
    }
    return elsewhere;
  }

  /**
   * The same ranks in an order in which those of a host are consecutive: the hosts in the order of
   * their first rank in {@code ranks}, the ranks of each as they were.
   */
  public int[] together(int... ranks) {
    return byHost(ranks).values().stream().flatMapToInt(IntStream::of).toArray();
  }

  /** Whether the ranks of every host are consecutive. */
  public boolean areTogether() {
    int[] all = all();
    return Arrays.equals(all, together(all));
  }

  /** The order of all ranks in which those of every host are consecutive. */
  public int[] together() {
    return together(all());
  }

  private int[] all() {
    return IntStream.range(0, firstOf.length).toArray();
  }

  private Map<Integer, int[]> byHost(int... ranks) {
    Map<Integer, int[]> byHost = new LinkedHashMap<>();
    for (int rank : ranks) {
      byHost.computeIfAbsent(
          firstOf[rank], first -> IntStream.of(ranks).filter(r -> firstOf[r] == first).toArray());
    }
    return byHost;
  }

  /** The hosts' names, in the order of their first ranks: {@code A and B}. */
  public String names() {
    Set<Integer> firsts = byHost(all()).keySet();
    String named =
        firsts.stream()
            .limit(Phrases.MOST_CLAUSES)
            .map(this::name)
            .collect(Collectors.joining(" and "));
    int more = firsts.size() - Phrases.MOST_CLAUSES;
    return more > 0 ? named + " and " + more + " more" : named;
  }

  /** Who is where: {@code ranks 0, 1 on A, rank 2 on B}. */
  @Override
  public String toString() {
    Map<Integer, int[]> byHost = byHost(all());
    String told =
        byHost.entrySet().stream()
            .limit(Phrases.MOST_CLAUSES)
            .map(entry -> Phrases.ranks(entry.getValue()) + " on " + name(entry.getKey()))
            .collect(Collectors.joining(", "));
    int more = byHost.size() - Phrases.MOST_CLAUSES;
    return more > 0 ? told + " and others on " + more + " more hosts" : told;
  }

  /**
   * A short name of a rank's host, which no other host of the group has: its own, or, if another
   * host has the same, {@code A (of rank 2)} by its first rank.
   */
  public String label(int rank) {
    int first = firstOf[rank];
    return processes[first].host() + (isAmbiguous(first) ? " (of rank " + first + ")" : "");
  }

  private String name(int first) {
    ProcessIdentity process = processes[first];
    return process.host() + (isAmbiguous(first) ? " (machine " + process.machine() + ")" : "");
  }

  private boolean isAmbiguous(int first) {
    ProcessIdentity process = processes[first];
    return Arrays.stream(processes)
        .anyMatch(other -> other.host().equals(process.host()) && !other.sameHost(process));
  }
}
