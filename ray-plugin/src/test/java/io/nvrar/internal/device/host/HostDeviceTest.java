package io.nvrar.internal.device.host;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.device.DeviceContract;
import org.junit.jupiter.api.Test;

class HostDeviceTest extends DeviceContract {
  @Override
  protected Device device() {
    return HostDevice.instance();
  }

  @Test
  void aRecaptureDoesNotChangeAGraphThatHasRecordedALaunch() {
    try (DeviceStream stream = device().createStream();
        DeviceBuffer one = buffer(1);
        DeviceBuffer two = buffer(2);
        DeviceBuffer target = buffer(0);
        DeviceGraph graph = device().capture(stream, () -> stream.copy(one, target));
        DeviceGraph outer = device().capture(stream, () -> graph.launch(stream))) {
      graph.recapture(stream, () -> stream.copy(two, target));
      outer.launch(stream);
      assertThat(ints(target)).containsExactly(1);
    }
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
