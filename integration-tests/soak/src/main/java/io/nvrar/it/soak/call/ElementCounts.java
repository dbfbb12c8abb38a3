package io.nvrar.it.soak.call;

/**
 * The elements that one rank's call reads and writes.
 *
 * @param send how many it sends
 * @param recv how many it receives; 0 if only other ranks get a result
 * @param sendAt the offset of the first sent element if both share one buffer
 * @param recvAt the offset of the first received element in that case
 */
record ElementCounts(int send, int recv, int sendAt, int recvAt) {

  static ElementCounts of(int send, int recv) {
    return new ElementCounts(send, recv, 0, 0);
  }

  /** The length of the shared buffer. */
  int shared() {
    return Math.max(sendAt + send, recvAt + recv);
  }
}
