package io.nvrar.internal.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.standalone.Groups;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

class MessageTest {
  private static final String LONGEST = "\u20ac".repeat(255); // three bytes each

  @Test
  void theIntroductionOfAllMembersFitsIntoAFrameWhateverTheySaidOfThemselves() {
    ProcessIdentity process = new ProcessIdentity(LONGEST, Long.MIN_VALUE, LONGEST);
    Message.Descriptor descriptor = new Message.Descriptor(new byte[Message.MAX_DESCRIPTOR_BYTES]);
    Message.MemberInfo[] all = new Message.MemberInfo[Groups.MAX_WORLD_SIZE];
    Arrays.fill(all, new Message.MemberInfo(process, descriptor.bytes()));
    assertThat(new Wire().write(new Message.Members(all))).hasSizeLessThan(Wire.MAX_BYTES);
  }

  @Test
  void aMemberCannotMakeTheIntroductionTooLong() {
    assertThatThrownBy(() -> new Message.Descriptor(new byte[Message.MAX_DESCRIPTOR_BYTES + 1]))
        .hasMessage("a descriptor of 1025 bytes, the limit is 1024");
    assertThatThrownBy(() -> new ProcessIdentity(LONGEST + "x", 1, ""))
        .hasMessage("a host name of 256 and a machine of 0 characters, the limit is 255");
  }
}
