package io.nvrar.internal.binding;

/**
 * The function of {@code nvrar.h} for processes that are in no group. Apart from {@link
 * NvrarBinding}, because members do not need it; {@link Onlooker} registers it at its first use.
 */
@SuppressWarnings("MemberName") // JNA finds a function by its method's name.
final class OnlookerBinding {
  private OnlookerBinding() {}

  static native int nvrar_look_at(
      byte[] descriptor, byte[] out, int capacity, byte[] count, byte[] begun, byte[] failure);
}
