package io.nvrar.cli.soak;

import io.nvrar.DataType;
import io.nvrar.ReduceOp;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * One collective call as all ranks make it.
 *
 * @param collective which one
 * @param type the elements' type
 * @param op the operation; drawn also where the collective has none
 * @param count elements, as the collective counts them
 * @param root the root rank; drawn also where the collective has none
 * @param inPlace whether send and recv share memory
 * @param shift elements by which the buffers are off the allocation's alignment
 * @param values what the elements are like
 * @param seed what they are made from
 */
record CallSpec(
    Collective collective,
    DataType type,
    ReduceOp op,
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

  static CallSpec draw(Dice dice, int worldSize) {
    Collective collective = dice.pick(BY_WEIGHT);
    DataType type = dice.pick(TYPES);
    return new CallSpec(
        collective,
        type,
        dice.pick(opsOf(type)),
        collective == Collective.BARRIER ? 0 : drawCount(dice, type, worldSize),
        dice.between(0, worldSize - 1),
        dice.chance(0.5),
        dice.chance(0.5) ? 0 : dice.between(1, 15),
        dice.pick(VALUES),
        dice.next());
  }

  /** Mostly small, as in a decode loop; now and then more than the rings hold, or nothing. */
  private static int drawCount(Dice dice, DataType type, int worldSize) {
    int kind = dice.between(1, 100);
    if (kind <= 4) {
      return 0;
    }
    int bytes = kind <= 60 ? 1 << 10 : kind <= 88 ? 1 << 15 : kind <= 98 ? 1 << 18 : 1 << 20;
    return dice.magnitude(Math.max(1, bytes / type.sizeBytes() / Math.max(1, worldSize / 2)));
  }

  private static List<ReduceOp> opsOf(DataType type) {
    boolean isFloat = type.code() >= DataType.FLOAT16.code();
    return List.of(ReduceOp.values()).stream()
        .filter(op -> isFloat || !op.name().equals("AVG"))
        .toList();
  }

  /** Whether the ranks exchange anything: a count of 0 waits for nobody. */
  boolean sends() {
    return count > 0 || collective == Collective.BARRIER;
  }

  /** Whether the ranks can tell the two apart. */
  boolean looksLike(CallSpec that) {
    return collective == that.collective
        && count == that.count
        && (collective == Collective.BARRIER || type == that.type)
        && (!collective.reduces || op == that.op)
        && (!collective.hasRoot || root == that.root);
  }

  /** The same with something in it. */
  CallSpec withElements() {
    return sends() ? this : withCount(17);
  }

  private CallSpec withCount(int value) {
    return new CallSpec(collective, type, op, value, root, inPlace, shift, values, seed);
  }

  private CallSpec withType(DataType other) {
    ReduceOp allowed = opsOf(other).contains(op) ? op : ReduceOp.SUM;
    return new CallSpec(collective, other, allowed, count, root, inPlace, shift, values, seed);
  }

  /** A call that the others do not make. */
  CallSpec differing(int how, int worldSize) {
    if (collective == Collective.BARRIER) {
      return new CallSpec(
          Collective.ALL_REDUCE, type, op, how + 1, root, inPlace, shift, values, seed);
    }
    DataType otherType = TYPES.get((TYPES.indexOf(type) + 1 + how) % TYPES.size());
    List<ReduceOp> ops = opsOf(type);
    ReduceOp otherOp = ops.get((ops.indexOf(op) + 1) % ops.size());
    int otherRoot = (root + 1) % worldSize;
    CallSpec changed =
        switch (how % 5) {
          case 0 -> withType(otherType);
          case 1 ->
              new CallSpec(collective, type, otherOp, count, root, inPlace, shift, values, seed);
          case 2 ->
              new CallSpec(collective, type, op, count, otherRoot, inPlace, shift, values, seed);
          case 3 ->
              new CallSpec(Collective.BARRIER, type, op, 0, root, inPlace, shift, values, seed);
          default -> withCount(count + 1);
        };
    return changed.looksLike(this) ? withCount(count + 1) : changed;
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
