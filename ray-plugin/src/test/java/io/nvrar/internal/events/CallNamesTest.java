package io.nvrar.internal.events;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.Algorithm;
import io.nvrar.Collective;
import io.nvrar.DataType;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class CallNamesTest {
  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "AUTO")
  void anAllReduceHasTheNameOfItsTypeAndAlgorithm(Algorithm algorithm) {
    String word = algorithm.name().toLowerCase(Locale.ROOT).replace('_', '-');
    assertThat(CallNames.of(Collective.ALL_REDUCE, DataType.BFLOAT16.code(), algorithm.code()))
        .isEqualTo("allReduce bfloat16 " + word)
        .isSameAs(CallNames.of(Collective.ALL_REDUCE, DataType.BFLOAT16.code(), algorithm.code()));
  }

  @Test
  void aBarrierHasNoType() {
    assertThat(CallNames.of(Collective.BARRIER, -1, Algorithm.AUTO.code())).isEqualTo("barrier");
  }

  /** It is read from memory that other members may write; an exception would hold up a close. */
  @ParameterizedTest
  @ValueSource(ints = {-1, 4, Integer.MAX_VALUE, Integer.MIN_VALUE})
  void anAlgorithmThatThereIsNotIsLeftOut(int algorithm) {
    assertThat(CallNames.of(Collective.ALL_REDUCE, DataType.INT8.code(), algorithm))
        .isEqualTo("allReduce int8");
  }
}
