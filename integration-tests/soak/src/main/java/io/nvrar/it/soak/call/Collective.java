package io.nvrar.it.soak.call;

import io.nvrar.CollectiveGroup;
import io.nvrar.DeviceBuffer;

/**
 * The collectives of the soak. Each entry defines the sizes, makes the call, and computes the
 * expected result.
 */
public enum Collective {
  ALL_REDUCE(6, true, false) {
    @Override
    ElementCounts extent(CallSpec call, int rank, int worldSize) {
      return ElementCounts.of(call.count(), call.count());
    }

    @Override
    void run(CollectiveGroup group, CallSpec call, DeviceBuffer send, DeviceBuffer recv) {
      group.allReduce(send, recv, call.op(), call.algorithm(), group.stream());
    }

    @Override
    long expected(Expectation all, CallSpec call, int rank, int index) {
      return all.reduced(index);
    }
  },

  ALL_GATHER(2, false, false) {
    @Override
    ElementCounts extent(CallSpec call, int rank, int worldSize) {
      return new ElementCounts(call.count(), worldSize * call.count(), rank * call.count(), 0);
    }

    @Override
    void run(CollectiveGroup group, CallSpec call, DeviceBuffer send, DeviceBuffer recv) {
      group.allGather(send, recv, group.stream());
    }

    @Override
    long expected(Expectation all, CallSpec call, int rank, int index) {
      return all.input(index / call.count(), index % call.count());
    }
  },

  BROADCAST(2, false, true) {
    @Override
    ElementCounts extent(CallSpec call, int rank, int worldSize) {
      return ElementCounts.of(rank == call.root() ? call.count() : 0, call.count());
    }

    @Override
    void run(CollectiveGroup group, CallSpec call, DeviceBuffer send, DeviceBuffer recv) {
      group.broadcast(send, recv, call.root(), group.stream());
    }

    @Override
    long expected(Expectation all, CallSpec call, int rank, int index) {
      return all.input(call.root(), index);
    }
  },

  REDUCE(2, true, true) {
    @Override
    ElementCounts extent(CallSpec call, int rank, int worldSize) {
      return ElementCounts.of(call.count(), rank == call.root() ? call.count() : 0);
    }

    @Override
    void run(CollectiveGroup group, CallSpec call, DeviceBuffer send, DeviceBuffer recv) {
      group.reduce(send, recv, call.op(), call.root(), group.stream());
    }

    @Override
    long expected(Expectation all, CallSpec call, int rank, int index) {
      return all.reduced(index);
    }
  },

  REDUCE_SCATTER(2, true, false) {
    @Override
    ElementCounts extent(CallSpec call, int rank, int worldSize) {
      return new ElementCounts(worldSize * call.count(), call.count(), 0, rank * call.count());
    }

    @Override
    void run(CollectiveGroup group, CallSpec call, DeviceBuffer send, DeviceBuffer recv) {
      group.reduceScatter(send, recv, call.op(), group.stream());
    }

    @Override
    long expected(Expectation all, CallSpec call, int rank, int index) {
      return all.reduced(rank * call.count() + index);
    }
  },

  ALL_TO_ALL(2, false, false) {
    @Override
    ElementCounts extent(CallSpec call, int rank, int worldSize) {
      return ElementCounts.of(worldSize * call.count(), worldSize * call.count());
    }

    @Override
    void run(CollectiveGroup group, CallSpec call, DeviceBuffer send, DeviceBuffer recv) {
      group.allToAll(send, recv, group.stream());
    }

    @Override
    long expected(Expectation all, CallSpec call, int rank, int index) {
      int source = index / call.count();
      return all.input(source, rank * call.count() + index % call.count());
    }
  },

