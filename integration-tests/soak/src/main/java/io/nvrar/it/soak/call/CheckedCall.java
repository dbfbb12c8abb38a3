package io.nvrar.it.soak.call;

import io.nvrar.CollectiveGroup;
import io.nvrar.DeviceBuffer;
import io.nvrar.internal.binding.FloatControl;
import java.util.List;
import java.util.Locale;

/** Makes one call with newly allocated memory and checks every element afterwards. */
public final class CheckedCall {
  private static final List<Integer> FOREIGN_WORDS =
      List.of(FloatControl.NO_DENORMALS, FloatControl.DOWN, FloatControl.UP);

  private static final double FOREIGN = 0.25;

  private CheckedCall() {}

  /**
   * Throws what the call throws.
   *
   * @throws WrongResultException if an element that was received, sent or not to be touched is not
   *     what it must be
   */
  public static void run(CollectiveGroup group, CallSpec call, Shape shape) {
    ElementCounts extent = call.collective().extent(call, group.rank(), shape.worldSize());
    Expectation all = new Expectation(call, shape);
    if (call.inPlace()) {
      inPlace(group, call, extent, all);
    } else {
      apart(group, call, extent, all);
    }
  }

  private static void inPlace(
      CollectiveGroup group, CallSpec call, ElementCounts extent, Expectation all) {
    try (Region memory = new Region(group, call.type(), call.shift(), extent.shared())) {
      Region.Bits before = i -> sent(group.rank(), extent, extent.sendAt(), all, i);
      memory.fill(before);
      call(
          group,
          call,
          memory.slice(extent.sendAt(), extent.send()),
          memory.slice(extent.recvAt(), extent.recv()));
      memory.verify(
          "shared memory of " + call,
          i -> received(group.rank(), extent, extent.recvAt(), call, all, i, before));
    }
  }

  private static void apart(
      CollectiveGroup group, CallSpec call, ElementCounts extent, Expectation all) {
    try (Region send = new Region(group, call.type(), call.shift(), extent.send());
        Region recv = new Region(group, call.type(), 15 - call.shift(), extent.recv())) {
      Region.Bits before = i -> sent(group.rank(), extent, 0, all, i);
      send.fill(before);
      recv.fill(Region::pattern);
      call(group, call, send.slice(0, extent.send()), recv.slice(0, extent.recv()));
      recv.verify(
          "recv of " + call, i -> received(group.rank(), extent, 0, call, all, i, Region::pattern));
      send.verify("send of " + call, before);
    }
  }

  /**
   * Returns when the result is there: a call on a GPU returns earlier, and its failure is thrown to
   * who waits for the stream.
   *
   * <p>On some ranks the thread has other rounding or denormal modes during the call, as after
   * loading a library linked with -ffast-math. The results must have the same bits.
   */
  private static void call(
      CollectiveGroup group, CallSpec call, DeviceBuffer send, DeviceBuffer recv) {
    Dice dice = Dice.of(call.seed(), group.rank());
    if (!dice.chance(FOREIGN)) {
      call.collective().run(group, call, send, recv);
      group.stream().synchronize();
      return;
    }
    int word = FloatControl.DEFAULT | dice.pick(FOREIGN_WORDS);
    int after;
    FloatControl.set(word);
    try {
      call.collective().run(group, call, send, recv);
    } finally {
      after = FloatControl.get();
      FloatControl.set(FloatControl.DEFAULT);
    }
    if (after != word) {
      throw new WrongResultException(
          String.format(
              Locale.ROOT,
              "%s left its thread the float control word 0x%x, must leave 0x%x",
              call,
              after,
              word));
    }
    group.stream().synchronize();
  }

  private static long sent(int rank, ElementCounts extent, int at, Expectation all, int index) {
    boolean inside = index >= at && index < at + extent.send();
    return inside ? all.input(rank, index - at) : Region.pattern(index);
  }

  private static long received(
      int rank,
      ElementCounts extent,
      int at,
      CallSpec call,
      Expectation all,
      int index,
      Region.Bits before) {
    boolean inside = index >= at && index < at + extent.recv();
    return inside ? call.collective().expected(all, call, rank, index - at) : before.at(index);
  }
}
