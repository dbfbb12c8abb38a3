package io.nvrar.tools.bench;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.device.Devices;
import io.nvrar.tools.bench.setup.Settings;
import io.nvrar.tools.bench.setup.TimedCollective;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** What {@code nvrar bench} measures: the options that become {@link Settings}. */
final class MeasurementOptions {
  /** Sizes for the collectives that have no comparison: latency, the middle, bandwidth. */
  private static final long DOCUMENT_LEAST_BYTES = 1 << 10;

  private static final long DOCUMENT_MOST_BYTES = 1 << 20;
  private static final int DOCUMENT_FACTOR = 32;

  @Option(
      names = "--backend",
      defaultValue = "cpu",
      description = "cpu, cuda, or auto: cuda where it can run (default: ${DEFAULT-VALUE}).")
  Backend backend = Backend.CPU;

  @Mixin final RankOptions ranks = new RankOptions();

  @Mixin final CallOptions call = new CallOptions();

  @Mixin private final SizeOptions sizes = new SizeOptions();

  @Mixin private final GpuOptions gpu = new GpuOptions();

  @Mixin private final FusedOptions fused = new FusedOptions();

  /** Replaces AUTO by the backend that is used here. */
  void resolve() {
    backend = Devices.resolve(backend);
  }

  Backend backend() {
    return backend;
  }

  /**
   * Checks the options, without a look at the backend's devices.
   *
   * @throws IllegalArgumentException if one is wrong, with the reason as one sentence
   */
  void check() {
    sizes.check(onGpu());
    call.check(onGpu());
    gpu.check(onGpu());
    fused.check(onGpu(), call, sizes, ranks);
    ranks.check(onGpu());
  }

  /**
   * Checks that this machine can do it.
   *
   * @throws IllegalArgumentException if it has fewer ranks than the options need
   */
  void checkMachine() {
    @Nullable BackendUnavailableException cause = Devices.unavailabilityCause(backend);
    if (cause != null) {
      throw cause;
    }
    call.checkRoot(counts());
  }

  /**
   * The settings of all runs, in their order.
   *
   * @param document whether they also fill the page of all collectives
   */
  List<Settings> settings(boolean document) {
    List<Settings> settings = new ArrayList<>();
    List<TimedCollective> measured = call.measured();
    for (TimedCollective collective : measured) {
      for (int count : counts()) {
        settings.add(settings(collective, count));
      }
    }
    if (document && !onGpu() && ranks.hosts == null) {
      int most = Collections.max(counts());
      for (TimedCollective collective : TimedCollective.values()) {
        if (!measured.contains(collective)) {
          settings.add(
              settings(collective, most)
                  .ofSizes(DOCUMENT_LEAST_BYTES, DOCUMENT_MOST_BYTES, DOCUMENT_FACTOR));
        }
      }
    }
    return settings;
  }

  Settings settings(TimedCollective collective, int count) {
    return new Settings(
        backend,
        gpu.modes(onGpu()),
        gpu.gpus,
        gpu.memory,
        gpu.exclusive == 1,
        gpu.programmaticLaunch == 1,
        collective,
        count,
        ranks.ranksPerNode,
        ranks.links,
        call.type(onGpu()),
        call.op,
        call.algorithm,
        call.root,
        sizes.least(onGpu()),
        sizes.most(onGpu()),
        sizes.factor(),
        sizes.iterations,
        sizes.warmup,
        sizes.repeats(onGpu()),
        ranks.ringBytes == null ? 0 : ranks.ringBytes,
        ranks.hosts == null ? 1 : ranks.hosts,
        fused.wanted());
  }

  private boolean onGpu() {
    return backend == Backend.CUDA;
  }

  private List<Integer> counts() {
    return ranks.counts(onGpu());
  }
}
