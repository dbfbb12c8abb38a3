package io.nvrar;

import java.time.Duration;
import java.util.Locale;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.regex.Pattern;

/**
 * The configuration of a group, which is the same on all members. Immutable.
 *
 * <p>Options of one kind of group are in a part of their own: {@link Cuda} for groups on GPUs,
 * {@link Links} for groups on several hosts.
 *
 * <pre>{@code
 * GroupConfig config =
 *     GroupConfig.builder()
 *         .backend(Backend.CUDA)
 *         .cuda(cuda -> cuda.exclusive(true))
 *         .links(links -> links.ports(5000, 5010).networkInterface("eth1"))
 *         .build();
 * }</pre>
 */
public final class GroupConfig {
  /** Default of {@link #timeout}. */
  public static final Duration TIMEOUT_DEFAULT = Duration.ofSeconds(30);

  /** Default of {@link #joinTimeout}. */
  public static final Duration JOIN_TIMEOUT_DEFAULT = Duration.ofSeconds(60);

  /** Default of {@link #heartbeatLimit}. */
  public static final Duration HEARTBEAT_LIMIT_DEFAULT = Duration.ofSeconds(10);

  private static final GroupConfig DEFAULTS = builder().build();

  private final Backend backend;
  private final Duration timeout;
  private final Duration joinTimeout;
  private final Duration heartbeatLimit;
  private final long ringBytes;
  private final int rendezvousPort;
  private final int gpusPerNode;
  private final TuningTable tuning;
  private final Cuda cuda;
  private final Links links;

  private GroupConfig(Builder builder) {
    backend = builder.backend;
    timeout = builder.timeout;
    joinTimeout = builder.joinTimeout;
    heartbeatLimit = builder.heartbeatLimit;
    ringBytes = builder.ringBytes;
    rendezvousPort = builder.rendezvousPort;
    gpusPerNode = builder.gpusPerNode;
    tuning = builder.tuning;
    cuda = builder.cuda;
    links = builder.links;
  }

  /** The configuration with every default. */
  public static GroupConfig defaults() {
    return DEFAULTS;
  }

  /** A builder that starts from the defaults. */
  public static Builder builder() {
    return new Builder();
  }

  /** A builder that starts from this configuration. */
  public Builder toBuilder() {
    Builder builder = new Builder();
    builder.backend = backend;
    builder.timeout = timeout;
    builder.joinTimeout = joinTimeout;
    builder.heartbeatLimit = heartbeatLimit;
    builder.ringBytes = ringBytes;
    builder.rendezvousPort = rendezvousPort;
    builder.gpusPerNode = gpusPerNode;
    builder.tuning = tuning;
    builder.cuda = cuda;
    builder.links = links;
    return builder;
  }

  /** The backend to run on. */
  public Backend backend() {
    return backend;
  }

  /**
   * The longest a call may make no progress. A large call makes progress with each part that passes
   * through the rings, a batch with each transfer.
   */
  public Duration timeout() {
    return timeout;
  }

  /**
   * How long a member waits for the others when the group is created, and again when it is closed.
   */
  public Duration joinTimeout() {
    return joinTimeout;
  }

  /** How long a member may be silent on the control channel before it counts as lost. */
  public Duration heartbeatLimit() {
    return heartbeatLimit;
  }

  /**
   * The size in bytes of one receive area of a member; 0 for the backend's default (CPU: 1 MiB,
   * CUDA: 16 MiB). At least 32 KiB if {@link #gpusPerNode} divides the group into several nodes,
   * and if its members are on several hosts; with more than 8 members 96 KiB, and 1 KiB for each.
   */
  public long ringBytes() {
    return ringBytes;
  }

  /** The TCP port on which rank 0 listens for the other members; 0 for any free port. */
  public int rendezvousPort() {
    return rendezvousPort;
  }

  /**
   * The number of members in one node. Nodes are filled in rank order: ranks 0 to {@code
   * gpusPerNode - 1} are the first node, and so on; the last node may have fewer. 0 if all members
   * are in one node, and in a group that spans hosts, where each host is a node. A group has at
   * most 64 nodes of at most 8 members.
   */
  public int gpusPerNode() {
    return gpusPerNode;
  }

  /** Which algorithm an all-reduce with {@link Algorithm#AUTO} uses. */
  public TuningTable tuning() {
    return tuning;
  }

