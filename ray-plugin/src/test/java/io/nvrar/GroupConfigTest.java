package io.nvrar;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

class GroupConfigTest {
  private static final TuningTable TABLE =
      TuningTable.of(
          List.of(new TuningTable.Rule(DataType.FLOAT32, 4, 2, 4096, Algorithm.ONE_SHOT)));

  /** Each sets one option to something that is not its default. */
  private static final List<Consumer<GroupConfig.Builder>> CHANGES =
      List.of(
          builder -> builder.backend(Backend.CPU),
          builder -> builder.timeout(Duration.ofMillis(1)),
          builder -> builder.joinTimeout(Duration.ofDays(1)),
          builder -> builder.heartbeatLimit(Duration.ofSeconds(3)),
          builder -> builder.ringBytes(8192),
          builder -> builder.rendezvousPort(65535),
          builder -> builder.gpusPerNode(72),
          builder -> builder.tuning(TABLE),
          builder -> builder.cuda(cuda -> cuda.memory(MemoryProvider.IPC)),
          builder -> builder.cuda(cuda -> cuda.concurrentGroups(3)),
          builder -> builder.cuda(cuda -> cuda.arenaBytes(1L << 40)),
          builder -> builder.cuda(cuda -> cuda.exclusive(true)),
          builder -> builder.cuda(cuda -> cuda.programmaticLaunch(true)),
          builder -> builder.links(links -> links.ports(7000, 7007)),
          builder -> builder.links(links -> links.networkInterface("10.1.0.0/16")),
          builder -> builder.links(links -> links.security(LinkSecurity.ENCRYPTED)),
          builder -> builder.links(links -> links.threads(4)),
          builder -> builder.links(links -> links.spin(Duration.ofNanos(1000))));

  @Test
  void whatDiffersInOneOptionIsAnotherConfigurationAndSaysSo() {
    // The members compare what toString says.
    for (Consumer<GroupConfig.Builder> change : CHANGES) {
      GroupConfig.Builder builder = GroupConfig.builder();
      change.accept(builder);
      GroupConfig changed = builder.build();
      assertThat(changed).isNotEqualTo(GroupConfig.defaults());
      assertThat(changed.toString()).isNotEqualTo(GroupConfig.defaults().toString());
    }
  }

  @Test
  void aBuilderThatStartsFromAConfigurationKeepsEveryOption() {
    GroupConfig.Builder builder = GroupConfig.builder();
    CHANGES.forEach(change -> change.accept(builder));
    GroupConfig all = builder.build();
    GroupConfig copy = all.toBuilder().build();
    assertThat(copy).isEqualTo(all).hasSameHashCodeAs(all).hasToString(all.toString());
  }

  @Test
  void aPartKeepsTheOptionsThatAChangeOfItDoesNotSet() {
    GroupConfig config =
        GroupConfig.builder()
            .cuda(cuda -> cuda.exclusive(true))
            .links(links -> links.threads(4))
            .cuda(cuda -> cuda.concurrentGroups(3))
            .links(links -> links.ports(7000, 7007))
            .build();
    assertThat(config.cuda().exclusive()).isTrue();
    assertThat(config.cuda().concurrentGroups()).isEqualTo(3);
    assertThat(config.links().threads()).isEqualTo(4);
    assertThat(config.links().firstPort()).isEqualTo(7000);
    assertThat(config.links().lastPort()).isEqualTo(7007);
  }

  @Test
  void aBuilderThatIsKeptChangesNoConfiguration() {
    List<GroupConfig.Cuda.Builder> kept = new ArrayList<>();
    GroupConfig.Builder builder = GroupConfig.builder().cuda(kept::add);
    kept.get(0).exclusive(true);
    assertThat(builder.build()).isEqualTo(GroupConfig.defaults());
  }

  @Test
  void partsWithTheSameOptionsAreEqual() {
    GroupConfig.Builder builder = GroupConfig.builder();
    CHANGES.forEach(change -> change.accept(builder));
    GroupConfig one = builder.build();
    GroupConfig other = GroupConfig.defaults();
    GroupConfig copy =
        one.toBuilder()
            .cuda(cuda -> cuda.exclusive(false).exclusive(true))
            .links(links -> links.threads(1).threads(4))
            .build();
    assertThat(copy.cuda())
        .isEqualTo(one.cuda())
        .hasSameHashCodeAs(one.cuda())
        .hasToString(
            "Cuda[memory=IPC, concurrentGroups=3, arenaBytes=1099511627776, exclusive=true, programmaticLaunch=true]")
        .isNotEqualTo(other.cuda());
    assertThat(copy.links())
        .isEqualTo(one.links())
        .hasSameHashCodeAs(one.links())
        .hasToString(
            "Links[ports=7000-7007, networkInterface=10.1.0.0/16, security=ENCRYPTED, threads=4, spin=PT0.000001S]")
        .isNotEqualTo(other.links());
  }

