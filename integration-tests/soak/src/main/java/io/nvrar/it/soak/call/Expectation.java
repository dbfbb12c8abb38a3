package io.nvrar.it.soak.call;

/** Computes the values that the ranks of a group send in one call, and their reduction. */
final class Expectation {
  private final CallSpec call;
  private final Reference reference;
  private final long[] ofRank;

  Expectation(CallSpec call, Shape shape) {
    this.call = call;
    reference = new Reference(call.type(), call.op(), shape);
    ofRank = new long[shape.worldSize()];
  }

  int worldSize() {
    return ofRank.length;
  }

  /** Element {@code index} of what a rank sends. */
  long input(int rank, int index) {
    return call.values().bits(call.seed(), rank, index, call.type().code());
  }

  /** Element {@code index} reduced over all ranks. */
  long reduced(int index) {
    for (int r = 0; r < ofRank.length; r++) {
      ofRank[r] = input(r, index);
    }
    return reference.reduce(ofRank);
  }
}
