package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.nvrar.CapturedLog;
import io.nvrar.CollectiveException;
import io.nvrar.GroupConfig;
import io.nvrar.internal.group.LinkAddress;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.internal.wire.ProcessIdentity;
import io.nvrar.support.ChildJvm;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The address of a ticket that leads nowhere, or elsewhere than its maker thinks. */
@Tag("host")
class TicketAddressTest {
  /** Longer than a test waits for what has to be said at once. */
  private static final Duration LONG = Duration.ofMinutes(5);

  /** One port, which the test's own socket has. */
  private static final String NO_FREE_PORT =
      "ip link set lo up && echo 50000 50000 > /proc/sys/net/ipv4/ip_local_port_range";

  @RegisterExtension final CapturedLog log = new CapturedLog();
  @TempDir private Path scratch;
  private final Forks forks = new Forks();

  @AfterEach
  void nothingStaysBehind() {
    forks.close();
  }

  private static GroupTicket ticket(String host) {
    return Groups.createTicket("far", 2, Members.config().joinTimeout(LONG).build(), host);
  }

  /**
   * What another host reads: the same ticket, with this address of a rendezvous that is not there.
   */
  private static GroupTicket endedTicket(String host) {
    GroupTicket given = ticket(Members.HOST);
    OpenTicket made = OpenTicket.of(given);
    Groups.discardTicket(given);
    return new OpenTicket(
            made.name(),
            made.worldSize(),
            made.uniqueId(),
            host,
            made.port(),
            made.secret(),
            made.config())
        .toGroupTicket();
  }

  private static String leadsHere(String address) {
    return address
        + ", so it leads to "
        + ProcessIdentity.current().host()
        + " itself: if rank 0 is on another host, its ticket has to be made with an address that leads there from all hosts";
  }

  @Test
  void aLoopbackAddressWhereNothingAnswersIsCalledOne() {
    GroupTicket ticket = endedTicket("127.0.0.1");
    assertThatThrownBy(() -> Members.join(ticket, 1))
        .isExactlyInstanceOf(CollectiveException.class)
        .hasMessageStartingWith(
            String.format(
                Locale.ROOT,
                "group 'far' has no rendezvous at 127.0.0.1:%d any more (",
                OpenTicket.of(ticket).port()))
        .hasMessageEndingWith(
            "the ticket expired or was discarded, or the group has ended; "
                + leadsHere("127.0.0.1 is a loopback address"));
  }

  @Test
  void anAddressOfTheMembersOwnHostIsCalledOne() {
    List<LinkAddress.Own> all = LinkAddress.all();
    assumeTrue(!all.isEmpty(), "this machine has no address but loopback");
    String address = all.get(0).address().getHostAddress();
    GroupTicket ticket = endedTicket(address);
    assertThatThrownBy(() -> Members.join(ticket, 1))
        .isExactlyInstanceOf(CollectiveException.class)
        .hasMessageEndingWith(
            leadsHere(
                String.format(
                    Locale.ROOT, "%s is an address of this host (%s)", address, all.get(0).nic())));
  }

  @Test
  void aNameIsShownWithTheAddressThatItHasOnTheMembersHost() throws Exception {
    Path hosts = Files.writeString(scratch.resolve("hosts"), "127.0.1.1 rank-zero-host\n");
    GroupTicket ticket = endedTicket("rank-zero-host");
    ForkedMember one =
        forks.add(ForkedMember.join(ticket, 1, "once", "-Djdk.net.hosts.file=" + hosts));
    assertThat(one.expect("FAILED"))
        .contains(
            String.format(
                Locale.ROOT,
                " has no rendezvous at rank-zero-host:%d (127.0.1.1 here) any more (",
                OpenTicket.of(ticket).port()))
        .endsWith(leadsHere("127.0.1.1 is a loopback address"));
  }

  @Test
  void aNameThatTheMemberCannotResolveIsSaidWithTheMember() throws Exception {
    Path hosts = Files.writeString(scratch.resolve("hosts"), "127.0.1.1 other\n");
    GroupTicket ticket = endedTicket("rank-zero-host");
    ForkedMember one =
        forks.add(ForkedMember.join(ticket, 1, "once", "-Djdk.net.hosts.file=" + hosts));
    assertThat(one.expect("FAILED"))
        .endsWith(
            String.format(
                Locale.ROOT,
                "the rendezvous host rank-zero-host of group 'far' cannot be resolved by rank 1 (pid %d on host %s)",
                one.pid(),
                ProcessIdentity.current().host()));
  }

  @ParameterizedTest
  @ValueSource(strings = {"fe80::1", "fe80::1%1"})
  void aLinkLocalAddressOfIpv6IsRefused(String host) {
    assertThatThrownBy(() -> ticket(host))
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith(
            "the rendezvous host " + host + " is a link-local IPv6 address (fe80:0:0:0:0:0:0:1")
        .hasMessageEndingWith("other hosts cannot use it, because its scope differs between hosts");
  }