  @Test
  void tablesOfDifferentRulesAreToldApartInEveryProcessAlike() {
    TuningTable other =
        TuningTable.of(
            List.of(new TuningTable.Rule(DataType.FLOAT32, 4, 2, 4096, Algorithm.TWO_SHOT)));
    assertThat(TABLE.toString()).isNotEqualTo(other.toString());
    // Of names and numbers only: identity hashes, which differ between processes, have no part.
    assertThat(TABLE).hasToString("1 rules #" + digest());
    assertThat(TuningTable.of(List.of())).isSameAs(TuningTable.none()).hasToString("none");
  }

  private static String digest() {
    String rules =
        "[Rule[dataType=FLOAT32, worldSize=4, gpusPerNode=2, bytesMax=4096, algorithm=ONE_SHOT,"
            + " collective=ALL_REDUCE, architecture=,"
            + " shape=LaunchShape[blocks=0, threads=0, tiles=0]]]";
    return String.format(Locale.ROOT, "%08x", rules.hashCode());
  }

  @Test
  void whatIsOutOfRangeNamesTheRange() {
    refused(builder -> builder.timeout(Duration.ZERO), "timeout is PT0S, must be 1 ms to 1 day");
    refused(
        builder -> builder.ringBytes(4096),
        "ringBytes is 4096, must be 0 or a multiple of 4096 from 8192 to 1073741824");
    refused(builder -> builder.rendezvousPort(-1), "rendezvousPort is -1, must be 0 to 65535");
    refused(builder -> builder.gpusPerNode(-1), "gpusPerNode is -1, must be 0 to 72");
    refused(builder -> builder.gpusPerNode(73), "gpusPerNode is 73, must be 0 to 72");
    refused(
        builder -> builder.cuda(cuda -> cuda.concurrentGroups(0)),
        "cuda.concurrentGroups is 0, must be 1 to 64");
    refused(
        builder -> builder.cuda(cuda -> cuda.concurrentGroups(65)),
        "cuda.concurrentGroups is 65, must be 1 to 64");
    refused(
        builder -> builder.cuda(cuda -> cuda.arenaBytes(-1)),
        "cuda.arenaBytes is -1, must be 0 to 1099511627776");
    for (int threads : new int[] {0, 3, 8}) {
      refused(
          builder -> builder.links(links -> links.threads(threads)),
          "links.threads is " + threads + ", must be 1, 2 or 4");
    }
    refused(
        builder -> builder.links(links -> links.spin(Duration.ofNanos(999))),
        "links.spin is PT0.000000999S, must be 1 us to 1 day");
    refused(
        builder -> builder.links(links -> links.spin(Duration.ofDays(2))),
        "links.spin is PT48H, must be 1 us to 1 day");
    int[][] noPorts = {{0, 1}, {1, 0}, {-1, 5}, {9, 8}, {1, 65536}};
    for (int[] ports : noPorts) {
      refused(
          builder -> builder.links(links -> links.ports(ports[0], ports[1])),
          String.format(
              Locale.ROOT,
              "links.ports are %d to %d, must be a range in 1 to 65535, or both 0",
              ports[0],
              ports[1]));
    }
  }

  @Test
  void aLinkInterfaceIsANameOrARangeOfAddresses() {
    for (String one :
        List.of(
            "",
            "eth0",
            "eth0.100",
            "10.1.0.0/16",
            "fd00::/8",
            "0.0.0.0/0",
            "10.1.0.7",
            "fd00::7",
            "1.2.3")) {
      GroupConfig config =
          GroupConfig.builder().links(links -> links.networkInterface(one)).build();
      assertThat(config.links().networkInterface()).isEqualTo(one);
    }
    for (String one :
        List.of(
            "an interface's name",
            "eth0 ",
            "10.1/16",
            "10.1.0.0/33",
            "fd00::/129",
            "a/8",
            "/",
            "256.1.0.7",
            "::ffff:10.1.0.0/16",
            "::ffff:10.1.0.7",
            "eth0:1")) {
      refused(
          builder -> builder.links(links -> links.networkInterface(one)),
          String.format(
              Locale.ROOT,
              "links.networkInterface is '%s', must be the name of a network interface, such as eth0, an address, or a range of addresses, such as 10.1.0.0/16",
              one));
    }
  }

  private static void refused(Consumer<GroupConfig.Builder> change, String sentence) {
    assertThatThrownBy(() -> change.accept(GroupConfig.builder()))
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessage(sentence);
  }
}
