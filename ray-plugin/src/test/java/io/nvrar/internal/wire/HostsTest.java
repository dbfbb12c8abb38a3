package io.nvrar.internal.wire;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.BitSet;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class HostsTest {

  /** A member for each letter, on the host of that name. */
  private static Hosts hosts(String letters) {
    return of(
        letters
            .chars()
            .mapToObj(c -> new ProcessIdentity("" + (char) c, c, "boot of " + (char) c))
            .toArray(ProcessIdentity[]::new));
  }

  private static Hosts of(ProcessIdentity... processes) {
    return Hosts.of(
        new Message.Members(
            Arrays.stream(processes)
                .map(process -> new Message.MemberInfo(process, new byte[0]))
                .toArray(Message.MemberInfo[]::new)));
  }

  @Test
  void ranksOfAHostAreTogetherOrCanBePutSo() {
    for (String together : new String[] {"A", "AAA", "AB", "AABB", "BBACC"}) {
      assertThat(hosts(together).areTogether()).as(together).isTrue();
    }
    assertThat(hosts("ABAB").areTogether()).isFalse();
    assertThat(hosts("ABAB").together()).containsExactly(0, 2, 1, 3);
    assertThat(hosts("BCAACB").together()).containsExactly(0, 5, 1, 4, 2, 3);
  }

  @Test
  void whatIsTogetherKeepsTheOrderThatItHas() {
    assertThat(hosts("AABB").together(3, 2, 1, 0)).containsExactly(3, 2, 1, 0);
    assertThat(hosts("AABB").together(2, 0, 3)).containsExactly(2, 3, 0);
    assertThat(hosts("AABB").together(1)).containsExactly(1);
  }

  @Test
  void oneHostIsNotSeveral() {
    assertThat(hosts("AAA").areSeveral()).isFalse();
    assertThat(hosts("AAA").elsewhere(1)).isEqualTo(new BitSet());
    assertThat(hosts("AAB").areSeveral()).isTrue();
    assertThat(hosts("AAB").elsewhere(1)).isEqualTo(BitSet.valueOf(new long[] {0b100}));
    assertThat(hosts("AAB").elsewhere(2)).isEqualTo(BitSet.valueOf(new long[] {0b011}));
  }

  @Test
  void hostsAreNamedAndToldApartIfTheirNamesDoNot() {
    assertThat(hosts("AABB").names()).isEqualTo("A and B");
    assertThat(hosts("AABB")).hasToString("ranks 0, 1 on A, ranks 2, 3 on B");
    assertThat(of(new ProcessIdentity("A", 1, "x 1"), new ProcessIdentity("A", 1, "x 2")))
        .hasToString("rank 0 on A (machine x 1), rank 1 on A (machine x 2)");
  }

  @Test
  void processesOfOneMachineAreOnOneHostWhateverItsNames() {
    assertThat(of(new ProcessIdentity("A", 1, "x 1"), new ProcessIdentity("B", 2, "x 1")))
        .hasToString("ranks 0, 1 on A");
    assertThat(of(new ProcessIdentity("A", 1, "x"), new ProcessIdentity("A", 2, "")).areSeveral())
        .isTrue();
  }

  @Test
  void thisProcessIsOnItsOwnHost() throws IOException {
    ProcessIdentity here = ProcessIdentity.ofMember();
    assertThat(here.sameHost(ProcessIdentity.ofMember())).isTrue();
    assertThat(here.machine())
        .isEqualTo(
            Files.readString(Path.of("/proc/sys/kernel/random/boot_id")).strip()
                + " "
                + Files.readSymbolicLink(Path.of("/proc/self/ns/pid"))
                + " "
                + Files.readSymbolicLink(Path.of("/proc/self/ns/user")));
  }

  @Test
  void ofManyHostsSomeAreNamedAndTheOthersCounted() {
    Hosts many =
        of(
            IntStream.range(0, 64)
                .mapToObj(i -> new ProcessIdentity("node" + i, i, "boot of " + i))
                .toArray(ProcessIdentity[]::new));
    assertThat(many.names()).startsWith("node0 and node1 and ").endsWith(" and node7 and 56 more");
    assertThat(many.toString())
        .startsWith("rank 0 on node0, ")
        .endsWith(", rank 7 on node7 and others on 56 more hosts");
  }
}