  /** The options that only groups on GPUs use. */
  public Cuda cuda() {
    return cuda;
  }

  /** The options of links between members on different hosts. */
  public Links links() {
    return links;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof GroupConfig that
        && backend == that.backend
        && timeout.equals(that.timeout)
        && joinTimeout.equals(that.joinTimeout)
        && heartbeatLimit.equals(that.heartbeatLimit)
        && ringBytes == that.ringBytes
        && rendezvousPort == that.rendezvousPort
        && gpusPerNode == that.gpusPerNode
        && tuning.equals(that.tuning)
        && cuda.equals(that.cuda)
        && links.equals(that.links);
  }

  @Override
  public int hashCode() {
    return Objects.hash(
        backend,
        timeout,
        joinTimeout,
        heartbeatLimit,
        ringBytes,
        rendezvousPort,
        gpusPerNode,
        tuning,
        cuda,
        links);
  }

  @Override
  public String toString() {
    return String.format(
        Locale.ROOT,
        "GroupConfig[backend=%s, timeout=%s, joinTimeout=%s, heartbeatLimit=%s, ringBytes=%d, rendezvousPort=%d, gpusPerNode=%d, tuning=%s, cuda=%s, links=%s]",
        backend,
        timeout,
        joinTimeout,
        heartbeatLimit,
        ringBytes,
        rendezvousPort,
        gpusPerNode,
        tuning,
        cuda,
        links);
  }

  /** Builds a configuration; every option has a default. Not thread-safe. */
  public static final class Builder {
    private static final int GPUS_PER_NODE_MAX = 72;

    private Backend backend = Backend.AUTO;
    private Duration timeout = TIMEOUT_DEFAULT;
    private Duration joinTimeout = JOIN_TIMEOUT_DEFAULT;
    private Duration heartbeatLimit = HEARTBEAT_LIMIT_DEFAULT;
    private long ringBytes;
    private int rendezvousPort;
    private int gpusPerNode;
    private TuningTable tuning = TuningTable.none();
    private Cuda cuda = Cuda.DEFAULTS;
    private Links links = Links.DEFAULTS;

    private Builder() {}

    /** See {@link GroupConfig#backend()}. */
    public Builder backend(Backend value) {
      backend = Objects.requireNonNull(value, "backend");
      return this;
    }

    /** See {@link GroupConfig#timeout()}; 1 ms to 1 day. */
    public Builder timeout(Duration value) {
      timeout = checked("timeout", value);
      return this;
    }

    /** See {@link GroupConfig#joinTimeout()}; 1 ms to 1 day. */
    public Builder joinTimeout(Duration value) {
      joinTimeout = checked("joinTimeout", value);
      return this;
    }

    /** See {@link GroupConfig#heartbeatLimit()}; 1 ms to 1 day. */
    public Builder heartbeatLimit(Duration value) {
      heartbeatLimit = checked("heartbeatLimit", value);
      return this;
    }

