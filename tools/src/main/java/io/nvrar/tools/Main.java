package io.nvrar.tools;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.nvrar.internal.LibraryVersion;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.ServiceConfigurationError;
import java.util.ServiceLoader;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.ScopeType;

/**
 * The root of the command line. Commands are found by {@link ServiceLoader}; a failure becomes one
 * sentence on standard error. Exit codes: what the command returned, 1 for a failure, 2 for wrong
 * usage.
 */
@Command(
    name = "nvrar",
    description = "Low-latency collectives for Ray Java actors.",
    synopsisSubcommandLabel = "COMMAND",
    mixinStandardHelpOptions = true,
    versionProvider = Main.Version.class)
public final class Main implements Runnable {
  private static final Path DESCRIPTOR = Path.of("/proc/self/fd/1");

  static final int FAILED = 1;
  static final int WRONG_USAGE = 2;

  /**
   * The property with the directory to which the logs of a private cluster are copied before the
   * cluster is removed; set by {@code bin/nvrar}.
   */
  static final String KEPT_LOGS_PROPERTY = "nvrar.cli.ray.logs";

  private static final String SESSION_DIRECTORY = "Ray's session directory";

  /** The environment variable that asks for stack traces, as {@code --verbose} does. */
  static final String DEBUG_VARIABLE = "NVRAR_DEBUG";

  @Option(
      names = "--verbose",
      scope = ScopeType.INHERIT,
      description = "Show the stack trace of a failure.")
  private boolean verbose = System.getenv(DEBUG_VARIABLE) != null;

  private final CommandLine commandLine = new CommandLine(this);

  /** Why installed commands cannot be offered, one clause each. */
  private final List<String> unusable = new ArrayList<>();

  private Main() {
    Iterator<NvrarCommand> commands = ServiceLoader.load(NvrarCommand.class).iterator();
    while (true) {
      try {
        if (!commands.hasNext()) {
          break;
        }
        commandLine.addSubcommand(commands.next());
      } catch (ServiceConfigurationError | NoClassDefFoundError error) {
        unusable.add(error.toString());
      }
    }
  }

  /** Runs a command and exits with its code. */
  public static void main(String[] args) {
    ErrorStream.install();
    PrintWriter out = new PrintWriter(System.out, true, UTF_8);
    PrintWriter err = new PrintWriter(System.err, true, UTF_8);
    int code = written(run(out, err, args), out, err, DESCRIPTOR);
    // Ray and the tokenizer leave threads behind that would keep the process alive.
    System.exit(code);
  }

  /**
   * The exit code of a command whose output may be lost, as on a full disk. Whoever reads a pipe
   * may stop when it has enough.
   *
   * @param descriptor the link to what standard output is
   */
  static int written(int code, PrintWriter out, PrintWriter err, Path descriptor) {
    if (!out.checkError() || code != 0 || isPipe(descriptor)) {
      return code;
    }
    err.println("nvrar: standard output cannot be written");
    return FAILED;
  }

  private static boolean isPipe(Path descriptor) {
    try {
      return Files.readSymbolicLink(descriptor).toString().matches("(pipe|socket):.*");
    } catch (IOException e) {
      return true; // it is closed
    }
  }

  /** Runs a command and returns its exit code. */
  static int run(PrintWriter out, PrintWriter err, String... args) {
    Main main = new Main();
    CommandLine commandLine =
        main.commandLine
            .setOut(out)
            .setErr(err)
            .setCaseInsensitiveEnumValuesAllowed(true)
            .setParameterExceptionHandler(main::explainUsage)
            .setExecutionExceptionHandler(main::explainFailure);
    try {
      return commandLine.execute(args);
    } catch (OutOfMemoryError e) { // picocli handles exceptions only
      err.println("nvrar: " + lackOfMemory(e));
      if (main.verbose) {
        e.printStackTrace(err);
      }
      return FAILED;
    }
  }

  /**
   * The JVM throws such errors for other memory, too, such as that of direct buffers, and says
   * which.
   */
  private static String lackOfMemory(OutOfMemoryError error) {
    String message = String.valueOf(error.getMessage());
    long mebibytes = Runtime.getRuntime().maxMemory() >> 20;
    return message.equals("Java heap space") || message.startsWith("GC overhead limit")
        ? String.format(
            Locale.ROOT,
            "this command needs more memory than the %d MiB of its JVM; JAVA_TOOL_OPTIONS=-Xmx%dm gives it twice as much",
            mebibytes,
            2 * mebibytes)
        : Sentence.of(error);
  }

  @Override
  public void run() {
    commandLine.usage(commandLine.getOut());
  }

  private int explainUsage(ParameterException exception, String[] args) {
    CommandLine command = exception.getCommandLine();
    PrintWriter err = command.getErr();
    err.println("nvrar: " + Sentence.of(exception));
    if (command.getParent() == null) {
      // A command with missing classes is unknown here, so the reasons are printed as well.
      unusable.forEach(reason -> err.println("nvrar: not available: " + reason));
    }
    err.println("nvrar: " + command.getCommandSpec().qualifiedName() + " --help lists the options");
    return WRONG_USAGE;
  }

  private int explainFailure(
      Exception exception, CommandLine command, CommandLine.ParseResult parsed) {
    PrintWriter err = command.getErr();
    err.println("nvrar: " + withKeptLogs(Sentence.of(exception)));
    if (verbose) {
      exception.printStackTrace(err);
    }
    return FAILED;
  }

  private static String withKeptLogs(String sentence) {
    String logs = System.getProperty(KEPT_LOGS_PROPERTY);
    return logs == null
        ? sentence
        : sentence.replace(SESSION_DIRECTORY, SESSION_DIRECTORY + ", kept in " + logs + ",");
  }

  /** The library's version, which is the tools', too. */
  static final class Version implements CommandLine.IVersionProvider {
    @Override
    public String[] getVersion() {
      return new String[] {"ray-nvrar " + LibraryVersion.get()};
    }
  }
}
