package io.nvrar.it.soak.call;

import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.ReduceOp;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * The parameters of one call, which are the same on all ranks.
 *
 * @param collective the collective
 * @param type the elements' type
 * @param op the operation; also drawn if the collective has none
 * @param algorithm the algorithm of an all-reduce; also drawn for others
 * @param count elements, as the collective counts them
 * @param root the root rank; also drawn if the collective has none
 * @param inPlace whether send and recv share memory
 * @param shift elements by which the buffers are off the allocation's alignment
 * @param values the kind of values
 * @param seed the seed of the values
 */
public record CallSpec(
    Collective collective,
    DataType type,
    ReduceOp op,
    Algorithm algorithm,
    int count,
    int root,
    boolean inPlace,
    int shift,
    Values values,
    long seed) {

  private static final List<Collective> BY_WEIGHT = new ArrayList<>();
  private static final List<DataType> TYPES = List.of(DataType.values());
  private static final List<Values> VALUES = List.of(Values.values());

  static {
    for (Collective collective : Collective.values()) {
      for (int i = 0; i < collective.weight; i++) {
        BY_WEIGHT.add(collective);
      }
    }
  }

  public static CallSpec draw(Dice dice, Shape shape, Backend backend) {
    Collective collective = dice.pick(BY_WEIGHT);
    DataType type = dice.pick(TYPES);
    return new CallSpec(
        collective,
        type,
        dice.pick(opsOf(type)),
        dice.pick(algorithmsOf(shape, backend)),
        collective == Collective.BARRIER ? 0 : drawCount(dice, type, shape.worldSize()),
        dice.between(0, shape.worldSize() - 1),
        dice.chance(0.5),
        dice.chance(0.5) ? 0 : dice.between(1, 15),
        dice.pick(VALUES),
        dice.next());
  }

  /** Mostly small, as in a decode loop; sometimes more than the rings hold, or 0. */
  private static int drawCount(Dice dice, DataType type, int worldSize) {
    int kind = dice.between(1, 100);
    if (kind <= 4) {
      return 0;
    }
    int bytes = kind <= 60 ? 1 << 10 : kind <= 88 ? 1 << 15 : kind <= 98 ? 1 << 18 : 1 << 20;
    return dice.magnitude(Math.max(1, bytes / type.sizeBytes() / Math.max(1, worldSize / 2)));
  }

  private static List<ReduceOp> opsOf(DataType type) {
    return List.of(ReduceOp.values()).stream()
        .filter(op -> type.isFloat() || op != ReduceOp.AVG)
        .toList();
  }

  private static List<Algorithm> algorithmsOf(Shape shape, Backend backend) {
    if (shape.isOneNode()) {
      return List.of(Algorithm.AUTO, Algorithm.ONE_SHOT, Algorithm.TWO_SHOT);
    }
    return List.of(Algorithm.values()).stream()
        // GPUs of several nodes refuse it.
        .filter(algorithm -> backend == Backend.CPU || algorithm != Algorithm.TWO_SHOT)
        .toList();
  }

  /**
   * Whether all ranks wait for all ranks: a count of 0 waits for none, a transfer involves two
   * ranks.
   */
  public boolean joinsAll() {
    return collective == Collective.BARRIER || (count > 0 && !collective.isTransfer());
  }

  /** Whether the ranks cannot distinguish the two calls. */
  public boolean looksLike(CallSpec that) {
    return collective == that.collective
        && count == that.count
        && (collective == Collective.BARRIER || type == that.type)
        && (!collective.reduces || op == that.op)
        && (!collective.hasRoot || root == that.root);
  }

  /** A similar call in which all ranks wait for all ranks. */
  public CallSpec joiningAll() {
    if (joinsAll()) {
      return this;
    }
    return with(
        collective.isTransfer() ? Collective.ALL_REDUCE : collective,
        type,
        op,
        count == 0 ? 17 : count,
        root);
  }

  private CallSpec with(
      Collective newCollective, DataType newType, ReduceOp newOp, int newCount, int newRoot) {
    ReduceOp allowed = opsOf(newType).contains(newOp) ? newOp : ReduceOp.SUM;
    return new CallSpec(
        newCollective,
        newType,
        allowed,
        algorithm,
        newCount,
        newRoot,
        inPlace,
        shift,
        values,
        seed);
  }

  /** A call that differs from this one in a way that the ranks must detect. */
  public CallSpec differing(int how, int worldSize) {
    if (collective == Collective.BARRIER) {
      return with(Collective.ALL_REDUCE, type, op, how + 1, root);
    }
    List<ReduceOp> ops = opsOf(type);
    CallSpec changed =
        switch (how % 5) {
          case 0 ->
              with(
                  collective,
                  TYPES.get((TYPES.indexOf(type) + 1 + how) % TYPES.size()),
                  op,
                  count,
                  root);
          case 1 ->
              with(collective, type, ops.get((ops.indexOf(op) + 1) % ops.size()), count, root);
          case 2 -> with(collective, type, op, count, (root + 1) % worldSize);
          case 3 -> with(Collective.BARRIER, type, op, 0, root);
          default -> this;
        };
    return changed.looksLike(this) ? with(collective, type, op, count + 1, root) : changed;
  }

  @Override
  public String toString() {
    StringBuilder text = new StringBuilder(collective.name());
    if (collective != Collective.BARRIER) {
      text.append(' ').append(type.name().toLowerCase(Locale.ROOT)).append('[').append(count);
      text.append(']');
    }
    if (collective.reduces) {
      text.append(' ').append(op);
    }
    if (collective == Collective.ALL_REDUCE) {
      text.append(' ').append(algorithm);
    }
    if (collective.hasRoot) {
      text.append(" root ").append(root);
    }
    return text.append(inPlace ? " in place" : "")
        .append(" shift ")
        .append(shift)
        .append(' ')
        .append(values)
        .toString();
  }
}
