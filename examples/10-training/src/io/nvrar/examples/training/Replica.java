package io.nvrar.examples.training;

import ai.djl.Device;
import ai.djl.Model;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDList;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.index.NDIndex;
import ai.djl.ndarray.types.Shape;
import ai.djl.nn.Parameter;
import ai.djl.training.DefaultTrainingConfig;
import ai.djl.training.GradientCollector;
import ai.djl.training.Trainer;
import ai.djl.training.loss.Loss;
import ai.djl.util.Pair;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.SplittableRandom;
import java.util.zip.CRC32C;

/**
 * One rank's model, optimizer and training step; independent of Ray. All ranks make the same steps,
 * each with its part of the batch, and have the same parameters after each step. Not thread-safe.
 */
final class Replica implements AutoCloseable {
  /** What {@link #state} has of each parameter: its value and two moments. */
  static final long STATE_BYTES = 3 * Float.BYTES;

  private static final String ENGINE = "PyTorch";
  private static final long BUCKET_BYTES = 4 << 20;
  private static final int WINDOWS_AT_ONCE = 32;
  private static final double TEMPERATURE = 0.8;

  /** DJL collects gradients for one thread of a process at a time; ranks may be threads. */
  private static final Object COLLECTING = new Object();

  private final CollectiveGroup group;
  private final TrainingPlan plan;
  private final Text text;
  private final Model model;
  private final Trainer trainer;
  private final List<Parameter> parameters = new ArrayList<>();
  private final ResumableAdamW optimizer;
  private final GradientAverager averager;
  private int steps;

  /**
   * Creates a replica; loads {@code state} unless it is empty.
   *
   * @param group of all ranks; their number divides the plan's batch
   * @param steps that have been done
   * @param state what {@link #state} was then; empty for the first weights
   */
  Replica(CollectiveGroup group, TrainingPlan plan, Text text, int steps, byte[] state) {
    this.group = group;
    this.plan = plan;
    this.text = text;
    this.steps = steps;
    CharGpt gpt = new CharGpt(plan, text.vocabularySize());
    model = Model.newInstance("gpt", Device.cpu(), ENGINE);
    try {
      model.setBlock(gpt);
      NDManager manager = model.getNDManager();
      gpt.initialize(manager, ai.djl.ndarray.types.DataType.FLOAT32, new Shape(1, plan.context));
      for (Pair<String, Parameter> parameter : gpt.getParameters()) {
        parameters.add(parameter.getValue());
      }
      optimizer = ResumableAdamW.of(plan, steps, manager, parameters);
      trainer =
          model.newTrainer(
              new DefaultTrainingConfig(Loss.softmaxCrossEntropyLoss())
                  .optOptimizer(optimizer)
                  .optDevices(new Device[] {Device.cpu()}));
      trainer.initialize(new Shape(1, plan.context));
      if (state.length != 0) {
        restore(state);
      }
      averager =
          new GradientAverager(
              group, parameters.stream().map(Parameter::getArray).toList(), BUCKET_BYTES);
    } catch (RuntimeException | Error e) {
      model.close();
      throw e;
    }
  }

  /** The number of trained values. */
  long parameterCount() {
    return parameters.stream().mapToLong(parameter -> parameter.getShape().size()).sum();
  }

  /**
   * Makes a step, with all other ranks.
   *
   * @return the mean loss of the step's sequences, in nats for a character
   * @throws TrainingException on all ranks, if the loss of one of them is no number, or if their
   *     parameters are not the same afterwards
   */
  float step() {
    int step = steps + 1;
    short[][] sequences = text.draw(plan.seed, step, plan.batch, plan.context);
    int share = plan.batch / group.worldSize();
    double loss = backward(sequences, share * group.rank(), share);
    double mean = meanOfAll(step, loss);
    averager.average();
    trainer.step();
    steps = step;
    requireSameParameters();
    return (float) mean;
  }

  private double backward(short[][] sequences, int from, int count) {
    synchronized (COLLECTING) {
      return collect(sequences, from, count);
    }
  }

