package io.nvrar.internal.binding;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class GpuSettingsTest {
  @Test
  void nothingIsNamedAndNoGpuIsSharedUnlessAPropertySaysSo() {
    GpuSettings none = new GpuSettings(null, false);
    assertThat(GpuSettings.of(Map.of())).isEqualTo(none);
    assertThat(GpuSettings.of(Map.of("nvrar.nvshmem.home", "", "nvrar.sharedDevices", "yes")))
        .isEqualTo(none);
    assertThat(GpuSettings.of(Map.of("nvrar.nvshmem.home", "/x", "nvrar.sharedDevices", "true")))
        .isEqualTo(new GpuSettings("/x", true));
  }

  @Test
  void anNvshmemThatIsNamedAndNotThereIsRefusedByItsNameAndNoOtherIsTried(@TempDir Path scratch) {
    Path nowhere = scratch.resolve("nöwhere");
    GpuSettings settings = new GpuSettings(nowhere.toString(), false);
    assertThatThrownBy(() -> settings.apply(Backend.CUDA))
        .isExactlyInstanceOf(BackendUnavailableException.class)
        .hasMessage(
            "NVSHMEM 3.3.20 or newer is not here (pip install nvidia-nvshmem-cu13, or set NVSHMEM_HOME). Tried: "
                + nowhere
                + ": not there");
    assertThatCode(() -> settings.apply(Backend.CPU)).doesNotThrowAnyException();
  }
}
