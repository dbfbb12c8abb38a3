package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.AllReduceFusion;
import io.nvrar.CollectiveGroup;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;

/** Who adds up the partial results of all ranks, twice a layer. Its calls only enqueue. */
interface PartialSums extends Resources.Resource {

  /** Replaces a rank's numbers by the sums over ranks. */
  void allReduce(DeviceBuffer buffer, DeviceStream stream);

  /** The same, and what the fusion does with the sums. Leaves no defined value in the buffer. */
  void allReduce(DeviceBuffer buffer, AllReduceFusion fusion, DeviceStream stream);

  /** Makes no calls, neither now nor in what a graph captures, but when it is told to. */
  final class Silent implements PartialSums {
    private final PartialSums sums;
    private boolean makesCalls;

    Silent(PartialSums sums) {
      this.sums = sums;
    }

    /** Makes the calls of what is enqueued meanwhile. */
    void makeCallsIn(Runnable steps) {
      makesCalls = true;
      try {
        steps.run();
      } finally {
        makesCalls = false;
      }
    }

    @Override
    public void allReduce(DeviceBuffer buffer, DeviceStream stream) {
      if (makesCalls) {
        sums.allReduce(buffer, stream);
      }
    }

    @Override
    public void allReduce(DeviceBuffer buffer, AllReduceFusion fusion, DeviceStream stream) {
      if (makesCalls) {
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
