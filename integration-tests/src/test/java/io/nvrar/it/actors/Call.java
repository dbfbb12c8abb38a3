package io.nvrar.it.actors;

import io.nvrar.DataType;
import io.nvrar.ReduceOp;
import java.io.Serializable;
import java.util.Locale;

/** A call of a collective, as the driver asks its actors for it. */
@SuppressWarnings("serial")
public final class Call implements Serializable {

  final Collective collective;
  final DataType type;
  final int count;
  final ReduceOp op;
  final int root;

  private Call(Collective collective, DataType type, int count, ReduceOp op, int root) {
    this.collective = collective;
    this.type = type;
    this.count = count;
    this.op = op;
    this.root = root;
  }

  /** A sum, or from root 0, where the collective has such. */
  public static Call of(Collective collective, DataType type, int count) {
    return new Call(collective, type, count, ReduceOp.SUM, 0);
  }

  public Call by(ReduceOp operation) {
    return new Call(collective, type, count, operation, root);
  }

  public Call root(int rank) {
    return new Call(collective, type, count, op, rank);
  }

  @Override
  public String toString() {
    return String.format(Locale.ROOT, "%s %s[%d] %s, root %d", collective, type, count, op, root);
  }
}
