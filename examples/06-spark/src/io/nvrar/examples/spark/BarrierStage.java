package io.nvrar.examples.spark;

import java.io.Serializable;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.HashPartitioner;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.rdd.RDD;
import scala.Function1;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.Iterator$;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/** Barrier stages from Java, whose API of Spark does not have them. */
public final class BarrierStage {

  /** What Spark sends to the executors and runs in each task. */
  @FunctionalInterface
  public interface Task<R> extends Serializable {
    R run() throws Exception;
  }

  private BarrierStage() {}

  /**
   * Runs a function in as many tasks as given, all at the same time. If a task fails, Spark repeats
   * all of them, at most {@code spark.stage.maxConsecutiveAttempts} times (default: 4).
   *
   * @return the tasks' results, by partition
   */
  public static <R> List<R> run(JavaSparkContext spark, int tasks, Task<R> task) {
    List<Integer> partitions = IntStream.range(0, tasks).boxed().toList();
    ClassTag<Tuple2<Integer, R>> pair = ClassTag$.MODULE$.apply(Tuple2.class);
    ClassTag<Integer> partition = ClassTag$.MODULE$.apply(Integer.class);
    ClassTag<R> result = ClassTag$.MODULE$.apply(Object.class);
    RDD<Tuple2<Integer, R>> results =
        spark
            .parallelize(partitions, tasks)
            .rdd()
            .barrier()
            .mapPartitions(function(task), false, pair);
    // The shuffle is what makes it possible to repeat the stage: Spark never repeats a barrier
    // stage
    // whose results go to the driver ("Could not recover from a failed barrier ResultStage").
    return JavaPairRDD.fromRDD(results, partition, result)
        .repartitionAndSortWithinPartitions(new HashPartitioner(1))
        .values()
        .collect();
  }

  private static <R> Function1<Iterator<Integer>, Iterator<Tuple2<Integer, R>>> function(
      Task<R> task) {
    return (Function1<Iterator<Integer>, Iterator<Tuple2<Integer, R>>> & Serializable)
        partition -> Iterator$.MODULE$.single(new Tuple2<>(partition.next(), call(task)));
  }

  /** Scala's functions may throw any exception, but their interface does not say so to Java. */
  private static <R> R call(Task<R> task) {
    try {
      return task.run();
    } catch (RuntimeException e) {
      throw e;
    } catch (Exception e) {
      throw new IllegalStateException(e.toString(), e);
    }
  }
}