    /** See {@link GroupConfig#ringBytes()}; 0, or a multiple of 4 KiB from 8 KiB to 1 GiB. */
    public Builder ringBytes(long value) {
      if (value != 0 && (value < 8192 || value > 1L << 30 || value % 4096 != 0)) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "ringBytes is %d, must be 0 or a multiple of 4096 from 8192 to %d",
                value,
                1L << 30));
      }
      ringBytes = value;
      return this;
    }

    /** See {@link GroupConfig#rendezvousPort()}; 0 to 65535. */
    public Builder rendezvousPort(int value) {
      if (value < 0 || value > 65535) {
        throw new IllegalArgumentException("rendezvousPort is " + value + ", must be 0 to 65535");
      }
      rendezvousPort = value;
      return this;
    }

    /** See {@link GroupConfig#gpusPerNode()}; 0 to 72. */
    public Builder gpusPerNode(int value) {
      if (value < 0 || value > GPUS_PER_NODE_MAX) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT, "gpusPerNode is %d, must be 0 to %d", value, GPUS_PER_NODE_MAX));
      }
      gpusPerNode = value;
      return this;
    }

    /**
     * See {@link GroupConfig#tuning()}; {@code io.nvrar.tuning.TuningFile} reads one from a file.
     */
    public Builder tuning(TuningTable value) {
      tuning = Objects.requireNonNull(value, "tuning");
      return this;
    }

    /**
     * See {@link GroupConfig#cuda()}; options that {@code change} does not set stay as they are.
     */
    public Builder cuda(Consumer<Cuda.Builder> change) {
      Cuda.Builder builder = new Cuda.Builder(cuda);
      change.accept(builder);
      cuda = new Cuda(builder);
      return this;
    }

    /**
     * See {@link GroupConfig#links()}; options that {@code change} does not set stay as they are.
     */
    public Builder links(Consumer<Links.Builder> change) {
      Links.Builder builder = new Links.Builder(links);
      change.accept(builder);
      links = new Links(builder);
      return this;
    }

    /** The configuration. */
    public GroupConfig build() {
      return new GroupConfig(this);
    }

    private static Duration checked(String name, Duration value) {
      if (value.compareTo(Duration.ofMillis(1)) < 0 || value.compareTo(Duration.ofDays(1)) > 0) {
        throw new IllegalArgumentException(name + " is " + value + ", must be 1 ms to 1 day");
      }
      return value;
    }
  }

  /** The options that only groups on GPUs use; the CPU backend ignores all of them. Immutable. */
  public static final class Cuda {
    /** Default of {@link #concurrentGroups}. */
    public static final int CONCURRENT_GROUPS_DEFAULT = 2;

    private static final Cuda DEFAULTS = new Cuda();

    private final MemoryProvider memory;
    private final int concurrentGroups;
    private final long arenaBytes;
    private final boolean exclusive;
    private final boolean programmaticLaunch;

    private Cuda() {
      memory = MemoryProvider.AUTO;
      concurrentGroups = CONCURRENT_GROUPS_DEFAULT;
      arenaBytes = 0;
      exclusive = false;
      programmaticLaunch = false;
    }

    private Cuda(Builder builder) {
      memory = builder.memory;
      concurrentGroups = builder.concurrentGroups;
      arenaBytes = builder.arenaBytes;
      exclusive = builder.exclusive;
      programmaticLaunch = builder.programmaticLaunch;
    }

    /** How members on GPUs reach each other's memory. */
    public MemoryProvider memory() {
      return memory;
    }

    /**
     * How many groups may have calls on one GPU at the same time. Each kernel of this group limits
     * its resident blocks to its share of the GPU, so that the kernels of that many groups fit at
     * once. Otherwise a kernel that waits for other members could occupy the GPU and keep the
     * kernel they wait for from starting, which is a deadlock.
     */
    public int concurrentGroups() {
      return concurrentGroups;
    }

    /**
     * Bytes of GPU memory that each process reserves for all its groups over {@link
     * MemoryProvider#NVSHMEM} together. The memory is allocated once, with the first such group; 0
     * for what that group needs. Set it if a process creates several such groups; all members must
     * set the same value.
     */
    public long arenaBytes() {
      return arenaBytes;
    }

    /**
     * Whether no other group's calls run on this group's GPUs while this group's do. Its calls may
     * then have more blocks than a GPU holds at once, which is faster from 1 MB, and {@link
     * #concurrentGroups} does not matter. If calls of another group do run meanwhile, both groups
     * can deadlock until {@link GroupConfig#timeout}; groups that were split from this one are
     * other groups, too. Calls on one stream never work at the same time.
     */
    public boolean exclusive() {
      return exclusive;
    }

    /**
     * Whether calls are enqueued with programmatic dependent launch: a call's kernel starts while
     * the kernel before it on the stream ends, which makes a call in a chain faster by 0.6 to 1 us.
     * In an {@link #exclusive} group it may start, and wait, as soon as the call before it has
     * started. While a kernel waits, its blocks are resident on the GPU, whether it is a call's
     * kernel or one of the caller's own that is launched so behind a call. It needs GPUs of compute
     * capability 9.0 or newer. By setting it the caller declares that every kernel of its own that
     * is launched with programmatic dependent launch on a stream with calls of this group executes
     * {@code griddepcontrol.wait} before it touches memory that others use, and before it ends;
     * kernels that are launched normally need nothing.
     */
    public boolean programmaticLaunch() {
      return programmaticLaunch;
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Cuda that
          && memory == that.memory
          && concurrentGroups == that.concurrentGroups
          && arenaBytes == that.arenaBytes
          && exclusive == that.exclusive
          && programmaticLaunch == that.programmaticLaunch;
    }

    @Override
    public int hashCode() {
      return Objects.hash(memory, concurrentGroups, arenaBytes, exclusive, programmaticLaunch);
    }

    @Override
    public String toString() {
      return String.format(
          Locale.ROOT,
          "Cuda[memory=%s, concurrentGroups=%d, arenaBytes=%d, exclusive=%b, programmaticLaunch=%b]",
          memory,
          concurrentGroups,
          arenaBytes,
          exclusive,
          programmaticLaunch);
    }

    /** Sets options of {@link GroupConfig.Builder#cuda}. Not thread-safe. */
    public static final class Builder {
      private static final int CONCURRENT_GROUPS_MAX = 64;
      private static final long ARENA_BYTES_MAX = 1L << 40;

      private MemoryProvider memory;
      private int concurrentGroups;
      private long arenaBytes;
      private boolean exclusive;
      private boolean programmaticLaunch;

      private Builder(Cuda start) {
        memory = start.memory;
        concurrentGroups = start.concurrentGroups;
        arenaBytes = start.arenaBytes;
        exclusive = start.exclusive;
        programmaticLaunch = start.programmaticLaunch;
      }

      /** See {@link Cuda#memory()}. */
      public Builder memory(MemoryProvider value) {
        memory = Objects.requireNonNull(value, "cuda.memory");
        return this;
      }

      /** See {@link Cuda#concurrentGroups()}; 1 to 64. */
      public Builder concurrentGroups(int value) {
        if (value < 1 || value > CONCURRENT_GROUPS_MAX) {
          throw new IllegalArgumentException(
              String.format(
                  Locale.ROOT,
                  "cuda.concurrentGroups is %d, must be 1 to %d",
                  value,
                  CONCURRENT_GROUPS_MAX));
        }
        concurrentGroups = value;
        return this;
      }

      /** See {@link Cuda#arenaBytes()}; 0 to 1 TiB. */
      public Builder arenaBytes(long value) {
        if (value < 0 || value > ARENA_BYTES_MAX) {
          throw new IllegalArgumentException(
              String.format(
                  Locale.ROOT, "cuda.arenaBytes is %d, must be 0 to %d", value, ARENA_BYTES_MAX));
        }
        arenaBytes = value;
        return this;
      }

      /** See {@link Cuda#exclusive()}. */
      public Builder exclusive(boolean value) {
        exclusive = value;
        return this;
      }

      /** See {@link Cuda#programmaticLaunch()}. */
      public Builder programmaticLaunch(boolean value) {
        programmaticLaunch = value;
        return this;
      }
    }
  }

  /**
   * The options of links, the TCP connections between members on different hosts. A group on one
   * host has no links, but its members listen for them while they join. Immutable.
   */
  public static final class Links {
    /** Default of {@link #spin}. */
    public static final Duration SPIN_DEFAULT = Duration.ofMillis(2);

    private static final Links DEFAULTS = new Links();

    private final int firstPort;
    private final int lastPort;
    private final String networkInterface;
    private final LinkSecurity security;
    private final int threads;
    private final Duration spin;

    private Links() {
      firstPort = 0;
      lastPort = 0;
      networkInterface = "";
      security = LinkSecurity.PLAIN;
      threads = 1;
      spin = SPIN_DEFAULT;
    }

    private Links(Builder builder) {
      firstPort = builder.firstPort;
      lastPort = builder.lastPort;
      networkInterface = builder.networkInterface;
      security = builder.security;
      threads = builder.threads;
      spin = builder.spin;
    }

    /**
     * The first TCP port on which a member may listen for the links of members on other hosts; 0
     * for any free port. Every member of a host takes a port of its own while the group is made,
     * also in a group on one host: that all are on one is known only when all have come.
     */
    public int firstPort() {
      return firstPort;
    }

    /** The last port of the range that begins with {@link #firstPort}; 0 for any free port. */
    public int lastPort() {
      return lastPort;
    }

    /**
     * Where members on other hosts reach a member: the name of a network interface, such as {@code
     * eth0}, an address, or a range of addresses, such as {@code 10.1.0.0/16}, of which each member
     * takes the first that its host has. Empty for the address from which the member reached the
     * rendezvous.
     */
    public String networkInterface() {
      return networkInterface;
    }

    /** How links between members on different hosts are protected. */
    public LinkSecurity security() {
      return security;
    }

    /**
     * How many link threads of a member carry data between its GPU and other hosts: 1, 2 or 4. The
     * largest useful number is 4 with one member on the largest host, 2 with two, else 1; a larger
     * value is lowered to it. Each thread takes a processor core while it polls. CUDA backend only.
     */
    public int threads() {
      return threads;
    }

    /**
     * How long a link thread polls without a pause after its last event. Then it polls every 2 ms,
     * and after another half second every 4 ms. Replays of a captured graph, by {@link DeviceGraph}
     * or other code, are not announced to it: the first one after a pause may begin so much later.
     * A call that is enqueued and has not begun keeps the threads polling. CUDA backend only.
     */
    public Duration spin() {
      return spin;
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Links that
          && firstPort == that.firstPort
          && lastPort == that.lastPort
          && networkInterface.equals(that.networkInterface)
          && security == that.security
          && threads == that.threads
          && spin.equals(that.spin);
    }

    @Override
    public int hashCode() {
      return Objects.hash(firstPort, lastPort, networkInterface, security, threads, spin);
    }

    @Override
    public String toString() {
      return String.format(
          Locale.ROOT,
          "Links[ports=%d-%d, networkInterface=%s, security=%s, threads=%d, spin=%s]",
          firstPort,
          lastPort,
          networkInterface,
          security,
          threads,
          spin);
    }

    /** Sets options of {@link GroupConfig.Builder#links}. Not thread-safe. */
    public static final class Builder {
      /** A name that Linux accepts; it has no colon either, which only an address has. */
      private static final Pattern INTERFACE_NAME = Pattern.compile("[!-~&&[^/:]]{0,15}");

      /** What was meant as an IPv4 address. */
      private static final Pattern DOTTED = Pattern.compile("[0-9]+(\\.[0-9]+){3}");

      private int firstPort;
      private int lastPort;
      private String networkInterface;
      private LinkSecurity security;
      private int threads;
      private Duration spin;

      private Builder(Links start) {
        firstPort = start.firstPort;
        lastPort = start.lastPort;
        networkInterface = start.networkInterface;
        security = start.security;
        threads = start.threads;
        spin = start.spin;
      }

      /** See {@link Links#firstPort()}; 1 to 65535, the first not after the last, or both 0. */
      public Builder ports(int first, int last) {
        boolean isRange = first >= 1 && first <= last && last <= 65535;
        if (!isRange && (first != 0 || last != 0)) {
          throw new IllegalArgumentException(
              String.format(
                  Locale.ROOT,
                  "links.ports are %d to %d, must be a range in 1 to 65535, or both 0",
                  first,
                  last));
        }
        firstPort = first;
        lastPort = last;
        return this;
      }

      /** See {@link Links#networkInterface()}. */
      public Builder networkInterface(String value) {
        boolean isName =
            INTERFACE_NAME.matcher(value).matches() && !DOTTED.matcher(value).matches();
        if (!isName && AddressRange.parse(value) == null) {
          throw new IllegalArgumentException(
              String.format(
                  Locale.ROOT,
                  "links.networkInterface is '%s', must be the name of a network interface, such as eth0, an address, or a range of addresses, such as 10.1.0.0/16",
                  value));
        }
        networkInterface = value;
        return this;
      }

      /** See {@link Links#security()}. */
      public Builder security(LinkSecurity value) {
        security = Objects.requireNonNull(value, "links.security");
        return this;
      }

      /** See {@link Links#threads()}; 1, 2 or 4. */
      public Builder threads(int value) {
        if (value != 1 && value != 2 && value != 4) {
          throw new IllegalArgumentException("links.threads is " + value + ", must be 1, 2 or 4");
        }
        threads = value;
        return this;
      }

      /** See {@link Links#spin()}; 1 us to 1 day. */
      public Builder spin(Duration value) {
        if (value.compareTo(Duration.ofNanos(1000)) < 0
            || value.compareTo(Duration.ofDays(1)) > 0) {
          throw new IllegalArgumentException("links.spin is " + value + ", must be 1 us to 1 day");
        }
        spin = value;
        return this;
      }
    }
  }
}
