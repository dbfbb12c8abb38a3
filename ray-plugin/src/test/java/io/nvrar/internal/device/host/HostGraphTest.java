package io.nvrar.internal.device.host;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class HostGraphTest {
  private static final HostDevice HOST = HostDevice.instance();

  private final List<String> log = new ArrayList<>();

  @Test
  void workRunsAtOnceOutsideACaptureAndOnlyOnLaunchAfterOne() {
    try (HostStream stream = HOST.createStream()) {
      stream.submit(() -> log.add("now"));
      assertThat(log).containsExactly("now");
      log.clear();

      try (DeviceGraph graph =
          HOST.capture(
              stream,
              () -> {
                assertThat(stream.isCapturing()).isTrue();
                stream.submit(() -> log.add("a"));
                stream.submit(() -> log.add("b"));
              })) {
        assertThat(stream.isCapturing()).isFalse();
        assertThat(log).isEmpty();
        graph.launch(stream);
        stream.submit(() -> log.add("between"));
        graph.launch(stream);
        assertThat(log).containsExactly("a", "b", "between", "a", "b");
      }
    }
  }

  @Test
  void aGraphLaunchedInACaptureBecomesPartOfTheOuterOne() {
    HostStream stream = HOST.createStream();
    DeviceGraph inner = HOST.capture(stream, () -> stream.submit(() -> log.add("inner")));
    DeviceGraph outer =
        HOST.capture(
            stream,
            () -> {
              stream.submit(() -> log.add("first"));
              inner.launch(stream);
            });
    assertThat(log).isEmpty();
    outer.launch(stream);
    assertThat(log).containsExactly("first", "inner");
    inner.close();
    assertThatThrownBy(() -> outer.launch(stream)).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void aCaptureInsideACaptureOfTheSameStreamIsRefusedAndDropsBoth() {
    try (HostStream stream = HOST.createStream()) {
      assertThatThrownBy(() -> HOST.capture(stream, () -> HOST.capture(stream, () -> {})))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("already capturing");
      assertThat(stream.isCapturing()).isFalse();
      stream.submit(() -> log.add("usable"));
      assertThat(log).containsExactly("usable");
    }
  }

  @Test
  void workThatThrowsDropsTheCaptureAndLeavesTheStreamUsable() {
    try (HostStream stream = HOST.createStream()) {
      assertThatThrownBy(
              () ->
                  HOST.capture(
                      stream,
                      () -> {
                        stream.submit(() -> log.add("never"));
                        throw new UnsupportedOperationException("in the work");
                      }))
          .hasMessage("in the work");
      assertThat(stream.isCapturing()).isFalse();
      try (DeviceGraph graph = HOST.capture(stream, () -> {})) {
        graph.launch(stream);
      }
      assertThat(log).isEmpty();
    }
  }

  @Test
  void aPieceThatThrowsEndsTheLaunchAndTheNextLaunchStartsAnew() {
    int[] calls = {0};
    try (HostStream stream = HOST.createStream();
        DeviceGraph graph =
            HOST.capture(
                stream,
                () -> {
                  stream.submit(
                      () -> {
                        if (calls[0]++ == 0) {
                          throw new IllegalArgumentException("first time");
                        }
                      });
                  stream.submit(() -> log.add("after"));
                })) {
      assertThatThrownBy(() -> graph.launch(stream)).hasMessage("first time");
      assertThat(log).isEmpty();
      graph.launch(stream);
      assertThat(log).containsExactly("after");
    }
  }

  @Test
  void waitingForAStreamThatCapturesIsRefused() {
    try (HostStream stream = HOST.createStream()) {
      stream.synchronize();
      assertThatThrownBy(() -> HOST.capture(stream, stream::synchronize))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("capturing");
    }
  }

  @Test
  void closingAStreamEndsItsCaptureAndDropsWhatItRecorded() {
    HostStream stream = HOST.createStream();
    assertThatThrownBy(
            () ->
                HOST.capture(
                    stream,
                    () -> {
                      stream.submit(() -> log.add("never"));
                      stream.close();
                      assertThat(stream.isCapturing()).isFalse();
                    }))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage(
            "the stream was closed while it was capturing; what it had recorded is dropped");
    assertThat(log).isEmpty();
  }

  @Test
  void workThatClosesItsStreamAndThrowsIsHeardAsItThrew() {
    HostStream stream = HOST.createStream();
    assertThatThrownBy(
            () ->
                HOST.capture(
                    stream,
                    () -> {
                      stream.close();
                      stream.submit(() -> log.add("never"));
                    }))
        .hasMessage("submit was called on a closed stream");
    assertThat(log).isEmpty();
  }

  @Test
  void closedStreamsAndGraphsAreRefused() {
    HostStream stream = HOST.createStream();
    HostStream open = HOST.createStream();
    DeviceGraph graph = HOST.capture(stream, () -> {});
    stream.close();
    stream.close();
    assertThatThrownBy(() -> stream.submit(() -> {})).isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> HOST.capture(stream, () -> {}))
        .isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> graph.launch(stream)).isInstanceOf(IllegalStateException.class);
    graph.launch(open);
    graph.close();
    graph.close();
    assertThatThrownBy(() -> graph.launch(open))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("launch was called on a closed graph");
    open.close();
  }

  @Test
  void aStreamOfAnotherDeviceIsRefusedByName() {
    DeviceStream foreign = new OtherDevice().createStream();
    assertThatThrownBy(() -> HOST.capture(foreign, () -> {}))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("capture on the host needs a stream of the host, not one of device 3");
    try (HostStream stream = HOST.createStream();
        DeviceGraph graph = HOST.capture(stream, () -> {})) {
      assertThatThrownBy(() -> graph.launch(foreign)).isInstanceOf(IllegalArgumentException.class);
    }
  }

  /** A device that is not the host. */
  private static final class OtherDevice implements Device {
    @Override
    public Backend backend() {
      return Backend.CUDA;
    }

    @Override
    public int ordinal() {
      return 3;
    }

    @Override
    public DeviceBuffer allocate(DataType dataType, long count) {
      throw new UnsupportedOperationException();
    }

    @Override
    public DeviceBuffer allocatePinned(DataType dataType, long count) {
      throw new UnsupportedOperationException();
    }

    @Override
    public DeviceEvent createEvent() {
      throw new UnsupportedOperationException();
    }

    @Override
    public DeviceStream createStream() {
      return new DeviceStream() {
        @Override
        public Device device() {
          return OtherDevice.this;
        }

        @Override
        public long handle() {
          return 1;
        }

        @Override
        public boolean isCapturing() {
          return false;
        }

        @Override
        public void synchronize() {}

        @Override
        public void copy(DeviceBuffer source, DeviceBuffer target) {
          throw new UnsupportedOperationException();
        }

        @Override
        public void waitFor(DeviceEvent event) {
          throw new UnsupportedOperationException();
        }

        @Override
        public void close() {}
      };
    }

    @Override
    public DeviceGraph capture(DeviceStream stream, Runnable work) {
      throw new UnsupportedOperationException();
    }

    @Override
    public String toString() {
      return "device 3";
    }
  }
}
