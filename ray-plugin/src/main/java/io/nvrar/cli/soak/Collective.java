package io.nvrar.cli.soak;

import io.nvrar.CollectiveGroup;
import io.nvrar.DeviceBuffer;

/** A collective: one entry says what it moves, how it is called and what must come out. */
enum Collective {
  ALL_REDUCE(6, true, false) {
    @Override
    Extent extent(CallSpec call, int rank, int worldSize) {
      return Extent.of(call.count(), call.count());
    }

    @Override
    void run(CollectiveGroup group, CallSpec call, DeviceBuffer send, DeviceBuffer recv) {
      group.allReduce(send, recv, call.op(), group.stream());
    }

    @Override
    long expected(Expectation all, CallSpec call, int rank, int index) {
      return all.reduced(index);
    }
  },

  ALL_GATHER(2, false, false) {
    @Override
    Extent extent(CallSpec call, int rank, int worldSize) {
      return new Extent(call.count(), worldSize * call.count(), rank * call.count(), 0);
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
    Extent extent(CallSpec call, int rank, int worldSize) {
      return Extent.of(rank == call.root() ? call.count() : 0, call.count());
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

  BARRIER(1, false, false) {
    @Override
    Extent extent(CallSpec call, int rank, int worldSize) {
      return Extent.of(0, 0);
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

  /** How often it is drawn. */
  final int weight;

  final boolean reduces;
  final boolean hasRoot;

  Collective(int weight, boolean reduces, boolean hasRoot) {
    this.weight = weight;
    this.reduces = reduces;
    this.hasRoot = hasRoot;
  }

  /** What one rank sends and receives. */
  abstract Extent extent(CallSpec call, int rank, int worldSize);

  /** Makes the call. A buffer that the rank does not need has no elements. */
  abstract void run(CollectiveGroup group, CallSpec call, DeviceBuffer send, DeviceBuffer recv);

  /** The bits of element {@code index} that {@code rank} must have received. */
  abstract long expected(Expectation all, CallSpec call, int rank, int index);
}
