package io.nvrar.internal;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class CpuListTest {

  @ParameterizedTest
  @CsvSource({
    "'0-3,8,10-11\n', '0-3,8,10-11', 7",
    "0, 0, 1",
    "65535, 65535, 1",
    "'3,1-2,2,0', 0-3, 4",
    "7-7, 7, 1",
    "'\n', '', 0"
  })
  void aListIsReadAndWrittenAsLinuxWritesIt(String text, String written, int size) {
    CpuList list = CpuList.parse(text);
    assertThat(list).hasToString(written);
    assertThat(list.size()).isEqualTo(size);
    assertThat(list.isEmpty()).isEqualTo(size == 0);
    assertThat(CpuList.parse(written)).isEqualTo(list).hasSameHashCodeAs(list);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "x",
        "-1",
        "3-1",
        "0-",
        "0,,1",
        "0,",
        "0 1",
        "0-7:2/4",
        "65536",
        "0-99999",
        "4294967296",
        "٣"
      })
  void whatIsNoListIsRefusedInOneSentence(String text) {
    assertThatThrownBy(() -> CpuList.parse(text))
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "a list of cores is '%s', must be numbers below 65536 and ascending ranges of them, such as 0-3,8",
            text);
  }

  @Test
  void aWrongTextIsShownInPartAndWithoutControlCharacters() {
    assertThatThrownBy(() -> CpuList.parse("1\u001b[2J" + "9".repeat(1000)))
        .hasMessageStartingWith("a list of cores is '1?[2J999")
        .hasMessageContaining("999...', must be");
  }

  @Test
  void maskHasABitForEachCore() {
    CpuList list = CpuList.parse("0,9-10,64");
    assertThat(list.toMask()).containsExactly(1, 6, 0, 0, 0, 0, 0, 0, 1);
    assertThat(CpuList.ofMask(new byte[] {1, 6, 0, 0, 0, 0, 0, 0, 1, 0})).isEqualTo(list);
  }

  @Test
  void coresOfBothAreThoseThatAreInEach() {
    CpuList list = CpuList.parse("0-3,8");
    assertThat(list.and(CpuList.parse("2-8"))).hasToString("2-3,8");
    assertThat(list.and(CpuList.parse("4-7")).isEmpty()).isTrue();
    assertThat(list).hasToString("0-3,8");
  }
}
