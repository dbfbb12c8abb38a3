package io.nvrar.internal.group;

import io.nvrar.DeviceStream;
import io.nvrar.internal.binding.Call;
import io.nvrar.internal.call.CallChecks;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * The way of each call: it enters the group, its arguments are checked, and it runs, or is recorded
 * if its stream captures. A recorded call enters and runs at every launch of the graph, when the
 * group may have failed or a buffer may be closed. Allocates nothing, unless it records.
 */
final class MemberCalls {
  private final CallGate gate;
  private final CallChecks checks;

  /** The call that nobody fills or runs; null while somebody does. */
  private final AtomicReference<@Nullable Call> idle = new AtomicReference<>(new Call());

  MemberCalls(CallGate gate, CallChecks checks) {
    this.gate = gate;
    this.checks = checks;
  }

  /** A call to fill; {@link #run} must follow. */
  Call next() {
    Call call = idle.getAndSet(null);
    return call == null ? new Call() : call;
  }

  /** Makes a call of {@link #next}. */
  void run(Call call, DeviceStream on) {
    try {
      make(call, on);
    } finally {
      call.clear();
      idle.lazySet(call);
    }
  }

  /** Makes a call; it may be cleared afterwards. */
  void make(Call call, DeviceStream on) {
    gate.enter(call);
    try {
      checks.check(call, on);
      if (CallGate.records(on)) {
        Call recorded = call.copy();
        CallGate.record(on, () -> replay(recorded, on));
      } else {
        gate.run(call, on);
      }
    } finally {
      gate.leave();
    }
  }

  private void replay(Call call, DeviceStream on) {
    gate.enterReplay(call);
    try {
      gate.run(call, on);
    } finally {
      gate.leave();
    }
  }
}