  /** The root sends to the rank after it; the others do nothing. */
  SEND(1, false, true) {
    @Override
    ElementCounts extent(CallSpec call, int rank, int worldSize) {
      if (worldSize == 1) {
        return ElementCounts.of(0, 0); // to itself only in a batch
      }
      boolean sends = rank == call.root();
      boolean receives = rank == (call.root() + 1) % worldSize;
      return ElementCounts.of(sends ? call.count() : 0, receives ? call.count() : 0);
    }

    @Override
    void run(CollectiveGroup group, CallSpec call, DeviceBuffer send, DeviceBuffer recv) {
      int receiver = (call.root() + 1) % group.worldSize();
      if (group.worldSize() > 1 && group.rank() == call.root()) {
        group.send(send, receiver);
      } else if (group.worldSize() > 1 && group.rank() == receiver) {
        group.recv(recv, call.root());
      }
    }

    @Override
    long expected(Expectation all, CallSpec call, int rank, int index) {
      return all.input(call.root(), index);
    }
  },

  /** A ring: every rank sends to the rank at a distance given by the root's number. */
  SEND_RECEIVE(1, false, true) {
    @Override
    ElementCounts extent(CallSpec call, int rank, int worldSize) {
      return new ElementCounts(call.count(), call.count(), 0, call.count());
    }

    @Override
    void run(CollectiveGroup group, CallSpec call, DeviceBuffer send, DeviceBuffer recv) {
      int n = group.worldSize();
      int destination = (group.rank() + call.root()) % n;
      int source = (group.rank() - call.root() + n) % n;
      group.sendReceive(send, destination, recv, source, group.stream());
    }

    @Override
    long expected(Expectation all, CallSpec call, int rank, int index) {
      int n = all.worldSize();
      return all.input((rank - call.root() + n) % n, index);
    }
  },

  /** Every rank sends another number of elements to every rank, in one batch. */
  BATCH(1, false, false) {
    @Override
    ElementCounts extent(CallSpec call, int rank, int worldSize) {
      int send = BatchTransfers.before(call, rank, worldSize);
      int recv = 0;
      for (int source = 0; source < worldSize; source++) {
        recv += BatchTransfers.size(call, source, rank);
      }
      return new ElementCounts(send, recv, 0, send);
    }

    @Override
    void run(CollectiveGroup group, CallSpec call, DeviceBuffer send, DeviceBuffer recv) {
      group.batch(() -> BatchTransfers.post(group, call, send, recv));
    }

    @Override
    long expected(Expectation all, CallSpec call, int rank, int index) {
      int source = 0;
      int at = index;
      while (at >= BatchTransfers.size(call, source, rank)) {
        at -= BatchTransfers.size(call, source, rank);
        source++;
      }
      return all.input(source, BatchTransfers.before(call, source, rank) + at);
    }
  },

  BARRIER(1, false, false) {
    @Override
    ElementCounts extent(CallSpec call, int rank, int worldSize) {
      return ElementCounts.of(0, 0);
    }

    @Override
    void run(CollectiveGroup group, CallSpec call, DeviceBuffer send, DeviceBuffer recv) {
      group.barrier();
    }

    @Override
    long expected(Expectation all, CallSpec call, int rank, int index) {
      throw new IllegalStateException("a barrier has no result");
    }
  };

  /** The weight with which it is drawn. */
  final int weight;

  final boolean reduces;
  final boolean hasRoot;

  Collective(int weight, boolean reduces, boolean hasRoot) {
    this.weight = weight;
    this.reduces = reduces;
    this.hasRoot = hasRoot;
  }

  /** Whether it is point-to-point; ranks that take no part in it may be in other calls. */
  boolean isTransfer() {
    return this == SEND || this == SEND_RECEIVE || this == BATCH;
  }

  /** The numbers of elements that one rank sends and receives. */
  abstract ElementCounts extent(CallSpec call, int rank, int worldSize);

  /** Makes the call. A buffer that the rank does not need has no elements. */
  abstract void run(CollectiveGroup group, CallSpec call, DeviceBuffer send, DeviceBuffer recv);

  /** The bits of element {@code index} that {@code rank} must have received. */
  abstract long expected(Expectation all, CallSpec call, int rank, int index);
}
