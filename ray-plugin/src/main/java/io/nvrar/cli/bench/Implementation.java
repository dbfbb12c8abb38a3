package io.nvrar.cli.bench;

/** Who makes the calls. */
enum Implementation {
  /** {@code nvrar_bench}, on the C ABI of the native library. */
  CPP("c++"),
  /** Groups of plain JVM processes. */
  JAVA("java"),
  /** {@code MPI_Allreduce} of Open MPI. */
  OPEN_MPI("open-mpi");

  private final String text;

  Implementation(String text) {
    this.text = text;
  }

  /** The name on the command line and in the files. */
  @Override
  public String toString() {
    return text;
  }
}
