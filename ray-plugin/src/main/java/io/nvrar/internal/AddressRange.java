package io.nvrar.internal;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** The IP addresses that begin with the same bits, such as {@code 10.1.0.0/16}. */
public final class AddressRange {
  // Only numbers, because InetAddress would ask a resolver for a name.
  private static final Pattern NUMERIC =
      Pattern.compile(
          "(25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})(\\.(25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})){3}"
              + "|[0-9a-fA-F.]*:[0-9a-fA-F.:]*");
  private static final Pattern BITS = Pattern.compile("[0-9]{1,3}");

  private final byte[] first;
  private final int bits;

  private AddressRange(byte[] first, int bits) {
    this.first = first;
    this.bits = bits;
  }

  /** The range that {@code text} describes as address/bits; null if it describes none. */
  public static @Nullable AddressRange parse(String text) {
    int slash = text.indexOf('/');
    if (slash < 0 || !BITS.matcher(text.substring(slash + 1)).matches()) {
      return null;
    }
    byte[] address = address(text.substring(0, slash));
    int bits = Integer.parseInt(text.substring(slash + 1));
    return address == null || bits > Byte.SIZE * address.length
        ? null
        : new AddressRange(address, bits);
  }

  private static byte @Nullable [] address(String text) {
    if (!NUMERIC.matcher(text).matches()) {
      return null;
    }
    try {
      return InetAddress.getByName(text).getAddress();
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
