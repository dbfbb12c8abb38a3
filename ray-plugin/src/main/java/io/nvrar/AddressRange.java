package io.nvrar;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The IP addresses that begin with the same bits, such as {@code 10.1.0.0/16}, or one address, such
 * as {@code 10.1.0.7}.
 */
public final class AddressRange {
  // Only numbers, because InetAddress would ask a resolver for a name.
  private static final Pattern NUMERIC =
      Pattern.compile(
          "(25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})(\\.(25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})){3}"
              + "|[0-9a-fA-F.]*:[0-9a-fA-F.:]*");
  private static final Pattern BITS = Pattern.compile("[0-9]{1,3}");

  private static final int IPV4_BYTES = 4;

  private final byte[] first;
  private final int bits;

  private AddressRange(byte[] first, int bits) {
    this.first = first;
    this.bits = bits;
  }

  /**
   * The range that {@code text} describes as address/bits or address; null if it describes none, or
   * IPv4-mapped addresses.
   */
  public static @Nullable AddressRange parse(String text) {
    int slash = text.indexOf('/');
    byte[] address = address(slash < 0 ? text : text.substring(0, slash));
    if (address == null) {
      return null;
    }
    int all = Byte.SIZE * address.length;
    if (slash < 0) {
      return new AddressRange(address, all);
    }
    String bits = text.substring(slash + 1);
    return BITS.matcher(bits).matches() && Integer.parseInt(bits) <= all
        ? new AddressRange(address, Integer.parseInt(bits))
        : null;
  }

  private static byte @Nullable [] address(String text) {
    if (!NUMERIC.matcher(text).matches()) {
      return null;
    }
    try {
      byte[] address = InetAddress.getByName(text).getAddress();
      // Java makes an IPv4 address of an IPv4-mapped one, which has other bits.
      return text.contains(":") && address.length == IPV4_BYTES ? null : address;
    } catch (UnknownHostException e) {
      return null;
    }
  }

  /** Whether {@code address} is of the same family and begins with the range's bits. */
  public boolean contains(InetAddress address) {
    byte[] bytes = address.getAddress();
    if (bytes.length != first.length) {
      return false;
    }
    for (int bit = 0; bit < bits; bit++) {
      int mask = 0x80 >> bit % Byte.SIZE;
      if (((bytes[bit / Byte.SIZE] ^ first[bit / Byte.SIZE]) & mask) != 0) {
        return false;
      }
    }
    return true;
  }
}