  private double collect(short[][] sequences, int from, int count) {
    try (NDManager manager = trainer.getManager().newSubManager()) {
      NDArray input = tokens(manager, sequences, from, count, 0);
      NDArray expected = tokens(manager, sequences, from, count, 1);
      try (GradientCollector collector = trainer.newGradientCollector()) {
        NDArray logits = trainer.forward(new NDList(input)).singletonOrThrow();
        NDArray loss =
            trainer
                .getLoss()
                .evaluate(
                    new NDList(expected.flatten()),
                    new NDList(logits.reshape(-1, text.vocabularySize())));
        collector.backward(loss);
        return loss.getFloat();
      }
    }
  }

  /** The characters of some sequences from an offset on, [count, context]. */
  private NDArray tokens(NDManager manager, short[][] sequences, int from, int count, int offset) {
    long[] numbers = new long[count * plan.context];
    for (int i = 0; i < count; i++) {
      for (int j = 0; j < plan.context; j++) {
        numbers[i * plan.context + j] = sequences[from + i][offset + j];
      }
    }
    return manager.create(numbers, new Shape(count, plan.context));
  }

  private double meanOfAll(int step, double loss) {
    double sum = 0;
    long[] losses = gather(Double.doubleToRawLongBits(loss));
    for (int rank = 0; rank < losses.length; rank++) {
      double theirs = Double.longBitsToDouble(losses[rank]);
      if (!Double.isFinite(theirs)) {
        throw new TrainingException(
            String.format(
                Locale.ROOT,
                "the loss of rank %d became %s in step %d: a smaller --rate may help",
                rank,
                theirs,
                step));
      }
      sum += theirs;
    }
    return sum / losses.length;
  }

  private void requireSameParameters() {
    long[] sums = gather(checksum());
    for (int rank = 1; rank < sums.length; rank++) {
      if (sums[rank] != sums[0]) {
        throw new TrainingException(
            String.format(
                Locale.ROOT,
                "the parameters of rank %d are not those of rank 0 after step %d",
                rank,
                steps));
      }
    }
  }

  /** A checksum of all parameters. */
  long checksum() {
    CRC32C sum = new CRC32C();
    parameters.forEach(parameter -> sum.update(parameter.getArray().toByteBuffer(true)));
    return sum.getValue();
  }

  /** A value of each rank. */
  private long[] gather(long mine) {
    long[] all = new long[group.worldSize()];
    try (DeviceBuffer send = group.device().allocate(DataType.INT64, 1);
        DeviceBuffer received = group.device().allocate(DataType.INT64, all.length)) {
      send.copyFrom(new long[] {mine});
      group.allGather(send, received);
      received.copyTo(all);
    }
    return all;
  }

