package io.nvrar.it.soak.call;

import io.nvrar.CollectiveGroup;
import io.nvrar.DeviceBuffer;

/** The transfers of a batch: every rank sends every rank a different number of elements. */
final class BatchTransfers {
  private BatchTransfers() {}

  /** Elements from one rank to another, 0 to the call's count. */
  static int size(CallSpec call, int source, int destination) {
    long any = Dice.mix(call.seed() ^ Dice.mix(source * 64L + destination));
    return (int) Long.remainderUnsigned(any, call.count() + 1L);
  }

  /** Elements from one rank to all ranks before another. */
  static int before(CallSpec call, int source, int destination) {
    int sum = 0;
    for (int r = 0; r < destination; r++) {
      sum += size(call, source, r);
    }
    return sum;
  }

  /** Calls all sends and recvs of this rank, two for each peer and direction. */
  static void post(CollectiveGroup group, CallSpec call, DeviceBuffer send, DeviceBuffer recv) {
    int self = group.rank();
    int received = 0;
    for (int peer = 0; peer < group.worldSize(); peer++) {
      int from = before(call, self, peer);
      int out = size(call, self, peer);
      group.send(send.slice(from, out / 2), peer);
      group.send(send.slice(from + out / 2, out - out / 2), peer);
      int in = size(call, peer, self);
      group.recv(recv.slice(received, in / 2), peer);
      group.recv(recv.slice(received + in / 2, in - in / 2), peer);
      received += in;
    }
  }
}
