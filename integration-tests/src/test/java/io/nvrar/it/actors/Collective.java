package io.nvrar.it.actors;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import java.util.Locale;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Each collective as a member calls it and checks what it got. */
public enum Collective {
  ALL_REDUCE(Kind.REDUCTION, false) {
    @Override
    String wrong(CollectiveGroup group, Call call) {
      try (DeviceBuffer buffer = reduced(group, call, call.count)) {
        group.allReduce(buffer, call.op);
        return Values.wrong(buffer, i -> Values.reduced(group.worldSize(), i, call.op));
      }
    }

    @Override
    void callWith(CollectiveGroup group, DeviceBuffer send, DeviceBuffer recv, Call call) {
      group.allReduce(send, recv, call.op, group.stream());
    }
  },

  REDUCE(Kind.REDUCTION, true) {
    @Override
    String wrong(CollectiveGroup group, Call call) {
      try (DeviceBuffer buffer = reduced(group, call, call.count)) {
        group.reduce(buffer, call.op, call.root);
        return Values.wrong(
            buffer,
            i ->
                group.rank() == call.root
                    ? Values.reduced(group.worldSize(), i, call.op)
                    : Values.given(group.rank(), i, call.op));
      }
    }

    @Override
    void callWith(CollectiveGroup group, DeviceBuffer send, DeviceBuffer recv, Call call) {
      group.reduce(send, recv, call.op, group.rank(), group.stream());
    }
  },

  REDUCE_SCATTER(Kind.REDUCTION, false) {
    @Override
    String wrong(CollectiveGroup group, Call call) {
      try (DeviceBuffer send = reduced(group, call, call.count * group.worldSize());
          DeviceBuffer recv = empty(group, call, call.count)) {
        group.reduceScatter(send, recv, call.op);
        int first = group.rank() * call.count;
        return Values.wrong(recv, i -> Values.reduced(group.worldSize(), first + i, call.op));
      }
    }

    @Override
    void callWith(CollectiveGroup group, DeviceBuffer send, DeviceBuffer recv, Call call) {
      group.reduceScatter(send, recv, call.op);
    }
  },

  ALL_GATHER(Kind.MOVEMENT, false) {
    @Override
    String wrong(CollectiveGroup group, Call call) {
      try (DeviceBuffer send = moved(group, call, call.count);
          DeviceBuffer recv = empty(group, call, call.count * group.worldSize())) {
        group.allGather(send, recv);
        return Values.wrong(recv, i -> Values.given(i / call.count, i % call.count));
      }
    }

    @Override
    void callWith(CollectiveGroup group, DeviceBuffer send, DeviceBuffer recv, Call call) {
      group.allGather(send, recv);
    }
  },

  ALL_TO_ALL(Kind.MOVEMENT, false) {
    @Override
    String wrong(CollectiveGroup group, Call call) {
      try (DeviceBuffer send = moved(group, call, call.count * group.worldSize());
          DeviceBuffer recv = empty(group, call, call.count * group.worldSize())) {
        group.allToAll(send, recv);
        return wrongPartOfEveryRank(group, call, recv);
      }
    }

    @Override
    void callWith(CollectiveGroup group, DeviceBuffer send, DeviceBuffer recv, Call call) {
      group.allToAll(send, recv);
    }
  },

  BROADCAST(Kind.MOVEMENT, true) {
    @Override
    String wrong(CollectiveGroup group, Call call) {
      try (DeviceBuffer buffer = moved(group, call, call.count)) {
        group.broadcast(buffer, call.root);
        return Values.wrong(buffer, i -> Values.given(call.root, i));
      }
    }

    @Override
    void callWith(CollectiveGroup group, DeviceBuffer send, DeviceBuffer recv, Call call) {
      group.broadcast(send, recv, group.rank(), group.stream());
    }
  },

  /** The root sends to each other rank. */
  SEND_AND_RECV(Kind.TRANSFER, true) {
    @Override
    String wrong(CollectiveGroup group, Call call) {
      try (DeviceBuffer buffer = moved(group, call, call.count)) {
        if (group.rank() != call.root) {
          group.recv(buffer, call.root);
        } else {
          for (int peer = 0; peer < group.worldSize(); peer++) {
            if (peer != call.root) {
              group.send(buffer, peer);
            }
          }
        }
        return Values.wrong(buffer, i -> Values.given(call.root, i));
      }
    }
  },

  /** Around a ring. */
  SEND_RECEIVE(Kind.TRANSFER, false) {
    @Override
    String wrong(CollectiveGroup group, Call call) {
      int worldSize = group.worldSize();
      int previous = (group.rank() + worldSize - 1) % worldSize;
      try (DeviceBuffer send = moved(group, call, call.count);
          DeviceBuffer recv = empty(group, call, call.count)) {
        group.sendReceive(send, (group.rank() + 1) % worldSize, recv, previous);
        return Values.wrong(recv, i -> Values.given(previous, i));
      }
    }
  },

