package io.nvrar.internal.channel;

import java.nio.channels.SelectableChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;

/** Of a {@link Peer} without a selector: the hub's decisions do not look at it. */
final class NoKey extends SelectionKey {
  @Override
  public SelectableChannel channel() {
    throw new UnsupportedOperationException();
  }

  @Override
  public Selector selector() {
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean isValid() {
    return true;
  }

  @Override
  public void cancel() {}

  @Override
  public int interestOps() {
    return 0;
  }

  @Override
  public SelectionKey interestOps(int ops) {
    return this;
  }

  @Override
  public int readyOps() {
    return 0;
  }
}