  @ParameterizedTest
  @CsvSource({
    "2, 10.1.0.0/16, 'links.networkInterface is set'",
    "9, '', 'its 9 members need several hosts'",
  })
  void aRendezvousOnLoopbackIsWarnedOfWhereSeveralHostsAreMeant(
      int worldSize, String networkInterface, String sign) {
    GroupConfig config =
        Members.config().links(links -> links.networkInterface(networkInterface)).build();
    GroupTicket ticket = Groups.createTicket("far", worldSize, config, Members.HOST);
    Groups.discardTicket(ticket);
    assertThat(log.text())
        .contains(
            "WARN",
            String.format(
                Locale.ROOT,
                "The rendezvous of group 'far' is on 127.0.0.1:%d, a loopback address, which members on other hosts cannot reach; %s",
                OpenTicket.of(ticket).port(),
                sign));
  }

  @Test
  void aRendezvousOnLoopbackForOneHostIsNotWarnedOf() {
    Groups.discardTicket(ticket(Members.HOST));
    GroupConfig nodes = Members.config().gpusPerNode(8).build();
    Groups.discardTicket(Groups.createTicket("near", 9, nodes, Members.HOST));
    assertThat(log.text()).doesNotContain("WARN");
  }

  @Test
  void aHostsNameThatIsLoopbackIsWarnedOf() throws Exception {
    Path hosts = Files.writeString(scratch.resolve("hosts"), "127.0.1.1 own-name\n");
    try (ChildJvm maker = maker(List.of(), "own-name", "-Djdk.net.hosts.file=" + hosts)) {
      assertThat(maker.end(0))
          .contains(
              "The rendezvous of group 'made' is on own-name:",
              " (127.0.1.1), a loopback address, which members on other hosts cannot reach",
              "MADE");
    }
  }

  private static final String IPV4_ONLY = "-Djava.net.preferIPv4Stack=true";

  @Test
  void aMemberWithoutIpv6IsToldSoAtOnce() throws Exception {
    GroupTicket ticket = ticket("::1");
    ForkedMember one = forks.add(ForkedMember.join(ticket, 1, "once", IPV4_ONLY));
    assertThat(one.expect("FAILED"))
        .endsWith(
            String.format(
                Locale.ROOT,
                "the rendezvous of group 'far' at [::1]:%d cannot be reached by rank 1 (pid %d on host %s): 0:0:0:0:0:0:0:1 is an IPv6 address, and this JVM runs with %s",
                OpenTicket.of(ticket).port(),
                one.pid(),
                ProcessIdentity.current().host(),
                IPV4_ONLY));
    Groups.discardTicket(ticket);
  }

  @Test
  void aRendezvousWithoutIpv6IsRefused() throws Exception {
    try (ChildJvm maker = maker(List.of(), "::1", IPV4_ONLY)) {
      assertThat(maker.end(0))
          .contains(
              "FAILED io.nvrar.CollectiveException: the rendezvous cannot be opened on ::1 port 0: 0:0:0:0:0:0:0:1 is an IPv6 address, and this JVM runs with "
                  + IPV4_ONLY);
    }
  }

  @Test
  void whereNoPortIsFreeThatIsSaid() throws Exception {
    List<String> there = OtherHost.command(List.of("-n"), NO_FREE_PORT);
    try (ChildJvm maker = maker(there, Members.HOST)) {
      assertThat(maker.end(0))
          .contains(
              "FAILED io.nvrar.CollectiveException: the rendezvous cannot be opened on 127.0.0.1: none of the ports 50000 to 50000 (net.ipv4.ip_local_port_range) is free; rendezvousPort may name one outside that range");
    }
  }

  @Test
  void whereNoPortIsFreeForAConnectionThatIsSaid() throws Exception {
    List<String> there = OtherHost.command(List.of("-n"), NO_FREE_PORT);
    try (ChildJvm maker = maker(there, "7000")) {
      assertThat(maker.end(0))
          .contains(
              "FAILED io.nvrar.CollectiveTimeoutException: the rendezvous of group 'made' at 127.0.0.1:7000 could not be reached by rank 0 within 3 s, from pid ",
              "; connections from here use the ports 50000 to 50000 (net.ipv4.ip_local_port_range)");
    }
  }

  private static ChildJvm maker(List<String> under, String host, String... options)
      throws Exception {
    return ChildJvm.of(Maker.class.getName(), host)
        .under(under)
        .options("-XX:TieredStopAtLevel=1", "-Xmx64m", "-Dkryo.unsafe=false")
        .options("-Dnvrar.flight.dir=" + System.getProperty("nvrar.flight.dir"))
        .options(options)
        .start();
  }

  /**
   * Makes a ticket at a host while it has the first of the ports that anybody may have, or with a
   * port in place of the host joins its group by a connection that needs one.
   */
  static final class Maker {
    private Maker() {}

    public static void main(String[] args) throws Exception {
      GroupConfig.Builder config = Members.config().joinTimeout(Duration.ofSeconds(1));
      try (ServerSocket taken = new ServerSocket(50_000)) {
        assertThat(taken.isBound()).isTrue();
        if (args[0].matches("\\d+")) {
          config.rendezvousPort(Integer.parseInt(args[0]));
          GroupTicket ticket = Groups.createTicket("made", 1, config.build(), Members.HOST);
          Members.join(ticket, 0).close();
        } else {
          Groups.createTicket("made", 1, config.build(), args[0]);
        }
        System.out.println("MADE");
      } catch (RuntimeException e) {
        System.out.println("FAILED " + e);
      }
    }
  }
}