  /** From every rank to every rank, itself too, the receives named first. */
  BATCH(Kind.TRANSFER, false) {
    @Override
    String wrong(CollectiveGroup group, Call call) {
      try (DeviceBuffer send = moved(group, call, call.count * group.worldSize());
          DeviceBuffer recv = empty(group, call, call.count * group.worldSize())) {
        group.batch(
            () -> {
              for (int peer = 0; peer < group.worldSize(); peer++) {
                group.recv(recv.slice((long) peer * call.count, call.count), peer);
              }
              for (int peer = 0; peer < group.worldSize(); peer++) {
                group.send(send.slice((long) peer * call.count, call.count), peer);
              }
            });
        return wrongPartOfEveryRank(group, call, recv);
      }
    }
  },

  /** Whether nobody leaves before all have entered, each rank being the last to enter once. */
  BARRIER(Kind.NO_DATA, false) {
    @Override
    String wrong(CollectiveGroup group, Call call) {
      StringBuilder wrong = new StringBuilder();
      for (int late = 0; late < group.worldSize(); late++) {
        wrong.append(leftTooEarly(group, late));
      }
      return wrong.toString();
    }
  };

  private enum Kind {
    REDUCTION,
    MOVEMENT,
    TRANSFER,
    NO_DATA
  }

  /** Many times what tasks that are started together begin apart. */
  private static final long LATE_NANOS = 3_000_000;

  private final Kind kind;
  private final boolean rooted;

  Collective(Kind kind, boolean rooted) {
    this.kind = kind;
    this.rooted = rooted;
  }

  /** Whether it combines the ranks' elements, by any operation. */
  public boolean reduces() {
    return kind == Kind.REDUCTION;
  }

  /** Whether one rank differs from the others, and may be any. */
  public boolean rooted() {
    return rooted;
  }

  /** Whether a call has two buffers whose counts must fit each other. */
  public boolean fits() {
    return kind == Kind.REDUCTION || kind == Kind.MOVEMENT;
  }

  public int leastWorldSize() {
    return this == SEND_AND_RECV ? 2 : 1;
  }

  /** Makes the call; what is wrong with its result, "" if nothing. */
  abstract String wrong(CollectiveGroup group, Call call);

  /** Calls it with these buffers, as its own root. */
  void callWith(CollectiveGroup group, DeviceBuffer send, DeviceBuffer recv, Call call) {
    throw new UnsupportedOperationException(this + " takes buffers of any counts");
  }

  /** Calls it with buffers whose counts do not fit each other in any collective. */
  void callWithMisfits(CollectiveGroup group, Call call) {
    try (DeviceBuffer send = empty(group, call, 10);
        DeviceBuffer recv = empty(group, call, 10 * group.worldSize() - 1)) {
      callWith(group, send, recv, call);
    }
  }

  private static DeviceBuffer empty(CollectiveGroup group, Call call, int count) {
    return group.device().allocate(call.type, count);
  }

  private static DeviceBuffer moved(CollectiveGroup group, Call call, int count) {
    DeviceBuffer buffer = empty(group, call, count);
    Values.write(buffer, i -> Values.given(group.rank(), i));
    return buffer;
  }

  private static DeviceBuffer reduced(CollectiveGroup group, Call call, int count) {
    DeviceBuffer buffer = empty(group, call, count);
    Values.write(buffer, i -> Values.given(group.rank(), i, call.op));
    return buffer;
  }

  /** The ranks that this rank's barrier did not wait for. */
  private static String leftTooEarly(CollectiveGroup group, int late) {
    try (DeviceBuffer own = group.device().allocate(DataType.INT64, 1);
        DeviceBuffer all = group.device().allocate(DataType.INT64, group.worldSize())) {
      if (group.rank() == late) {
        LockSupport.parkNanos(LATE_NANOS);
      }
      // One clock for all: on Linux it is the host's, and the members are on one.
      long entered = System.nanoTime();
      group.barrier();
      group.stream().synchronize();
      long left = System.nanoTime();
      own.copyFrom(new long[] {entered});
      group.allGather(own, all);
      long[] entries = new long[group.worldSize()];
      all.copyTo(entries);
      return IntStream.range(0, entries.length)
          .filter(rank -> entries[rank] - left > 0)
          .mapToObj(rank -> String.format(Locale.ROOT, "rank %d was not awaited. ", rank))
          .collect(Collectors.joining());
    }
  }

  /** Part r should be rank r's part for this rank. */
  private static String wrongPartOfEveryRank(CollectiveGroup group, Call call, DeviceBuffer recv) {
    int first = group.rank() * call.count;
    return Values.wrong(recv, i -> Values.given(i / call.count, first + i % call.count));
  }
}
