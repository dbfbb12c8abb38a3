package io.nvrar.it.containers;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.github.dockerjava.api.DockerClient;
import com.github.dockerjava.api.async.ResultCallback;
import com.github.dockerjava.api.model.Frame;
import com.github.dockerjava.api.model.StreamType;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;

/** A driver in the head, to which something is done while it runs. */
final class RunningDriver {

  private static final Duration LIMIT = Duration.ofSeconds(90);

  private final ByteArrayOutputStream out = new ByteArrayOutputStream();
  private final ByteArrayOutputStream all = new ByteArrayOutputStream();
  private final ResultCallback.Adapter<Frame> output =
      new ResultCallback.Adapter<>() {
        @Override
        public void onNext(Frame frame) {
          all.writeBytes(frame.getPayload());
          if (frame.getStreamType() == StreamType.STDOUT) {
            out.writeBytes(frame.getPayload());
          }
        }
      };
  private final String exec;

  private RunningDriver(String exec) {
    this.exec = exec;
  }

  static RunningDriver start(String container, String... command) {
    DockerClient docker = ContainerCluster.docker();
    RunningDriver driver =
        new RunningDriver(
            docker
                .execCreateCmd(container)
                .withCmd(command)
                .withAttachStdout(true)
                .withAttachStderr(true)
                .exec()
                .getId());
    docker.execStartCmd(driver.exec).exec(driver.output);
    return driver;
  }

  /** The first fact of this name, when it is there. */
  String fact(String name) throws InterruptedException {
    await()
        .atMost(LIMIT)
        .pollInterval(Duration.ofMillis(20))
        .until(() -> has(name) || !isRunning());
    if (!has(name)) { // what it said last may still be under way
      output.awaitCompletion(LIMIT.toSeconds(), TimeUnit.SECONDS);
    }
    assertThat(has(name)).as("fact %s in %s", name, this).isTrue();
    return Objects.requireNonNull(facts().get(name)).get(0);
  }

  private boolean has(String name) {
    return facts().containsKey(name);
  }

  /** What it has said so far. */
  Map<String, List<String>> facts() {
    String said = out.toString(StandardCharsets.UTF_8);
    return Facts.of(said.substring(0, said.lastIndexOf('\n') + 1));
  }

  /** All facts, once it has ended well. */
  Map<String, List<String>> end() throws InterruptedException {
    assertThat(output.awaitCompletion(LIMIT.toSeconds(), TimeUnit.SECONDS)).as("%s", this).isTrue();
    assertThat(ContainerCluster.docker().inspectExecCmd(exec).exec().getExitCodeLong())
        .as("%s", this)
        .isZero();
    return facts();
  }

  private boolean isRunning() {
    return Boolean.TRUE.equals(ContainerCluster.docker().inspectExecCmd(exec).exec().isRunning());
  }

  @Override
  public String toString() {
    return all.toString(StandardCharsets.UTF_8);
  }
}
