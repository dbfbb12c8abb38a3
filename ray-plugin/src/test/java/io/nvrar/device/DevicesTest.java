package io.nvrar.device;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.device.host.HostDevice;
import org.junit.jupiter.api.Test;

class DevicesTest {

  @Test
  void autoIsTheHostWhereThereIsNothingBetter() {
    assertThat(Devices.resolve(Backend.AUTO)).isEqualTo(Backend.CPU);
    assertThat(Devices.resolve(Backend.CPU)).isEqualTo(Backend.CPU);
    assertThat(Devices.unavailabilityCause(Backend.AUTO)).isNull();
    assertThat(Devices.open(Backend.AUTO, 0)).isSameAs(HostDevice.instance());
    assertThat(Devices.open(Backend.CPU, 3)).isSameAs(HostDevice.instance());
  }

  @Test
  void cudaSaysThatItIsNotPartOfThisVersionInsteadOfFallingBack() {
    assertThat(Devices.resolve(Backend.CUDA)).isEqualTo(Backend.CUDA);
    assertThat(Devices.unavailabilityCause(Backend.CUDA))
        .hasMessage("the CUDA backend is not part of this version; choose AUTO or CPU");
    assertThatThrownBy(() -> Devices.open(Backend.CUDA, 0))
        .isInstanceOf(BackendUnavailableException.class)
        .hasMessageContaining("CUDA");
  }
}
