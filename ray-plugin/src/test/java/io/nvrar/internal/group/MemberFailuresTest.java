package io.nvrar.internal.group;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.GroupConfig;
import io.nvrar.internal.channel.ControlChannel;
import io.nvrar.internal.channel.FramedChannel;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupSpec;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class MemberFailuresTest {
  private static final GroupSpec SPEC =
      new GroupSpec("order", 1, new byte[128], "127.0.0.1", 1, GroupConfig.defaults());
  private static final Failure FAILURE = Failure.of(Failure.Kind.ABORTED, "of a test");

  /** Whoever sees a failure may leave, and nothing can be sent after that. */
  @Test
  void theReportIsQueuedBeforeTheFailureIsSeen() throws Exception {
    int reports = 300;
    int tooLate = 0;
    try (ServerSocketChannel server = ServerSocketChannel.open()) {
      server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
      for (int i = 0; i < reports; i++) {
        try (SocketChannel end = SocketChannel.open(server.getLocalAddress());
            SocketChannel other = server.accept()) {
          // Its thread is not started, so what is queued stays.
          ControlChannel channel =
              new ControlChannel(new FramedChannel(end, new byte[32], new byte[32]), SPEC);
          GroupAgent agent = new GroupAgent(0);
          MemberFailures failures = new MemberFailures(SPEC, 0, agent, channel, () -> {});
          CompletableFuture<Boolean> watching = new CompletableFuture<>();
          CompletableFuture<Boolean> queued =
              CompletableFuture.supplyAsync(
                  () -> {
                    watching.complete(true);
                    while (!agent.state().hasFailed()) {
                      Thread.onSpinWait();
                    }
                    return channel.hasQueued();
                  });
          watching.get(10, TimeUnit.SECONDS);
          failures.fail(FAILURE, true);
          tooLate += queued.get(10, TimeUnit.SECONDS) ? 0 : 1;
          assertThat(channel.hasQueued()).isTrue();
          assertThat(other.isOpen()).isTrue();
        }
      }
    }
    assertThat(tooLate).isZero();
  }
}
