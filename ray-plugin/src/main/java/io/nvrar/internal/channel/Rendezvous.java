package io.nvrar.internal.channel;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.GroupConfig;
import io.nvrar.device.Devices;
import io.nvrar.internal.CloseHelper;
import io.nvrar.internal.Daemon;
import io.nvrar.internal.Uninterruptibly;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.Phrases;
import io.nvrar.internal.wire.ProcessIdentity;
import java.io.IOException;
import java.net.BindException;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The hub of a group, in rank 0's process: one thread that lets members in ({@link Admission}),
 * carries messages between {@link Peer}s and the {@link Coordinator}, and watches for silence. It
 * never blocks except in select, and no peer can delay another.
 */
public final class Rendezvous {
  private static final Logger LOG = LoggerFactory.getLogger(Rendezvous.class);
  private static final int BACKLOG = 256;

  /** The lowest port that needs no privilege. */
  private static final int FIRST_OPEN_PORT = 1024;

  /**
   * The minimum of {@code ringBytes} with several nodes, {@code kMinRingBytesOfNodes} of the native
   * library.
   */
  public static final int MIN_RING_BYTES_OF_NODES = 32768;

  private static final long MIN_RING_BYTES_OF_MANY_NODES = 98304;
  private static final long MIN_RING_BYTES_PER_RANK = 1024;
  private static final long RING_GRANULARITY = 4096;

  static final long TICK_MAX_NANOS = TimeUnit.MILLISECONDS.toNanos(250);

  /**
   * How many turns the remaining data of a closed connection is read: far more than a member can
   * send in the longest pause of the hub.
   */
  private static final int LAST_TURNS = 32;

  /** How long the end waits until the last messages have been sent. */
  private static final long FAREWELL_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final GroupSpec spec;
  private final ServerSocketChannel server;
  private final Selector selector;
  private final Admission admission;
  private final Heartbeats heartbeats;
  private final Coordinator coordinator;
  private final CountDownLatch shut = new CountDownLatch(1);
  private final CountDownLatch told = new CountDownLatch(1);
  private final CountDownLatch ended = new CountDownLatch(1);
  private volatile @Nullable Failure discarded;
  private volatile RankZeroView view = RankZeroView.NOTHING;
  private volatile boolean isDriven;

  /** Made beforehand, for a thread that has no memory to make it. */
  private final Failure outOfMemory;

  // Used by the thread only.
  private final List<Peer> peers = new ArrayList<>();
  private @Nullable Throwable thrown;

  private Rendezvous(
      GroupSpec spec, Handshake handshake, ServerSocketChannel server, Selector selector) {
    this.spec = spec;
    this.server = server;
    this.selector = selector;
    admission = new Admission(spec, handshake, server, selector);
    heartbeats = new Heartbeats(spec.config());
    coordinator = new Coordinator(spec, () -> view, System.nanoTime());
    outOfMemory = endedBy(OutOfMemoryError.class.getName());
  }

  /**
   * Opens the rendezvous of a new group. Does not start the thread.
   *
   * @param keysFor the new group's keys, for its unique id
   */
  public static Rendezvous open(
      String name,
      int worldSize,
      GroupConfig config,
      String host,
      Function<byte[], GroupKeys> keysFor) {
    GroupSpec.checkName(name);
    GroupSpec.checkWorldSize(worldSize);
    checkRing(worldSize, config);
    Backend backend = Devices.resolve(config.backend());
    checkNodes(worldSize, config, backend);
    BackendUnavailableException unavailable = Devices.unavailabilityCause(backend);
    if (unavailable != null) {
      throw unavailable;
    }
    // AUTO is resolved here, because different machines could resolve it differently.
    GroupConfig agreed = config.toBuilder().backend(backend).build();
    byte[] uniqueId = NativeCommunicator.uniqueId(backend);
    Handshake handshake = new Handshake(keysFor.apply(uniqueId));
    return open(
        host,
        config.rendezvousPort(),
        handshake,
        port -> new GroupSpec(name, worldSize, uniqueId, host, port, agreed));
  }

