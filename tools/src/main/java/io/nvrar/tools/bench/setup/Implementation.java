package io.nvrar.tools.bench.setup;

import io.nvrar.Backend;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** A measured implementation of the collectives. */
public enum Implementation {
  /** {@code nvrar_bench}, on the C ABI of the native library. */
  CPP("c++"),
  /** An all-reduce with a kernel behind it for the rest of a fused one, in the same processes. */
  CPP_APART("c++-apart"),
  /** The kernels of the study that ours are compared with, in the processes of the first. */
  STUDY("study"),
  /** Groups of plain JVM processes. */
  JAVA("java"),
  /** {@code MPI_Allreduce} of Open MPI. */
  OPEN_MPI("open-mpi"),
  /** NCCL, by PyTorch. */
  NCCL("nccl"),
  /** What PyTorch has on symmetric memory without NVLink multicast, in the processes of NCCL. */
  TORCH_ONE_SHOT("torch-one-shot"),
  TORCH_TWO_SHOT("torch-two-shot"),
  TORCH_REDUCE_SCATTER("torch-reduce-scatter"),
  TORCH_LOW_CONTENTION("torch-low-contention");

  private final String text;

  Implementation(String text) {
    this.text = text;
  }

  /** The collectives that it has in the benchmark. */
  public Set<TimedCollective> collectives() {
    return switch (this) {
      case CPP, JAVA -> EnumSet.allOf(TimedCollective.class);
      case CPP_APART, STUDY, OPEN_MPI, TORCH_ONE_SHOT, TORCH_TWO_SHOT ->
          EnumSet.of(TimedCollective.ALL_REDUCE);
      case NCCL ->
          EnumSet.of(
              TimedCollective.ALL_REDUCE,
              TimedCollective.ALL_GATHER,
              TimedCollective.REDUCE_SCATTER);
      case TORCH_REDUCE_SCATTER -> EnumSet.of(TimedCollective.REDUCE_SCATTER);
      case TORCH_LOW_CONTENTION ->
          EnumSet.of(TimedCollective.ALL_GATHER, TimedCollective.REDUCE_SCATTER);
    };
  }

  /** The modes that it has in the benchmark. */
  public Set<Mode> modes() {
    return switch (this) {
      case CPP, JAVA -> EnumSet.allOf(Mode.class);
      case OPEN_MPI -> EnumSet.of(Mode.CALLS);
      case CPP_APART, STUDY -> EnumSet.copyOf(Mode.OF_GPUS);
      case NCCL, TORCH_ONE_SHOT, TORCH_TWO_SHOT, TORCH_REDUCE_SCATTER, TORCH_LOW_CONTENTION ->
          EnumSet.of(Mode.GRAPH, Mode.EAGER);
    };
  }

  /** The largest size that it takes, in bytes: a limit of the study's kernels, and of patience. */
  public long mostBytes() {
    return switch (this) {
      case STUDY, TORCH_ONE_SHOT -> 8 << 20;
      default -> Long.MAX_VALUE;
    };
  }

  /** The implementations that can be measured on a backend. */
  public static List<Implementation> of(Backend backend) {
    return Arrays.stream(values()).filter(one -> one.runsOn(backend)).toList();
  }

  public boolean runsOn(Backend backend) {
    return switch (this) {
      case CPP, JAVA -> true;
      case OPEN_MPI -> backend == Backend.CPU;
      case CPP_APART,
          STUDY,
          NCCL,
          TORCH_ONE_SHOT,
          TORCH_TWO_SHOT,
          TORCH_REDUCE_SCATTER,
          TORCH_LOW_CONTENTION ->
          backend == Backend.CUDA;
    };
  }

  /** The implementation whose program also measures this one. */
  public Implementation program() {
    return switch (this) {
      case CPP, CPP_APART, STUDY -> CPP;
      case JAVA -> JAVA;
      case OPEN_MPI -> OPEN_MPI;
      case NCCL, TORCH_ONE_SHOT, TORCH_TWO_SHOT, TORCH_REDUCE_SCATTER, TORCH_LOW_CONTENTION -> NCCL;
    };
  }

  /** The one of this name; empty if there is none. */
  public static Optional<Implementation> named(String name) {
    return Arrays.stream(values()).filter(one -> one.text.equals(name)).findFirst();
  }

  /** Whether it is of this library, called as users call it. */
  public boolean isOurs() {
    return this == CPP || this == JAVA;
  }

  /** Whether it is of another library that has the same collectives. */
  public boolean isPeer() {
    return switch (this) {
      case CPP, CPP_APART, STUDY, JAVA -> false;
      case OPEN_MPI,
          NCCL,
          TORCH_ONE_SHOT,
          TORCH_TWO_SHOT,
          TORCH_REDUCE_SCATTER,
          TORCH_LOW_CONTENTION ->
          true;
    };
  }

  /** The name on the command line and in the files. */
  @Override
  public String toString() {
    return text;
  }
}
