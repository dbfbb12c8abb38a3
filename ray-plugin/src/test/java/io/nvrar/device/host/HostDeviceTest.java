package io.nvrar.device.host;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Device;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceStream;
import io.nvrar.device.DeviceContract;
import org.junit.jupiter.api.Test;

class HostDeviceTest extends DeviceContract {
  @Override
  protected Device device() {
    return HostDevice.instance();
  }

  @Test
  void aSecondStreamThatWouldJoinACaptureIsRefused() {
    try (DeviceStream stream = device().createStream();
        DeviceStream other = device().createStream();
        DeviceEvent fork = device().createEvent()) {
      device()
          .capture(
              stream,
              () -> {
                fork.record(stream);
                stream.waitFor(fork);
                assertThatThrownBy(() -> other.waitFor(fork))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("the host captures one stream only");
              })
          .close();
      other.waitFor(fork);
    }
  }
}
