package io.nvrar.internal.binding;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.jna.Pointer;
import io.nvrar.Backend;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodType;
import java.util.Objects;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledForJreRange;

class NativeCallsTest {
  private static final int FIRST_JAVA = 22;

  @BeforeAll
  static void load() {
    NativeCommunicator.ensureAvailable(Backend.CPU);
  }

  @Test
  void callsGoByJavaLangForeignIfTheJvmHasIt() {
    assertThat(NativeCalls.areForeign()).isEqualTo(Runtime.version().feature() >= FIRST_JAVA);
  }

  @Test
  @EnabledForJreRange(minVersion = FIRST_JAVA)
  void aForeignFunctionReturnsWhatTheSameOneReturnsByJna() throws Throwable {
    ForeignLinker linker = Objects.requireNonNull(ForeignLinker.find());
    MethodHandle buildId =
        linker.handle(
            Pointer.nativeValue(NativeLibraries.function("nvrar_build_id")),
            MethodType.methodType(long.class));

    assertThat((long) buildId.invokeExact()).isEqualTo(NvrarBinding.nvrar_build_id());
    assertThatThrownBy(() -> linker.handle(1, MethodType.methodType(float.class)))
        .hasMessage("no layout of float");
  }
}
