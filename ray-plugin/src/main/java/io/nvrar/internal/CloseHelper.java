package io.nvrar.internal;

import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Closes resources that are being abandoned, and ignores failures, because nothing could be done
 * about them.
 */
public final class CloseHelper {
  private static final Logger LOG = LoggerFactory.getLogger(CloseHelper.class);

  private CloseHelper() {}

  public static void closeQuietly(@Nullable AutoCloseable closeable) {
    if (closeable == null) {
      return;
    }
    try {
      closeable.close();
    } catch (Exception e) {
      LOG.debug("closing a socket failed", e);
    }
  }
}
