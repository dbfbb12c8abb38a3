package io.nvrar.internal.wire;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.GroupConfig;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;

/**
 * What follows from a secret, by HMAC-SHA256 as Python computes it: members of other builds derive
 * the same, and no purpose has the key of another one.
 */
class GroupKeysTest {
  private static final byte[] UNIQUE_ID = counted(128);
  private static final GroupSpec SPEC =
      new GroupSpec("tp", 2, UNIQUE_ID, "10.0.0.1", 4711, GroupConfig.defaults());

  private final GroupKeys keys = new GroupKeys(counted(GroupKeys.SECRET_BYTES));

  private static byte[] counted(int bytes) {
    byte[] counted = new byte[bytes];
    for (int i = 0; i < bytes; i++) {
      counted[i] = (byte) i;
    }
    return counted;
  }

  private static String hex(byte[] bytes) {
    return HexFormat.of().formatHex(bytes);
  }

  @Test
  void theIdIsPartOfAMac() {
    assertThat(hex(keys.id())).isEqualTo("011b6d7f0f9b4407e82d5ed93a358204");
  }

  @Test
  void linksHaveASecretOfTheirOwn() {
    assertThat(hex(keys.ofLinks(SPEC)))
        .isEqualTo("a36febf38b3cbd05444f10524745501d55705f99304c54d78aea370ff1dff957");
  }

  @Test
  void aGroupThatIsSplitFromThisOneHasASecretOfItsOwn() {
    assertThat(hex(keys.ofChild("tp/0", UNIQUE_ID).secret()))
        .isEqualTo("fe5e21314a78159575056027cca729ac1bccae75ddda510af0907627a35f6bfe");
  }

  @Test
  void theTextHasNothingOfTheSecret() {
    assertThat(keys).hasToString("GroupKeys[...]");
  }
}
