package io.nvrar.examples.training;

import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDList;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import ai.djl.ndarray.types.SparseFormat;
import ai.djl.nn.AbstractBlock;
import ai.djl.nn.Activation;
import ai.djl.nn.Parameter;
import ai.djl.nn.core.Embedding;
import ai.djl.nn.core.Linear;
import ai.djl.nn.norm.LayerNorm;
import ai.djl.training.ParameterStore;
import ai.djl.util.PairList;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.jspecify.annotations.Nullable;

/**
 * A GPT of the shape of GPT-2: layer norms before attention and before the feed-forward network,
 * learned positions, and the embedding as output layer. Input: token ids [batch, time]; output:
 * logits [batch, time, vocabulary].
 */
final class CharGpt extends AbstractBlock {
  private static final float EPSILON = 1e-5f;
  private static final double WEIGHT_DEVIATION = 0.02;

  private record Layer(
      Parameter normGamma,
      Parameter normBeta,
      Parameter qkv,
      Parameter qkvBias,
      Parameter out,
      Parameter outBias,
      Parameter forwardGamma,
      Parameter forwardBeta,
      Parameter up,
      Parameter upBias,
      Parameter down,
      Parameter downBias) {}

  private final TrainingPlan plan;
  private final int vocabulary;
  private final Random random;
  private final Parameter characters;
  private final Parameter positions;
  private final List<Layer> layers = new ArrayList<>();
  private final Parameter gamma;
  private final Parameter beta;

  /** With first weights that follow from the plan's seed. */
  CharGpt(TrainingPlan plan, int vocabulary) {
    this.plan = plan;
    this.vocabulary = vocabulary;
    // The engine's own generator is one for the whole process.
    random = new Random(plan.seed);
    long width = plan.width;
    // What is added to the residual stream, which has two additions a layer.
    double added = WEIGHT_DEVIATION / Math.sqrt(2.0 * plan.layers);
    characters = weight("characters", WEIGHT_DEVIATION, vocabulary, width);
    positions = weight("positions", WEIGHT_DEVIATION, plan.context, width);
    for (int i = 0; i < plan.layers; i++) {
      String name = "layer" + i + ".";
      layers.add(
          new Layer(
              ones(name + "attention.gamma", width),
              zeros(name + "attention.beta", width),
              weight(name + "attention.qkv", WEIGHT_DEVIATION, 3 * width, width),
              zeros(name + "attention.qkv.bias", 3 * width),
              weight(name + "attention.out", added, width, width),
              zeros(name + "attention.out.bias", width),
              ones(name + "forward.gamma", width),
              zeros(name + "forward.beta", width),
              weight(name + "forward.up", WEIGHT_DEVIATION, 4 * width, width),
              zeros(name + "forward.up.bias", 4 * width),
              weight(name + "forward.down", added, width, 4 * width),
              zeros(name + "forward.down.bias", width)));
    }
    gamma = ones("gamma", width);
    beta = zeros("beta", width);
  }

  private Parameter weight(String name, double deviation, long rows, long columns) {
    return addParameter(
        Parameter.builder()
            .setName(name)
            .setType(Parameter.Type.WEIGHT)
            .optShape(new Shape(rows, columns))
            .optInitializer((manager, shape, type) -> normal(manager, shape, deviation))
            .build());
  }

  private NDArray normal(NDManager manager, Shape shape, double deviation) {
    float[] values = new float[Math.toIntExact(shape.size())];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) (deviation * random.nextGaussian());
    }
    return manager.create(values, shape);
  }

  private Parameter ones(String name, long size) {
    return addParameter(
        Parameter.builder()
            .setName(name)
            .setType(Parameter.Type.GAMMA)
            .optShape(new Shape(size))
            .build());
  }

  private Parameter zeros(String name, long size) {
    return addParameter(
        Parameter.builder()
            .setName(name)
            .setType(Parameter.Type.BETA)
            .optShape(new Shape(size))
            .build());
  }

  /** Results belong to the manager of the first operand: it must never be a parameter. */
  @Override
  protected NDList forwardInternal(
      ParameterStore store,
      NDList inputs,
      boolean training,
      @Nullable PairList<String, Object> parameters) {
    NDArray numbers = inputs.singletonOrThrow();
    ForwardPass pass = new ForwardPass(store, training, numbers);
    NDManager manager = numbers.getManager();
    int time = Math.toIntExact(numbers.getShape().get(1));
    NDArray mask = mask(manager, time);
    // An array, not a Java number: DJL would free the number's memory before the backward pass.
    NDArray scale = manager.create((float) (1 / Math.sqrt((double) plan.width / plan.heads)));
    NDArray places = manager.arange(0, time, 1, DataType.INT64);
    NDArray x = embedding(numbers, pass.of(characters)).add(embedding(places, pass.of(positions)));
    for (Layer layer : layers) {
      NDArray normed = pass.norm(x, layer.normGamma, layer.normBeta);
      NDArray mixed = attention(pass.linear(normed, layer.qkv, layer.qkvBias), mask, scale);
      x = x.add(pass.linear(mixed, layer.out, layer.outBias));
      normed = pass.norm(x, layer.forwardGamma, layer.forwardBeta);
      NDArray wide = Activation.gelu(pass.linear(normed, layer.up, layer.upBias));
      x = x.add(pass.linear(wide, layer.down, layer.downBias));
    }
    x = pass.norm(x, gamma, beta);
    return new NDList(Linear.linear(x, pass.of(characters), null).singletonOrThrow());
  }

  private static NDArray embedding(NDArray numbers, NDArray table) {
    return Embedding.embedding(numbers, table, SparseFormat.DENSE).singletonOrThrow();
  }

  /** 0 where a character may look, which is at itself and at those before it. */
  private static NDArray mask(NDManager manager, int time) {
    float[] mask = new float[time * time];
    for (int row = 0; row < time; row++) {
      for (int column = row + 1; column < time; column++) {
        mask[row * time + column] = Float.NEGATIVE_INFINITY;
      }
    }
    return manager.create(mask, new Shape(time, time));
  }

  private NDArray attention(NDArray qkv, NDArray mask, NDArray scale) {
    long batch = qkv.getShape().get(0);
    long time = qkv.getShape().get(1);
    int size = plan.width / plan.heads;
    NDArray heads = qkv.reshape(batch, time, 3, plan.heads, size).transpose(2, 0, 3, 1, 4);
    NDArray scores = heads.get(0).matMul(heads.get(1).transpose(0, 1, 3, 2)).mul(scale);
    NDArray mixed = scores.add(mask).softmax(-1).matMul(heads.get(2));
    return mixed.transpose(0, 2, 1, 3).reshape(batch, time, plan.width);
  }

  /** The parameters in one pass. */
  private record ForwardPass(ParameterStore store, boolean training, NDArray input) {
    NDArray of(Parameter parameter) {
      return store.getValue(parameter, input.getDevice(), training);
    }

    NDArray linear(NDArray x, Parameter weight, Parameter bias) {
      return Linear.linear(x, of(weight), of(bias)).singletonOrThrow();
    }

    NDArray norm(NDArray x, Parameter scale, Parameter shift) {
      Shape shape = new Shape(x.getShape().get(2));
      return LayerNorm.layerNorm(x, shape, of(scale), of(shift), EPSILON).singletonOrThrow();
    }
  }

  @Override
  public Shape[] getOutputShapes(Shape[] inputs) {
    return new Shape[] {inputs[0].add(vocabulary)};
  }
}