  /**
   * Computes the mean loss over the held-out text, together with all ranks. Each character except a
   * block's first is predicted once.
   *
   * @return the mean loss in nats for a character
   */
  double heldOutLoss() {
    List<Window> windows = Window.of(text.heldOut(), plan.context);
    List<Window> mine = new ArrayList<>();
    for (int i = group.rank(); i < windows.size(); i += group.worldSize()) {
      mine.add(windows.get(i));
    }
    double loss = 0;
    long count = 0;
    for (int from = 0; from < mine.size(); from += WINDOWS_AT_ONCE) {
      List<Window> some = mine.subList(from, Math.min(mine.size(), from + WINDOWS_AT_ONCE));
      loss += lossOf(some);
      count += some.stream().mapToLong(window -> plan.context - window.from()).sum();
    }
    double[] sums = {loss, count};
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT64, sums.length)) {
      buffer.copyFrom(sums);
      group.allReduce(buffer);
      buffer.copyTo(sums);
    }
    double mean = sums[0] / sums[1];
    if (!Double.isFinite(mean)) {
      throw new TrainingException(
          String.format(
              Locale.ROOT,
              "the held-out loss became %s after step %d: a smaller --rate may help",
              mean,
              steps));
    }
    return mean;
  }

  private double lossOf(List<Window> windows) {
    short[][] sequences = windows.stream().map(Window::characters).toArray(short[][]::new);
    try (NDManager manager = trainer.getManager().newSubManager()) {
      NDArray input = tokens(manager, sequences, 0, sequences.length, 0);
      NDArray expected = tokens(manager, sequences, 0, sequences.length, 1);
      NDArray logits = trainer.evaluate(new NDList(input)).singletonOrThrow();
      NDArray chosen =
          logits.logSoftmax(-1).get(new NDIndex().addAllDim(2).addPickDim(expected.expandDims(2)));
      float[] logs = chosen.toFloatArray();
      double loss = 0;
      for (int i = 0; i < windows.size(); i++) {
        for (int j = windows.get(i).from(); j < plan.context; j++) {
          loss -= logs[i * plan.context + j];
        }
      }
      return loss;
    }
  }

  /** Goes on with a text. No other rank takes part. */
  String sample(String prompt, int count) {
    StringBuilder written = new StringBuilder(prompt);
    SplittableRandom random = new SplittableRandom(plan.seed);
    for (int i = 0; i < count; i++) {
      String seen = written.substring(Math.max(0, written.length() - plan.context));
      short[] numbers = text.encode(seen);
      long[] input = new long[numbers.length];
      for (int j = 0; j < input.length; j++) {
        input[j] = numbers[j];
      }
      try (NDManager manager = trainer.getManager().newSubManager()) {
        NDArray logits =
            trainer
                .evaluate(new NDList(manager.create(input, new Shape(1, input.length))))
                .singletonOrThrow();
        NDArray last = logits.get(new NDIndex("0, {}", input.length - 1));
        float[] shares = last.div(TEMPERATURE).softmax(-1).toFloatArray();
        written.append(text.character(draw(shares, random.nextDouble())));
      }
    }
    return written.toString();
  }

  private static int draw(float[] shares, double place) {
    double sum = 0;
    for (int i = 0; i < shares.length; i++) {
      sum += shares[i];
      if (place < sum) {
        return i;
      }
    }
    return shares.length - 1;
  }

  /**
   * The parameters and the optimizer's moments, as little-endian float32.
   *
   * @throws TrainingException if one of them is no number
   */
  byte[] state() {
    ByteBuffer state =
        ByteBuffer.allocate(Math.toIntExact(stateBytes())).order(ByteOrder.LITTLE_ENDIAN);
    for (Parameter parameter : parameters) {
      state.put(parameter.getArray().toByteBuffer(true));
      optimizer.moments(parameter).forEach(moment -> state.put(moment.toByteBuffer(true)));
    }
    state.flip();
    for (FloatBuffer values = state.asFloatBuffer(); values.hasRemaining(); ) {
      float value = values.get();
      if (!Float.isFinite(value)) {
        throw new TrainingException(
            String.format(
                Locale.ROOT,
                "the parameters became %s in step %d: a smaller --rate may help",
                value,
                steps));
      }
    }
    return state.array();
  }

  private long stateBytes() {
    return STATE_BYTES * parameterCount();
  }

  private void restore(byte[] state) {
    if (state.length != stateBytes()) {
      throw new TrainingException(
          String.format(
              Locale.ROOT,
              "the checkpoint holds %d bytes of state, this model has %d",
              state.length,
              stateBytes()));
    }
    ByteBuffer left = ByteBuffer.wrap(state).order(ByteOrder.LITTLE_ENDIAN);
    for (Parameter parameter : parameters) {
      NDArray weight = parameter.getArray();
      weight.setRequiresGradient(false); // else PyTorch refuses to write it in place
      read(left, weight);
      weight.setRequiresGradient(true);
      optimizer.moments(parameter).forEach(moment -> read(left, moment));
    }
  }

  private static void read(ByteBuffer from, NDArray to) {
    float[] values = new float[Math.toIntExact(to.size())];
    from.asFloatBuffer().get(values);
    from.position(from.position() + values.length * Float.BYTES);
    try (NDArray array = to.getManager().create(values, to.getShape())) {
      to.set(new NDIndex("..."), array); // in place, as copyTo is not
    }
  }

  @Override
  public void close() {
    try (model;
        trainer) {
      averager.close();
    }
  }
}
