package io.nvrar.internal.binding;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Calls as the native library reads them from memory that other ranks may write. */
class CallRecordTest {
  private static final int STATE_OFFSET = 4;

  @ParameterizedTest
  @ValueSource(ints = {5, 6, 7, -1})
  void aStateThatThereIsNotIsAsIfNoCallWasMade(int state) {
    byte[] call = NativeStructs.empty(NativeStructs.CALL_BYTES);
    ByteBuffer.wrap(call).order(ByteOrder.nativeOrder()).putInt(STATE_OFFSET, state);
    assertThat(NativeStructs.call(call)).isSameAs(CallRecord.NONE);
  }
}