  /**
   * The minimum of {@code ringBytes} with several nodes, {@code min_ring_bytes} of the native
   * library.
   */
  public static long minRingBytes(int worldSize) {
    if (worldSize <= GroupSpec.MAX_NODE_SIZE) {
      return MIN_RING_BYTES_OF_NODES;
    }
    long ofRanks = worldSize * MIN_RING_BYTES_PER_RANK;
    long pages = (ofRanks + RING_GRANULARITY - 1) / RING_GRANULARITY;
    return Math.max(MIN_RING_BYTES_OF_MANY_NODES, pages * RING_GRANULARITY);
  }

  private static boolean hasSeveralNodes(int worldSize, GroupConfig config) {
    return config.gpusPerNode() > 0 && config.gpusPerNode() < worldSize;
  }

  /** Checks ringBytes against the world size, which the configuration alone does not know. */
  private static void checkRing(int worldSize, GroupConfig config) {
    boolean severalNodes =
        worldSize > GroupSpec.MAX_NODE_SIZE || hasSeveralNodes(worldSize, config);
    long least = minRingBytes(worldSize);
    if (severalNodes && config.ringBytes() != 0 && config.ringBytes() < least) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "ringBytes is %d, must be 0 or at least %d for several nodes (%d members, %d per node)",
              config.ringBytes(),
              least,
              worldSize,
              config.gpusPerNode()));
    }
  }

  /** Of members on several hosts, the native library checks this when they connect. */
  private static void checkNodes(int worldSize, GroupConfig config, Backend backend) {
    if (backend == Backend.CUDA && worldSize > GroupSpec.MAX_GPU_WORLD_SIZE) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "world size is %d, must be 1 to %d on GPUs",
              worldSize,
              GroupSpec.MAX_GPU_WORLD_SIZE));
    }
    if (!hasSeveralNodes(worldSize, config)) {
      return;
    }
    if (backend == Backend.CUDA && worldSize > GroupSpec.MAX_NODE_SIZE) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "gpusPerNode is %d, must be 0 for more than %d members on GPUs, which need several hosts",
              config.gpusPerNode(),
              GroupSpec.MAX_NODE_SIZE));
    }
    int perNode = config.gpusPerNode();
    int nodes = (worldSize + perNode - 1) / perNode;
    if (perNode > GroupSpec.MAX_NODE_SIZE || nodes > GroupSpec.MAX_NODES) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "gpusPerNode is %d, which makes %d nodes of %d members; a group has at most %d nodes of at most %d",
              perNode,
              nodes,
              worldSize,
              GroupSpec.MAX_NODES,
              GroupSpec.MAX_NODE_SIZE));
    }
  }

  /**
   * Opens a rendezvous. Members may connect from now on, and are served after {@link #start}.
   *
   * @param host the address to bind to
   * @param port the port, 0 for any free one
   * @param specForPort what the group is, once the port is known
   */
  private static Rendezvous open(
      String host, int port, Handshake handshake, Function<Integer, GroupSpec> specForPort) {
    InetSocketAddress address = new InetSocketAddress(host, port);
    if (address.isUnresolved()) {
      throw new IllegalArgumentException("the rendezvous host " + host + " cannot be resolved");
    }
    if (address.getAddress().isAnyLocalAddress()) {
      throw new IllegalArgumentException(
          "the rendezvous host " + host + " is no address that members could connect to");
    }
    if (address.getAddress() instanceof Inet6Address v6 && v6.isLinkLocalAddress()) {
      // Its scope names an interface of this host.
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "the rendezvous host %s is a link-local IPv6 address (%s): other hosts cannot use it, because its scope differs between hosts",
              host,
              v6.getHostAddress()));
    }
    ServerSocketChannel server = null;
    Selector selector = null;
    try {
      server = Sockets.openServer(address.getAddress());
      server.bind(address, BACKLOG);
      Sockets.keepFromPrograms(server);
      server.configureBlocking(false);
      selector = Selector.open();
      int boundPort = ((InetSocketAddress) server.getLocalAddress()).getPort();
      return new Rendezvous(specForPort.apply(boundPort), handshake, server, selector);
    } catch (IOException e) {
      CloseHelper.closeQuietly(server);
      CloseHelper.closeQuietly(selector);
      throw new CollectiveException(bindProblem(host, address.getAddress(), port, e), e);
    } catch (RuntimeException e) {
      CloseHelper.closeQuietly(server);
      CloseHelper.closeQuietly(selector);
      throw e;
    }
  }

  // Not by the text of the exception, which is in the language of the process.
  private static String bindProblem(String host, InetAddress address, int port, IOException e) {
    if (e instanceof BindException && !isOfThisMachine(address)) {
      return "the rendezvous cannot be on " + host + ": this machine has no such address";
    }
    if (e instanceof BindException && port == 0) {
      return String.format(
          Locale.ROOT,
          "the rendezvous cannot be opened on %s: none of the ports %s is free; rendezvousPort may name one outside that range",
          host,
          Sockets.freePorts());
    }
    // The same type is thrown where a low port is not permitted.
    if (e instanceof BindException && port >= FIRST_OPEN_PORT) {
      return "rendezvous port " + port + " on " + host + " is in use";
    }
    return "the rendezvous cannot be opened on " + host + " port " + port + ": " + e.getMessage();
  }

  private static boolean isOfThisMachine(InetAddress address) {
    try {
      return address.isLoopbackAddress() || NetworkInterface.getByInetAddress(address) != null;
    } catch (SocketException e) {
      return false;
    }
  }

  public GroupSpec spec() {
    return spec;
  }

  /**
   * Starts the hub's thread.
   *
   * @param onEnd runs on that thread when everything is closed
   */
  public void start(Runnable onEnd) {
    // Made now: at the end there may be no memory for a lambda.
    Runnable breakOff = () -> breakOff(Objects.requireNonNull(thrown));
    Runnable end = () -> end(onEnd);
    try {
      Daemon.of("nvrar-" + spec.name() + "-hub", () -> run(breakOff, end)).start();
    } catch (RuntimeException | Error e) { // for example, no thread could be started
      end(onEnd);
      throw e;
    }
  }

  /** From now on observers are told what this view shows. */
  public void show(RankZeroView now) {
    view = now;
  }

  /** From now on the group counts as having lost its driver if no observer comes. */
  public void setDriven() {
    isDriven = true;
  }

  /** Ends the rendezvous for all peers, with this reason. Does not wait. */
  public void discard(String reason) {
    discarded = Failure.of(Failure.Kind.ABORTED, reason);
    selector.wakeup();
  }

  /**
   * Waits until no connection is accepted any more and the port is free. An interrupt does not
   * shorten it.
   */
  public boolean awaitShut(long nanos) {
    return Uninterruptibly.await(left -> shut.await(left, TimeUnit.NANOSECONDS), nanos);
  }

  /**
   * Waits until all sockets are closed and the thread is about to end. An interrupt does not
   * shorten it.
   */
  public boolean awaitEnd(long nanos) {
    return Uninterruptibly.await(left -> ended.await(left, TimeUnit.NANOSECONDS), nanos);
  }

  /** Waits until all peers of a group that has ended were told so; cannot be interrupted. */
  public boolean awaitTold(long nanos) {
    return Uninterruptibly.await(left -> told.await(left, TimeUnit.NANOSECONDS), nanos);
  }

  private void run(Runnable breakOff, Runnable end) {
    try {
      serve();
    } catch (Throwable e) {
      thrown = e;
      Daemon.untilDone(breakOff);
    } finally {
      Daemon.untilDone(end);
    }
  }

  private void serve() throws IOException {
    SelectionKey acceptKey = server.register(selector, SelectionKey.OP_ACCEPT);
    long lastBeatNanos = System.nanoTime();
    long lastTurnNanos = lastBeatNanos;
    while (true) {
      long intervalNanos = Math.min(heartbeats.intervalNanos(), TICK_MAX_NANOS);
      selector.select(Math.max(1, TimeUnit.NANOSECONDS.toMillis(intervalNanos)));
      long now = System.nanoTime();
      handleReady(now);
      Failure discard = discarded;
      if (discard != null) {
        coordinator.fail(discard, now);
      }
      coordinator.tick(now);
      boolean hasPaused = heartbeats.isPause(now - lastTurnNanos);
      if (isDriven) {
        coordinator.seekDriver(now, hasPaused);
      }
      if (now - lastBeatNanos >= heartbeats.intervalNanos()) {
        lastBeatNanos = now;
        beat();
      }
      // After a pause of this process the hub must read before it may consider a peer silent.
      sweep(now, !hasPaused);
      lastTurnNanos = now;
      if (coordinator.isOver()) {
        told.countDown(); // the sweep has sent it
      }
      if (coordinator.isOpen()) {
        admission.acceptAgain(acceptKey, now);
      } else if (server.isOpen()) {
        shut(); // frees the port while other members still work or leave
      }
      if (discard != null || coordinator.isFinished(now)) {
        return;
      }
    }
  }

  private Failure endedBy(String error) {
    ProcessIdentity self = ProcessIdentity.current();
    return Failure.aborted(
        0,
        self,
        String.format(
            Locale.ROOT,
            "the rendezvous of %s in rank 0 (%s) was ended by %s",
            spec.label(),
            self,
            error));
  }

  /**
   * Tells all peers that an error ends this thread, or the failure that came before; those that
   * know that keep it. Needs no memory if the lack of it is the error.
   */
  private void breakOff(Throwable e) {
    if (coordinator.isClosed()) {
      return;
    }
    if (e instanceof OutOfMemoryError) {
      for (int i = 0; i < peers.size(); i++) { // an iterator would need memory
        peers.get(i).sendLast();
      }
    } else {
      view = RankZeroView.NOTHING; // to look at the group might end in the same error
      if (coordinator.hasFailed()) {
        coordinator.tellFailure(System.nanoTime()); // the error may have come in between
      } else {
        coordinator.fail(endedBy(e.toString()), System.nanoTime());
      }
    }
    logBrokenOff(e);
  }

  private void logBrokenOff(Throwable e) {
    try {
      LOG.error("the hub of {} failed", spec.label(), e);
    } catch (Throwable ignored) { // what is left to do at the end matters more
      return;
    }
  }

  private void handleReady(long now) throws IOException {
    Iterator<SelectionKey> ready = selector.selectedKeys().iterator();
    while (ready.hasNext()) {
      SelectionKey key = ready.next();
      ready.remove();
      if (!key.isValid()) {
        continue;
      }
      if (key.channel() == server) {
        admission.accept(key, now);
      } else if (key.attachment() instanceof PendingPeer stranger) {
        admit(stranger, key, now);
      } else if (key.attachment() instanceof Peer peer) {
        receive(peer, now);
      }
    }
  }

  private void admit(PendingPeer stranger, SelectionKey key, long now) {
    Peer peer = admission.admit(stranger, key, now);
    if (peer == null) {
      return;
    }
    Peer tooMuch = admission.tooMuch(selector.keys());
    if (tooMuch != null) {
      remove(tooMuch, "it made room for another", now);
    }
    if (tooMuch != peer) {
      peers.add(peer);
      peer.channel.prepareLast(outOfMemory);
      coordinator.admitted(peer);
      receive(peer, now);
    }
  }

  private void receive(Peer peer, long now) {
    try {
      boolean open = peer.channel.receiveTurn(message -> heard(peer, message, now));
      if (!open) {
        remove(peer, "connection closed", now);
      }
    } catch (IOException e) {
      remove(peer, FramedChannel.reason(e), now);
    }
  }

  private void heard(Peer peer, Message message, long now) {
    peer.lastHeardNanos = now;
    coordinator.received(peer, message, now);
  }

  private void beat() {
    coordinator.beat();
    Message beat = new Message.Heartbeat();
    for (SelectionKey key : selector.keys()) {
      if (key.attachment() instanceof Peer peer && !peer.isDismissed) {
        peer.send(beat);
      }
    }
  }

  /** Handles conditions without an event: silence, broken connections, unfinished handshakes. */
  private void sweep(long now, boolean mayExpel) {
    admission.sweep(now);
    for (SelectionKey key : selector.keys().toArray(new SelectionKey[0])) {
      if (!(key.attachment() instanceof Peer peer) || !key.isValid()) {
        continue;
      }
      String broken = peer.broken;
      if (broken != null) {
        breakOff(peer, broken, now);
      } else if (peer.isDismissed && now - peer.dismissedNanos > FAREWELL_NANOS) {
        remove(peer, "dismissed", now);
      } else if (mayExpel
          && coordinator.watches(peer)
          && heartbeats.isSilent(peer.lastHeardNanos, now)) {
        expel(peer, now);
      } else if (mayExpel && admission.isOverdue(peer, now)) {
        remove(peer, "it did not greet", now);
      } else {
        key.interestOps(
            peer.channel.hasUnsent()
                ? SelectionKey.OP_READ | SelectionKey.OP_WRITE
                : SelectionKey.OP_READ);
        flush(peer, now);
      }
    }
  }

  private void flush(Peer peer, long now) {
    try {
      peer.channel.flush();
    } catch (IOException e) {
      breakOff(peer, FramedChannel.reason(e), now);
    }
  }

  /**
   * Ends a broken connection. Nothing can be sent to the peer any more, but data that it sent
   * before may still have to be read.
   */
  private void breakOff(Peer peer, String why, long now) {
    for (int turn = 0; turn < LAST_TURNS && peer.key.isValid(); turn++) {
      receive(peer, now);
    }
    if (peer.key.isValid()) {
      remove(peer, why, now);
    }
  }

  /**
   * Expels a silent member. If it was only paused, it reads the reason when it resumes, and must
   * not come back.
   */
  private void expel(Peer peer, long now) {
    String silence = Heartbeats.SILENT + Phrases.seconds(spec.config().heartbeatLimit());
    coordinator.gone(peer, silence, now);
    try {
      peer.channel.channel().shutdownOutput();
    } catch (IOException e) {
      LOG.debug("a silent peer of {} was gone already", spec.label(), e);
    }
    peer.isDismissed = true;
    peer.isLeaving = true;
    peer.dismissedNanos = now;
  }

  private void remove(Peer peer, String why, long now) {
    peers.remove(peer);
    peer.key.cancel();
    CloseHelper.closeQuietly(peer.channel);
    coordinator.gone(peer, why, now);
  }

  private void shut() throws IOException {
    CloseHelper.closeQuietly(server);
    selector.selectNow(); // the server socket of a cancelled key is closed only here
    shut.countDown();
  }

  /** Idempotent, because it is repeated if an error interrupts it. */
  private void end(Runnable onEnd) {
    if (selector.isOpen()) {
      try {
        shut(); // the port first, so that it can be used again; then the last messages
        admission.close();
        farewell();
      } catch (IOException | RuntimeException e) {
        logDisorder(e);
      }
      for (SelectionKey key : selector.keys()) {
        CloseHelper.closeQuietly(key.channel());
      }
      CloseHelper.closeQuietly(selector);
    }
    onEnd.run();
    told.countDown();
    shut.countDown();
    ended.countDown();
  }

  private void logDisorder(Exception e) {
    try {
      LOG.debug("the hub of {} could not end in order", spec.label(), e);
    } catch (Throwable ignored) {
      return;
    }
  }

  /** Closes the connections whose data has been sent, and waits a moment for the others. */
  private void farewell() {
    long deadline = System.nanoTime() + FAREWELL_NANOS;
    boolean unsent = true;
    while (unsent && System.nanoTime() < deadline) {
      unsent = false;
      for (SelectionKey key : selector.keys()) {
        if (key.attachment() instanceof Peer peer && peer.broken == null && key.isValid()) {
          try {
            unsent |= !peer.channel.flush();
          } catch (IOException e) {
            peer.broken = FramedChannel.reason(e);
          }
        }
      }
      if (unsent) {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(5));
      }
    }
  }
}
