package io.nvrar.it.soak.worker;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** That a cut breaks this connection and no other. */
class LinkCutTest {
  private static final int READ_MILLIS = 10_000;

  private ServerSocket listening;
  private Socket here;
  private Socket there;

  @BeforeEach
  void connect() throws IOException {
    listening = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    here = new Socket(listening.getInetAddress(), listening.getLocalPort());
    there = listening.accept();
    there.setSoTimeout(READ_MILLIS);
  }

  @AfterEach
  void close() throws IOException {
    here.close();
    there.close();
    listening.close();
  }

  private String link() {
    return String.format(
        Locale.ROOT, "127.0.0.1:%d to 127.0.0.1:%d, open", here.getLocalPort(), here.getPort());
  }

  @ParameterizedTest
  @EnumSource
  void theOtherEndNoticesEveryWayOfCutting(SocketBreaker.Way way) throws IOException {
    LinkCut cut = LinkCut.of(link(), List.of(SocketBreaker.Way.values()).indexOf(way));
    here.getOutputStream().write(1);
    assertThat(there.getInputStream().read()).isEqualTo(1);
    assertThat(cut.cut()).isTrue();
    if (way == SocketBreaker.Way.RESET) {
      assertThatThrownBy(() -> there.getInputStream().read()).isInstanceOf(SocketException.class);
    } else {
      assertThat(there.getInputStream().read()).isNegative();
    }
  }

  @Test
  void nothingIsCutInPlaceOfALinkThatHasClosed() throws IOException {
    LinkCut cut = LinkCut.of(link(), 0);
    int before = Descriptors.of(java.nio.file.Path.of("/proc/self")).size();
    here.close();
    try (Socket another = new Socket(listening.getInetAddress(), listening.getLocalPort());
        Socket accepted = listening.accept()) {
      assertThat(cut.cut()).isFalse();
      another.getOutputStream().write(1);
      assertThat(accepted.getInputStream().read()).isEqualTo(1);
    }
    assertThat(Descriptors.of(java.nio.file.Path.of("/proc/self"))).hasSizeLessThan(before);
  }

  @Test
  void aLinkOfAnotherProcessOrOneThatIsNotOpenIsRefused() {
    assertThatThrownBy(() -> LinkCut.of("127.0.0.1:1 to 127.0.0.1:2, open", 0))
        .hasMessage("no socket of this process: 127.0.0.1:1 to 127.0.0.1:2, open");
    assertThatThrownBy(() -> LinkCut.of(link().replace("open", "closed"), 0))
        .hasMessageStartingWith("no open link: ");
    assertThatThrownBy(() -> LinkCut.of("null", 0)).hasMessage("no open link: null");
  }
}
