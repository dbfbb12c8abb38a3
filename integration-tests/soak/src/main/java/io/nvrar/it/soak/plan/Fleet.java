package io.nvrar.it.soak.plan;

import java.util.List;
import java.util.stream.IntStream;

/**
 * The worker processes that hold members, by number, and the hosts that they are on. The hosts
 * after the first are simulated, and have fewer workers each.
 *
 * @param onFirstHost the workers of host 0
 * @param hosts the number of hosts
 * @param gpus the number of hosts that have a GPU, the one with the host's number; 0, or at least 2
 *     so that groups on GPUs can be drawn
 */
public record Fleet(int onFirstHost, int hosts, int gpus) {
  private static final int SHARE = 4;

  private int onAnyOther() {
    return Math.max(1, onFirstHost / SHARE);
  }

  /** The number of workers on all hosts. */
  public int size() {
    return onFirstHost + (hosts - 1) * onAnyOther();
  }

  /** The host of a worker. */
  public int hostOf(int worker) {
    return worker < onFirstHost ? 0 : 1 + (worker - onFirstHost) / onAnyOther();
  }

  /** The workers of a host. */
  List<Integer> workersOf(int host) {
    return IntStream.range(0, size()).filter(w -> hostOf(w) == host).boxed().toList();
  }

  /**
   * Whether a worker may be killed; the first half of each host never is, so that leaks become
   * visible over time.
   */
  boolean isExpendable(int worker) {
    List<Integer> neighbours = workersOf(hostOf(worker));
    return neighbours.indexOf(worker) >= neighbours.size() / 2;
  }
}
