package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.AllReduceFusion;
import io.nvrar.CollectiveGroup;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;

/** Who adds up the partial results of all ranks, twice a layer. Its calls only enqueue. */
interface PartialSums extends Resources.Resource {

  /** Replaces a rank's numbers by the sums over ranks. */
  void allReduce(DeviceBuffer buffer, DeviceStream stream);

  /** The same, and what the fusion does with the sums. Leaves no defined value in the buffer. */
  void allReduce(DeviceBuffer buffer, AllReduceFusion fusion, DeviceStream stream);

  /** As others, until it is told to make no calls any more. */
  final class Silenced implements PartialSums {
    private final PartialSums sums;
    private boolean isSilent;

    Silenced(PartialSums sums) {
      this.sums = sums;
    }

    void silence() {
      isSilent = true;
    }

    @Override
    public void allReduce(DeviceBuffer buffer, DeviceStream stream) {
      if (!isSilent) {
        sums.allReduce(buffer, stream);
      }
    }

    @Override
    public void allReduce(DeviceBuffer buffer, AllReduceFusion fusion, DeviceStream stream) {
      if (!isSilent) {
        sums.allReduce(buffer, fusion, stream);
      }
    }

    @Override
    public void close() {
      sums.close();
    }
  }

  /** The calls of a group, which the caller closes. */
  static PartialSums of(CollectiveGroup group) {
    return new PartialSums() {
      @Override
      public void allReduce(DeviceBuffer buffer, DeviceStream stream) {
        group.allReduce(buffer, stream);
      }

      @Override
      public void allReduce(DeviceBuffer buffer, AllReduceFusion fusion, DeviceStream stream) {
        group.allReduce(buffer, fusion, stream);
      }

      @Override
      public void close() {}
    };
  }
}
