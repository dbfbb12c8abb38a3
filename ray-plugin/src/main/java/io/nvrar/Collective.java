package io.nvrar;

/** The kinds of calls of a {@link CollectiveGroup}, by their methods. */
public enum Collective {
  /** {@link CollectiveGroup#allReduce}, with a fusion or without. */
  ALL_REDUCE(1, "allReduce"),
  /** {@link CollectiveGroup#allGather}. */
  ALL_GATHER(2, "allGather"),
  /** {@link CollectiveGroup#broadcast}. */
  BROADCAST(3, "broadcast"),
  /** {@link CollectiveGroup#barrier}. */
  BARRIER(4, "barrier"),
  /** {@link CollectiveGroup#reduce}. */
  REDUCE(5, "reduce"),
  /** {@link CollectiveGroup#reduceScatter}. */
  REDUCE_SCATTER(6, "reduceScatter"),
  /** {@link CollectiveGroup#allToAll}. */
  ALL_TO_ALL(7, "allToAll"),
  /** {@link CollectiveGroup#send}, also as a part of a batch. */
  SEND(8, "send"),
  /** {@link CollectiveGroup#recv}, also as a part of a batch. */
  RECV(9, "recv");

  private final int code;
  private final String method;

  Collective(int code, String method) {
    this.code = code;
    this.method = method;
  }

  /** The code of this collective in the native library. */
  public int code() {
    return code;
  }

  /** The name of the method, such as {@code allReduce}; also in messages, metrics and traces. */
  public String method() {
    return method;
  }
}
