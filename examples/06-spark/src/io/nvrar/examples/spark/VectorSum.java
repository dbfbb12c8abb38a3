package io.nvrar.examples.spark;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import java.util.Arrays;
import java.util.Locale;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;

/** Every task of a barrier stage has a vector, and gets the sum of all. */
public final class VectorSum {
  private static final int LENGTH = 100_000;

  private VectorSum() {}

  /** In a task: adds the others' vectors to this one. */
  static void sum(CollectiveGroup group, float[] vector) {
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, vector.length)) {
      buffer.copyFrom(vector);
      group.allReduce(buffer);
      buffer.copyTo(vector);
    }
  }

  /** In a task: what rank r has is r + 1 everywhere. */
  static String task() throws Exception {
    return BarrierGroup.run(
        "vector-sum",
        GroupConfig.defaults(),
        group -> {
          float[] vector = new float[LENGTH];
          Arrays.fill(vector, group.rank() + 1);
          sum(group, vector);
          return String.format(
              Locale.ROOT,
              "rank %d of %d in process %d (%s): the sum is %.0f",
              group.rank(),
              group.worldSize(),
              ProcessHandle.current().pid(),
              group.backend(),
              vector[LENGTH - 1]);
        });
  }

  /** The driver's program; its argument is the number of tasks. */
  public static void main(String[] args) {
    int tasks = args.length > 0 ? Integer.parseInt(args[0]) : 3;
    try (JavaSparkContext spark = new JavaSparkContext(new SparkConf().setAppName("vector-sum"))) {
      BarrierStage.run(spark, tasks, VectorSum::task).forEach(System.out::println);
    }
  }
}
