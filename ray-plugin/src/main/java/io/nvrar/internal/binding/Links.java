package io.nvrar.internal.binding;

/**
 * How a member is linked to members whose memory it cannot map.
 *
 * @param address the numeric address of this host by which other hosts reach the member; "" if it
 *     has none, which a group on one host does not need
 * @param betweenNodes whether the nodes that {@code gpusPerNode} makes of one host are linked like
 *     hosts, for tests and measurements
 */
public record Links(String address, boolean betweenNodes) {
  /** For a group on one host. */
  public static final Links NONE = new Links("", false);
}
