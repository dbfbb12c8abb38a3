package io.nvrar.tools.soak.call;

/**
 * The elements that one rank's call reads and writes.
 *
 * @param send how many it sends
 * @param recv how many it receives; 0 where the result goes to others
 * @param sendAt where the first sent element stands if both share one piece of memory
 * @param recvAt where the first received one stands then
 */
record ElementCounts(int send, int recv, int sendAt, int recvAt) {

  static ElementCounts of(int send, int recv) {
    return new ElementCounts(send, recv, 0, 0);
  }

  /** The length of the memory that both share. */
  int shared() {
    return Math.max(sendAt + send, recvAt + recv);
  }
}
