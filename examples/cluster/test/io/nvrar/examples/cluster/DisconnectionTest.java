package io.nvrar.examples.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.tools.Main;
import io.ray.api.Ray;
import io.ray.runtime.DefaultRayRuntimeFactory;
import java.io.BufferedReader;
import java.io.IOException;
import java.lang.ref.Reference;
import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/** How a command ends whose cluster does not let it go. */
class DisconnectionTest {
  private static final List<ServerSocket> LISTENERS = new ArrayList<>();
  private static final int LIMIT_SECONDS = 30;

  @AfterEach
  void end() {
    DefaultRayRuntimeFactory.work = () -> {};
    DefaultRayRuntimeFactory.shutdown = () -> {};
    Ray.shutdown();
    System.clearProperty("ray.address");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"io.nvrar.examples.hello.HelloCommand", "io.nvrar.examples.graph.GraphCommand"})
  void whatWentWrongIsNotHiddenByWhatEndsTheConnection(String command) throws Exception {
    DefaultRayRuntimeFactory.work =
        () -> {
          throw new IllegalStateException("what happened");
        };
    DefaultRayRuntimeFactory.shutdown =
        () -> {
          throw new IllegalStateException("of the shutdown");
        };
    AtomicReference<Exception> thrown = new AtomicReference<>();
    int code =
        new CommandLine(Class.forName(command).getDeclaredConstructor().newInstance())
            .setExecutionExceptionHandler(
                (exception, line, parsed) -> {
                  thrown.set(exception);
                  return 1;
                })
            .execute("--address", listening());
    assertThat(code).isEqualTo(1);
    Exception exception = Objects.requireNonNull(thrown.get());
    assertThat(exception).hasMessage("what happened");
    assertThat(exception.getSuppressed())
        .singleElement()
        .asString()
        .contains("Ray did not shut down: ", "of the shutdown");
  }

  @Test
  void oneThatHasEndedWellLeavesNothingInTheProcess() throws Exception {
    ReferenceQueue<Disconnection> garbage = new ReferenceQueue<>();
    Reference<Disconnection> ended = ended(garbage);
    System.gc();
    assertThat(garbage.remove(TimeUnit.SECONDS.toMillis(LIMIT_SECONDS))).isSameAs(ended);
  }

  private static Reference<Disconnection> ended(ReferenceQueue<Disconnection> garbage) {
    Disconnection disconnection = Disconnection.ofDriver();
    disconnection.close();
    return new WeakReference<>(disconnection, garbage);
  }

  @ParameterizedTest
  @ValueSource(strings = {"fails", "works"})
  void aProcessEndsThoughRayDoesNot(String how) throws Exception {
    Process driver =
        new ProcessBuilder(
                List.of(
                    Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                    "-cp",
                    System.getProperty("java.class.path"),
                    StuckDriver.class.getName(),
                    how))
            .redirectErrorStream(true)
            .start();
    try (BufferedReader output = driver.inputReader(StandardCharsets.UTF_8)) {
      assertThat(output.readLine()).isEqualTo("connected");
      if (how.equals("works")) {
        driver.destroy(); // SIGTERM; the same hooks run on Ctrl-C
      }
      assertThat(driver.waitFor(LIMIT_SECONDS, TimeUnit.SECONDS)).isTrue();
      assertThat(driver.exitValue()).isEqualTo(1);
      if (how.equals("fails")) {
        assertThat(output.readLine()).isEqualTo("nvrar: what happened");
      }
    } finally {
      driver.destroyForcibly();
    }
  }

  /** An address at which something listens as long as this process lives. */
  private static String listening() throws IOException {
    InetAddress loopback = InetAddress.getLoopbackAddress();
    ServerSocket socket = new ServerSocket(0, 1, loopback);
    LISTENERS.add(socket);
    return loopback.getHostAddress() + ":" + socket.getLocalPort();
  }

  /** The command hello on a cluster that never answers a goodbye. */
  static final class StuckDriver {
    private StuckDriver() {}

    public static void main(String[] args) throws IOException {
      DefaultRayRuntimeFactory.shutdown = StuckDriver::hang;
      DefaultRayRuntimeFactory.work =
          () -> {
            System.out.println("connected");
            if (args[0].equals("fails")) {
              throw new IllegalStateException("what happened");
            }
            hang();
          };
      Main.main(new String[] {"hello", "--address", listening()});
    }

    private static void hang() {
      try {
        new CountDownLatch(1).await();
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }
  }
}
