package io.nvrar.tools.bench.setup;

import io.nvrar.Backend;
import java.util.Arrays;
import java.util.List;

/** A measured implementation of the collectives. */
public enum Implementation {
  /** {@code nvrar_bench}, on the C ABI of the native library. */
  CPP("c++"),
  /** The kernels of the study that ours are compared with, in the processes of the first. */
  STUDY("study"),
  /** Groups of plain JVM processes. */
  JAVA("java"),
  /** {@code MPI_Allreduce} of Open MPI. */
  OPEN_MPI("open-mpi"),
  /** NCCL, by PyTorch. */
  NCCL("nccl"),
  /** The all-reduces of PyTorch's symmetric memory, in the processes of NCCL. */
  TORCH_ONE_SHOT("torch-one-shot"),
  TORCH_TWO_SHOT("torch-two-shot");

  private final String text;

  Implementation(String text) {
    this.text = text;
  }

  /** The implementations that can be measured on a backend. */
  public static List<Implementation> of(Backend backend) {
    return Arrays.stream(values()).filter(one -> one.runsOn(backend)).toList();
  }

  boolean runsOn(Backend backend) {
    return switch (this) {
      case CPP, JAVA -> true;
      case OPEN_MPI -> backend == Backend.CPU;
      case STUDY, NCCL, TORCH_ONE_SHOT, TORCH_TWO_SHOT -> backend == Backend.CUDA;
    };
  }

  /** The implementation whose program also measures this one. */
  public Implementation program() {
    return switch (this) {
      case CPP, STUDY -> CPP;
      case JAVA -> JAVA;
      case OPEN_MPI -> OPEN_MPI;
      case NCCL, TORCH_ONE_SHOT, TORCH_TWO_SHOT -> NCCL;
    };
  }

  /** The name on the command line and in the files. */
  @Override
  public String toString() {
    return text;
  }
}
