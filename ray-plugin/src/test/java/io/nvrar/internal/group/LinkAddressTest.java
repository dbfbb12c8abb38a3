package io.nvrar.internal.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class LinkAddressTest {
  private static final List<LinkAddress.Own> ADDRESSES =
      List.of(
          own("lo", "127.0.0.1"),
          own("lo", "::1"),
          own("eth0", "fe80::1"),
          own("eth0", "fd00:1::7"),
          own("eth0", "10.1.0.7"),
          own("ib0", "10.2.0.7"),
          own("ib0", "10.2.0.8"),
          own("tap0", "fe80::2"),
          own("usb0", "169.254.3.7"));

  private static LinkAddress.Own own(String nic, String address) {
    try {
      return new LinkAddress.Own(nic, InetAddress.getByName(address));
    } catch (UnknownHostException e) {
      throw new IllegalArgumentException(e);
    }
  }

  @ParameterizedTest
  @CsvSource({
    "eth0, 10.1.0.7, 10.1.0.7",
    "eth0, fd00:1::7, fd00:1:0:0:0:0:0:7",
    "ib0, 10.1.0.7, 10.2.0.7",
    "ib0, fd00:1::7, 10.2.0.7",
    "10.2.0.8/31, 10.1.0.7, 10.2.0.8",
    "10.0.0.0/8, 10.1.0.7, 10.1.0.7",
    "10.2.0.8, 10.1.0.7, 10.2.0.8",
    "fd00:1::7, 10.1.0.7, fd00:1:0:0:0:0:0:7",
    "fd00::/8, 10.1.0.7, fd00:1:0:0:0:0:0:7",
    "127.0.0.0/8, 10.1.0.7, 127.0.0.1",
    "usb0, 10.1.0.7, 169.254.3.7",
    "169.254.0.0/16, 10.1.0.7, 169.254.3.7"
  })
  void theFirstAddressThatIsWantedIsTakenOfTheRendezvousesFamilyIfThereIsOne(
      String wanted, String automatic, String chosen) {
    assertThat(LinkAddress.choose(wanted, automatic, ADDRESSES).text()).isEqualTo(chosen);
  }

  @ParameterizedTest
  @CsvSource({"eth9", "eth", "tap0", "10.3.0.0/16", "fe80::/10"})
  void whoHasNoneSaysWhatThereIs(String wanted) {
    assertThatThrownBy(() -> LinkAddress.choose(wanted, "10.1.0.7", ADDRESSES))
        .isExactlyInstanceOf(CollectiveException.class)
        .hasMessage(
            String.format(
                Locale.ROOT,
                "links.networkInterface is '%s', but this host has no such address; it has lo 127.0.0.1, lo 0:0:0:0:0:0:0:1, eth0 fe80:0:0:0:0:0:0:1, eth0 fd00:1:0:0:0:0:0:7, eth0 10.1.0.7, ib0 10.2.0.7, ib0 10.2.0.8, tap0 fe80:0:0:0:0:0:0:2, usb0 169.254.3.7",
                wanted));
  }

  /** It keeps its addresses. */
  @Test
  void anInterfaceThatIsDownIsNotTaken() throws UnknownHostException {
    LinkAddress.Own down = new LinkAddress.Own("eth1", InetAddress.getByName("10.1.0.6"), false);
    LinkAddress.Own up = own("eth0", "10.1.0.7");
    assertThat(LinkAddress.choose("10.0.0.0/8", "10.1.0.7", List.of(down, up))).isEqualTo(up);
    assertThatThrownBy(() -> LinkAddress.choose("eth1", "10.1.0.7", List.of(down, up)))
        .hasMessage(
            "links.networkInterface is 'eth1', but this host has no such address; it has eth1 10.1.0.6 (down), eth0 10.1.0.7");
  }

  @Test
  void withoutAWishItIsTheAddressThatReachedTheRendezvous() {
    assertThat(LinkAddress.of("", "10.1.0.7")).isEqualTo("10.1.0.7");
    assertThat(LinkAddress.of("", "169.254.3.7")).isEqualTo("169.254.3.7");
    assertThat(LinkAddress.of("", "fd00:1:0:0:0:0:0:7%eth0")).isEqualTo("fd00:1:0:0:0:0:0:7");
  }

  @Test
  void whereThatLeadsNowhereWithoutAZoneThereIsNone() {
    assertThat(LinkAddress.of("", "fe80:0:0:0:0:0:0:1%eth0")).isEmpty();
  }

  @Test
  void thisHostHasALoopback() {
    assertThat(LinkAddress.of("127.0.0.0/8", "10.1.0.7")).startsWith("127.");
  }
}
