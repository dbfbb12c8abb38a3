package io.nvrar.tools;

import io.nvrar.GroupMismatchException;
import java.nio.file.NoSuchFileException;
import java.util.concurrent.CompletionException;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** A command of the tests: ends in whatever way it is told. */
@Command(name = "fail")
public final class FailingCommand implements NvrarCommand {
  /** The ways to end. */
  enum How {
    MISMATCH,
    WRAPPED,
    NO_FILE,
    NO_MESSAGE,
    SEVERAL_LINES,
    SEE_LOG,
    NO_HEAP,
    NO_DEVICE_MEMORY,
    CODE_7
  }

  @Parameters private How how = How.CODE_7;

  @Option(names = "--number")
  private int number;

  /** For {@link java.util.ServiceLoader}. */
  public FailingCommand() {}

  @Override
  public Integer call() throws Exception {
    switch (how) {
      case MISMATCH -> throw new GroupMismatchException("rank 1 has 4 ranks, rank 0 has 2");
      case WRAPPED -> throw new CompletionException(new GroupMismatchException("the ranks differ"));
      case NO_FILE -> throw new NoSuchFileException("/no/such/config.json");
      case NO_MESSAGE -> throw new IllegalStateException();
      case SEVERAL_LINES -> throw new IllegalStateException("first line\n\tat stack.trace");
      case SEE_LOG -> throw new IllegalStateException("a log in Ray's session directory says why");
      case NO_HEAP -> throw new OutOfMemoryError("Java heap space");
      case NO_DEVICE_MEMORY -> throw new OutOfMemoryError("GPU 0 has no room for a buffer");
      case CODE_7 -> {}
    }
    return 7 + number;
  }
}
