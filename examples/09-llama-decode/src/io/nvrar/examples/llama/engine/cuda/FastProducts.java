package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.DataType;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.KernelImage;
import io.nvrar.examples.llama.engine.cuda.driver.TensorMap;
import io.nvrar.examples.llama.engine.cuda.kernels.FastGemm;
import io.nvrar.examples.llama.engine.cuda.kernels.GemmPlan;
import io.nvrar.examples.llama.engine.cuda.kernels.RankShape;
import io.nvrar.examples.llama.engine.cuda.loading.GpuWeights;
import java.util.ArrayList;
import java.util.List;

/** The matrix products of all layers for one number of rows, up to {@link GemmPlan#MAX_BATCH}. */
final class FastProducts {
  private final int rows;
  private final FastGemm queryKeyValue;
  private final FastGemm attentionOutput;
  private final FastGemm gateUp;
  private final FastGemm down;
  private final FastGemm head;
  private final List<LayerMaps> layers = new ArrayList<>();
  private final TensorMap headMap;

  /** The weights of a layer, as each product reads them. */
  record LayerMaps(
      TensorMap queryKeyValue, TensorMap attentionOutput, TensorMap gateUp, TensorMap down) {}

  FastProducts(Gpu gpu, KernelImage image, RankShape shape, GpuWeights weights, int rows) {
    this.rows = rows;
    DataType type = weights.matrixType();
    int hidden = shape.hidden();
    queryKeyValue =
        new FastGemm(
            gpu, image, type, FastGemm.Output.OUT32, rows, shape.queryKeyValueSize(), hidden);
    attentionOutput =
        new FastGemm(gpu, image, type, FastGemm.Output.OUT, rows, hidden, shape.attentionSize());
    gateUp = new FastGemm(gpu, image, type, FastGemm.Output.GATED, rows, shape.width(), hidden);
    down = new FastGemm(gpu, image, type, FastGemm.Output.OUT, rows, hidden, shape.width());
    head = new FastGemm(gpu, image, type, FastGemm.Output.HEAD, rows, shape.vocabulary(), hidden);
    for (GpuWeights.Layer layer : weights.layers()) {
      layers.add(
          new LayerMaps(
              queryKeyValue.weights(layer.queryKeyValue()),
              attentionOutput.weights(layer.attentionOutput()),
              gateUp.weights(layer.gateUp()),
              down.weights(layer.down())));
    }
    headMap = head.weights(weights.head());
  }

  int rows() {
    return rows;
  }

  FastGemm queryKeyValue() {
    return queryKeyValue;
  }

  FastGemm attentionOutput() {
    return attentionOutput;
  }

  FastGemm gateUp() {
    return gateUp;
  }

  FastGemm down() {
    return down;
  }

  FastGemm head() {
    return head;
  }

  LayerMaps maps(int layer) {
    return layers.get(layer);
  }

  TensorMap headMap() {
    return headMap;
  }
}
