package io.nvrar.ray;

import io.ray.api.Ray;
import io.ray.api.runtimecontext.ResourceValue;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalInt;
import java.util.regex.Pattern;

/** Which GPU the actor whose task runs on this thread takes: the one that Ray assigned. */
final class ActorGpu {
  /**
   * The GPUs of an actor: {@code GPU}, or inside a placement group {@code GPU_group_<group>} (and
   * once more with the bundle's index, which this leaves out).
   */
  private static final Pattern GPU_RESOURCE = Pattern.compile("GPU(_group_[0-9A-Za-z]+)?");

  private ActorGpu() {}

  /**
   * The CUDA ordinal of the actor's first GPU; empty if Ray assigned none, as always in local mode.
   */
  static OptionalInt ordinal() {
    return Ray.getRuntimeContext().isLocalMode()
        ? OptionalInt.empty()
        : ordinal(Ray.internal().getAvailableResourceIds());
  }

  /**
   * The raw id of the resource is the index into the devices that the node's processes see, which
   * is what CUDA calls the ordinal. {@code RuntimeContext.getGpuIds} returns the entry of
   * CUDA_VISIBLE_DEVICES at that index instead and fails where that is a UUID.
   */
  private static OptionalInt ordinal(Map<String, List<ResourceValue>> resources) {
    return resources.entrySet().stream()
        .filter(entry -> GPU_RESOURCE.matcher(entry.getKey()).matches())
        .flatMap(entry -> entry.getValue().stream())
        .mapToInt(value -> Math.toIntExact(Objects.requireNonNull(value.resourceId, "resourceId")))
        .min();
  }
}
