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
