package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.DeviceStream;
import org.jspecify.annotations.Nullable;

/** What paths have in common: a stream, and stamps on it if there are to be some. */
abstract class StampedPath implements StepPath {
  private final DeviceStream stream;
  private final int layers;
  private @Nullable StepStamps stamps;

  StampedPath(DeviceStream stream, int layers) {
    this.stream = stream;
    this.layers = layers;
  }

  @Override
  public final int layers() {
    return layers;
  }

  @Override
  public final void stamp(@Nullable StepStamps some) {
    stamps = some;
  }

  @Override
  public final void ended(String kernel, int layer) {
    if (stamps != null) {
      stamps.after(stream, kernel, layer);
    }
  }
}
