/*
 * The C ABI of libnvrar: the only public header.
 *
 * Conventions. Every function returns a nvrar_status unless it says otherwise; NVRAR_OK is 0. After any other status
 * nvrar_last_error() holds one sentence for the calling thread. Counts are in elements, sizes in bytes, times in
 * nanoseconds; the stream is the last argument. Addresses and stream handles are passed as uint64_t. Structs begin with
 * their own size, so they can grow. No function prints, exits the process, installs a signal handler or throws.
 *
 * Life of a communicator (one member of a group):
 *   one member calls nvrar_unique_id; every member calls nvrar_prepare, which creates its own descriptor; the caller
 * carries all descriptors to all members (nvrar opens no socket for this) and calls nvrar_connect with them in rank
 * order. Collectives may start as soon as the caller knows that every member has connected.
 *
 * Threads. Any thread may call. The collectives of one communicator run one at a time, in the same order on all ranks:
 * a second thread that enters while a call runs gets NVRAR_INVALID_USAGE, and the running call is not affected.
 * nvrar_abort, nvrar_async_error, nvrar_failure_of, nvrar_refresh, nvrar_call_of, nvrar_link_of, nvrar_flight_record,
 * nvrar_statistics_of and nvrar_wait_of may be called at any time by any thread until nvrar_destroy is entered.
 *
 * Failure. A time-out, an abort or a mismatch poisons the communicator: the call that detects it and every later call
 * fail with the same status, and the output of a failed call is undefined. On GPUs, NVRAR_SYSTEM also poisons it if the
 * driver has enqueued a part of the call and refused the rest; if nothing was enqueued, the communicator is unchanged
 * and the call has no number. A call that fails while its stream captures poisons nothing, but the captured work must
 * not be launched.
 */
#ifndef NVRAR_H
#define NVRAR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(NVRAR_BUILDING)
#define NVRAR_API __attribute__((visibility("default")))
#else
#define NVRAR_API
#endif

/*
 * Incremented with every incompatible change of this header. New fields at the end of a struct are compatible: 0 means
 * the behaviour without them. Every struct therefore begins with its size, which the caller sets to its sizeof; all
 * elements of an array have the same size. If the caller's header is older, the library takes missing fields as 0 and
 * fills only the fields that the struct has. If it is newer, the library refuses (NVRAR_INVALID_ARGUMENT) a struct in
 * which a field that it does not know is not 0. In a struct that the library has filled, size is the number of bytes
 * filled.
 */
#define NVRAR_ABI_VERSION 4

#define NVRAR_UNIQUE_ID_BYTES 256
#define NVRAR_DESCRIPTOR_BYTES 512
#define NVRAR_HOST_BYTES 128
/* A group on the CPU has at most so many ranks, in at most NVRAR_MAX_NODES nodes; on GPUs one host has at most
 * NVRAR_MAX_RANKS_PER_NODE, in up to 8 hosts. */
#define NVRAR_MAX_RANKS_PER_NODE 8
#define NVRAR_MAX_NODES 64
#define NVRAR_MAX_WORLD_SIZE (NVRAR_MAX_NODES * NVRAR_MAX_RANKS_PER_NODE)
/* The largest number of rules in a tuning table. */
#define NVRAR_MAX_TUNING_RULES 128
/* The largest blocks and tiles of a rule. */
#define NVRAR_MAX_RULE_BLOCKS 1024
#define NVRAR_MAX_RULE_TILES 32
/* The longest row of a fused all-reduce, in elements. */
#define NVRAR_MAX_HIDDEN 16384
/* The largest k of nvrar_top_k. */
#define NVRAR_MAX_TOP_K 1024
/* The number of calls that a rank's flight record keeps. */
#define NVRAR_FLIGHT_RECORDS 1024

typedef struct nvrar_comm nvrar_comm;

typedef int32_t nvrar_status;
enum {
  NVRAR_OK = 0,
  NVRAR_INVALID_ARGUMENT = 1, /* the caller's mistake; nothing was done, the communicator is unchanged */
  NVRAR_INVALID_USAGE = 2,    /* wrong state: not connected, or a second call while one runs; unchanged, too */
  NVRAR_SYSTEM = 3,           /* the operating system refused: memory, file descriptors, mapping a peer */
  NVRAR_UNAVAILABLE = 4,      /* this backend cannot run here; the message says what is missing */
  NVRAR_MISMATCH = 5,         /* members differ: library build, config, or the calls themselves */
  NVRAR_TIMEOUT = 6,          /* the call's deadline passed */
  NVRAR_ABORTED = 7,          /* nvrar_abort was called, here or by a peer */
  NVRAR_INTERNAL = 8,         /* a defect of this library */
  NVRAR_PEER_LOST = 9         /* the connection to a rank on another host broke */
};

enum { NVRAR_BACKEND_CPU = 1, NVRAR_BACKEND_CUDA = 2 };

/* The codes of NCCL's ncclDataType_t and ncclRedOp_t; the gaps are types of NCCL that are not supported. */
enum {
  NVRAR_INT8 = 0,
  NVRAR_UINT8 = 1,
  NVRAR_INT32 = 2,
  NVRAR_INT64 = 4,
  NVRAR_FLOAT16 = 6,
  NVRAR_FLOAT32 = 7,
  NVRAR_FLOAT64 = 8,
  NVRAR_BFLOAT16 = 9
};
/* NVRAR_AVG divides the sum by the world size; floats only. */
enum { NVRAR_SUM = 0, NVRAR_PRODUCT = 1, NVRAR_MAX = 2, NVRAR_MIN = 3, NVRAR_AVG = 4 };

enum {
  NVRAR_ALL_REDUCE = 1,
  NVRAR_ALL_GATHER = 2,
  NVRAR_BROADCAST = 3,
  NVRAR_BARRIER = 4,
  NVRAR_REDUCE = 5,
  NVRAR_REDUCE_SCATTER = 6,
  NVRAR_ALL_TO_ALL = 7,
  NVRAR_SEND = 8,
  NVRAR_RECV = 9
};

/* How an all-reduce runs. All give the same bits. AUTO: by the first tuning rule that matches, else by size. */
enum {
  NVRAR_ALGORITHM_AUTO = 0,
  NVRAR_ALGORITHM_ONE_SHOT = 1,    /* every rank sends all its data to all ranks */
  NVRAR_ALGORITHM_TWO_SHOT = 2,    /* every rank sums a slice and sends the result to all ranks */
  NVRAR_ALGORITHM_HIERARCHICAL = 3 /* slices are summed within the node, then between nodes; needs more than one node */
};

/* AUTO: LOCAL if all ranks are in one process, else NVSHMEM if all ranks can use it, else IPC. */
enum { NVRAR_MEMORY_AUTO = 0, NVRAR_MEMORY_NVSHMEM = 1, NVRAR_MEMORY_IPC = 2, NVRAR_MEMORY_LOCAL = 3 };

/* Which ranks are linked: those on different hosts; or all that are in different nodes (ranks_per_node), also on one
 * host, for tests and measurements. */
enum { NVRAR_LINKS_BETWEEN_HOSTS = 0, NVRAR_LINKS_BETWEEN_NODES = 1 };
#define NVRAR_LINK_ADDRESS_BYTES 48
#define NVRAR_LINK_END_BYTES 64
#define NVRAR_LINK_SECRET_BYTES 32
/* The ends of every link prove to each other that they know the group's secret. ENCRYPTED also keeps what they send
 * secret and unchanged, by AES-256-GCM; it needs OpenSSL's libcrypto on every host. */
enum { NVRAR_LINK_PLAIN = 0, NVRAR_LINK_ENCRYPTED = 1 };

typedef struct nvrar_config {
  uint32_t size;          /* sizeof(nvrar_config) */
  int32_t backend;        /* NVRAR_BACKEND_* */
  int32_t rank;           /* 0 <= rank < world_size */
  int32_t world_size;     /* 1 <= world_size <= NVRAR_MAX_WORLD_SIZE; on GPUs NVRAR_MAX_RANKS_PER_NODE, or with a
                             link_address eight times that, in up to 8 nodes */
  int32_t device;         /* device ordinal; ignored by the CPU backend */
  int32_t ranks_per_node; /* divides the ranks of one host into nodes: each has this many consecutive ranks, the last
                             node may have fewer; 0 (or world_size and more): every host is a node. A node has at most
                             NVRAR_MAX_RANKS_PER_NODE ranks */
  uint64_t ring_bytes;    /* size of one sentinel area, which is what a rank receives in one hop of one launch; 0: the
                             backend's default. At least 8 KiB, 32 KiB in several nodes; with more than
                             NVRAR_MAX_RANKS_PER_NODE ranks 96 KiB, and 1 KiB for each rank */
  uint64_t timeout_ns;    /* the longest that a call may go without progress; restarts with each launch of a collective,
                             and in a batch whenever any of its transfers makes progress; > 0 */
  /* The CPU backend ignores the fields from here to `reserved`, except for join_timeout_ns. */
  int32_t memory;             /* NVRAR_MEMORY_*: how the ranks reach each other's rings */
  uint32_t concurrent_groups; /* how many groups may have calls on a device at once, so that the blocks of all fit; 0:
                                 2, at most 64 */
  uint32_t shared_devices;    /* 1: several ranks may share one GPU; for tests */
  uint32_t exclusive;         /* 1: no other group's calls run on the group's devices meanwhile. Its calls may then have
                                 more blocks than a device holds at once, and concurrent_groups does not matter */
  uint64_t arena_bytes; /* memory that a process reserves for all of its groups over NVSHMEM together, allocated once;
                           0: what this group needs */
  uint64_t join_timeout_ns;     /* how long nvrar_connect waits for other ranks, which it does if it initialises NVSHMEM
                                   or makes links; 0: timeout_ns */
  uint32_t programmatic_launch; /* 1: calls are enqueued with programmatic dependent launch, so that a call's kernel
                                   starts while the kernel before it ends; in exclusive groups it may start, and wait,
                                   as soon as the call before it has started, and holds room on the device meanwhile,
                                   as a caller's own kernel does. The caller's own kernels on these streams that are
                                   launched so must wait for the kernel before them (griddepcontrol.wait) before they
                                   end and before they touch memory. Needs compute capability 9.0 */
  uint32_t reserved;            /* 0 */
  /* Links: TCP connections between ranks that do not share memory. nvrar_connect makes them, within join_timeout_ns. On
     GPUs, two-shot all-reduces are for groups that have none. */
  char link_address[NVRAR_LINK_ADDRESS_BYTES];  /* the numeric IPv4 or IPv6 address of this host at which this rank
                                                   listens for ranks of other hosts, as text that ends with a 0; "": it
                                                   has no links, and a group whose ranks are on several hosts is refused
                                                 */
  uint16_t link_port_first;                     /* it listens at a free port from this one ... */
  uint16_t link_port_last;                      /* ... to this one; both 0: at any */
  int32_t links;                                /* NVRAR_LINKS_* */
  uint32_t link_security;                       /* NVRAR_LINK_* */
  uint32_t link_threads;                        /* on GPUs: how many threads of a rank serve its links: 1, 2 or 4, the
                                                   same on all ranks. With two ranks in the largest node more than 2
                                                   count as 2, with more ranks as 1; 0: 1 */
  uint8_t link_secret[NVRAR_LINK_SECRET_BYTES]; /* the same on all ranks and known to them alone: by it the ends of a
                                                   link recognise each other. All 0: unique_id is known to them alone */
  uint64_t link_spin_ns; /* on GPUs: how long such a thread polls without a pause after its last event. Then it polls
                            every 2 ms, and after another half second every 4 ms. Replays of a captured graph are not
                            announced to it: the first one after a pause may begin so much later. A call that is
                            enqueued and has not begun keeps it polling. 0: 2 ms */
} nvrar_config;

/* NVRAR_ARCHITECTURE_X86_64 is a CPU; a GPU's is 10 * major + minor of its compute capability. */
enum { NVRAR_ARCHITECTURE_ANY = 0, NVRAR_ARCHITECTURE_X86_64 = 1 };

/* One rule of a tuning table: how a call of at most bytes_max bytes (count * element size) runs. The first rule that
 * matches the call and the group decides; of a call that names its algorithm, the first that has the same. A rule with
 * NVRAR_ALGORITHM_HIERARCHICAL never matches a group in one node. blocks, threads and tiles are the shape of launches
 * on GPUs, of fused all-reduces excepted; they are limits, within which a launch is as large as its message needs. */
typedef struct nvrar_tuning_rule {
  uint32_t size;          /* sizeof(nvrar_tuning_rule), the same in all elements of an array */
  int32_t data_type;      /* NVRAR_FLOAT32 ..., or -1: any */
  int32_t world_size;     /* 0: any */
  int32_t ranks_per_node; /* 0: any; a group in one node counts as having its world size here */
  int32_t algorithm;      /* NVRAR_ALGORITHM_ONE_SHOT ..., not AUTO; of other collectives than all-reduce AUTO */
  int32_t collective;     /* NVRAR_ALL_REDUCE, NVRAR_ALL_GATHER ..., not NVRAR_BARRIER; 0: NVRAR_ALL_REDUCE */
  uint64_t bytes_max;
  int32_t architecture; /* NVRAR_ARCHITECTURE_*, or that of a GPU; nvrar_prepare refuses a table all of whose rules
                           name others than this rank's */
  uint32_t blocks;      /* the most blocks that process data, up to NVRAR_MAX_RULE_BLOCKS; 0: the library's choice */
  uint32_t threads;     /* the most threads of a block, a multiple of 32 up to 1024; 0: by tiles */
  uint32_t tiles;       /* how many tiles a block processes at once, up to NVRAR_MAX_RULE_TILES, or as many as the
                           kernel can; 0: by threads, else the library's choice. Not both. */
} nvrar_tuning_rule;

/* What a rank was doing, as recorded by the rank itself. */
enum {
  NVRAR_CALL_NONE = 0,
  NVRAR_CALL_RUNNING = 1,
  NVRAR_CALL_DONE = 2,
  NVRAR_CALL_FAILED = 3,
  NVRAR_CALL_QUEUED = 4 /* enqueued on a stream, and not known to have begun */
};
typedef struct nvrar_call {
  uint32_t size;      /* sizeof(nvrar_call) */
  int32_t state;      /* NVRAR_CALL_* */
  uint64_t sequence;  /* number of the collective in this communicator, the first is 1; for a send or recv: its number
                         among the transfers from its sender to its receiver */
  uint64_t count;     /* elements, as the caller gave them */
  int32_t collective; /* NVRAR_ALL_REDUCE ... */
  int32_t data_type;  /* NVRAR_FLOAT32 ..., or -1 */
  int32_t op;         /* NVRAR_SUM ..., or -1 */
  int32_t root;       /* root of a broadcast or reduce; the other rank of a send or recv; else -1 */
  int32_t algorithm;  /* NVRAR_ALGORITHM_* of an all-reduce; 0 if there is no choice */
  uint32_t transfers; /* number of transfers in the batch of this send or recv; 0 for collectives */
  uint64_t launches;  /* number of launches that the plan splits the call into */
  uint64_t group_sequence; /* number of the last collective that this rank has begun, also if this call is a transfer */
  /* CLOCK_MONOTONIC of the host; 0: unknown, because this machine's counter has no constant rate, or the rank is on
     another host */
  uint64_t begin_ns;
  uint64_t end_ns; /* the same; 0 while running */
  int32_t fusion;  /* NVRAR_FUSION_* of a fused all-reduce; else 0 */
  uint32_t hidden; /* elements of a row of a fused all-reduce; k of the all-gather of a top-k; else 0 */
} nvrar_call;

/* What this member has called so far of one collective. */
#define NVRAR_STATISTICS_TYPES 11 /* indices of data types: the code plus 1; 0 for calls without data */
#define NVRAR_DURATION_BUCKETS 27
#define NVRAR_SHORTEST_BUCKET_NS 1024
typedef struct nvrar_statistics {
  uint32_t size;                             /* sizeof(nvrar_statistics), set by the caller */
  int32_t collective;                        /* NVRAR_ALL_REDUCE ... NVRAR_RECV */
  uint64_t failed;                           /* calls that have failed once they had begun */
  uint64_t timed_ns;                         /* how long the calls in durations took together */
  uint64_t calls[NVRAR_STATISTICS_TYPES];    /* that have begun */
  uint64_t elements[NVRAR_STATISTICS_TYPES]; /* the counts of these calls, as the caller gave them */
  /* How many took at most NVRAR_SHORTEST_BUCKET_NS, twice that, four times that, and so on; the last bucket has all
   * that took longer. Only of calls that run while the caller waits: not on GPUs, where calls are enqueued. */
  uint64_t durations[NVRAR_DURATION_BUCKETS];
} nvrar_statistics;

/* How long this member has waited for another rank, beyond the first microseconds of each wait. */
typedef struct nvrar_wait {
  uint32_t size;     /* sizeof(nvrar_wait), set by the caller */
  uint32_t reserved; /* 0 */
  uint64_t count;
  uint64_t total_ns; /* a wait for any of several ranks counts for each of them */
} nvrar_wait;

/* One send or recv of a batch. */
typedef struct nvrar_transfer {
  uint32_t size; /* sizeof(nvrar_transfer), the same in all elements of an array */
  int32_t kind;  /* NVRAR_SEND, NVRAR_RECV */
  int32_t peer;
  int32_t data_type;
  uint64_t address;
  uint64_t count;
} nvrar_transfer;

/* Why a communicator is poisoned. */
typedef struct nvrar_failure {
  uint32_t size;       /* sizeof(nvrar_failure), set by the caller */
  nvrar_status status; /* NVRAR_OK while nothing failed */
  uint64_t sequence; /* number of the failed call, as in nvrar_call; after an abort: of the collective that was running
                        on the aborting rank, 0 if none was */
  uint64_t missing[2]; /* bit r of word r/64: rank r had not sent what the call waited for (NVRAR_TIMEOUT), made a
                          different call (NVRAR_MISMATCH), or is the one that was lost (NVRAR_PEER_LOST) */
  int32_t origin;      /* the rank that found the failure: the other end of the connection (NVRAR_PEER_LOST) */
  uint32_t reserved;   /* 0 */
  uint64_t missing_from_128[6]; /* as missing, for the ranks from 128 on */
} nvrar_failure;

/* The connection to a rank on another host. */
enum {
  NVRAR_LINK_NONE = 0, /* the rank is on this host, or the communicator is not connected */
  NVRAR_LINK_OPEN = 1,
  NVRAR_LINK_CLOSED = 2, /* the rank has left the group */
  NVRAR_LINK_BROKEN = 3
};
typedef struct nvrar_link {
  uint32_t size;                     /* sizeof(nvrar_link), set by the caller */
  int32_t state;                     /* NVRAR_LINK_* */
  char local[NVRAR_LINK_END_BYTES];  /* this rank's end, such as 10.0.0.1:40112 or [fd00::1]:40112; "" if there is none
                                      */
  char remote[NVRAR_LINK_END_BYTES]; /* the other rank's end */
  uint64_t asked;                    /* how often nvrar_refresh has asked */
  uint64_t answered; /* which of these questions the other rank has answered last; everything that it sent before the
                      * answer has arrived */
} nvrar_link;

/* NVRAR_ABI_VERSION of the library that is loaded. */
NVRAR_API uint32_t nvrar_abi_version(void);

/* A short string that differs between builds whose members cannot be in one group. Never NULL; static storage. */
NVRAR_API const char* nvrar_build_id(void);

/* The calling thread's last error: one sentence, "" if none. Valid until the thread's next call of a function here. */
NVRAR_API const char* nvrar_last_error(void);

/* NVRAR_OK if the backend can run on this machine, else NVRAR_UNAVAILABLE and the reason. */
NVRAR_API nvrar_status nvrar_probe(int32_t backend);

/*
 * Finds and opens NVSHMEM, which every group of this process uses from then on; without this call, the first group that
 * could use NVSHMEM does the same with place NULL. place is the path of libnvshmem_host.so.3, of its directory, or of
 * the directory that has it in lib; no other place is tried. With NULL or "" NVSHMEM is searched for (NVSHMEM_HOME,
 * Python's environments, the system). NVRAR_OK: text[text_bytes] holds the version and the place, truncated if they do
 * not fit; if NVSHMEM is open already, those of the open one. NVRAR_UNAVAILABLE: the message names every place that was
 * tried and what was wrong there, or, if a library at another place is already open, both places. Initialises nothing.
 */
NVRAR_API nvrar_status nvrar_find_nvshmem(const char* place, char* text, uint32_t text_bytes);

/* Opens OpenSSL's libcrypto, which encrypted links use (NVRAR_LINK_ENCRYPTED). NVRAR_OK: text[text_bytes] holds its
 * version and its file. NVRAR_UNAVAILABLE: the message says what was tried. */
NVRAR_API nvrar_status nvrar_find_libcrypto(char* text, uint32_t text_bytes);

/* Says in which part of which machine this process runs: text[text_bytes], of at most NVRAR_HOST_BYTES with its end, is
 * equal for two processes if nvrar_connect takes them to be on one host, where they share memory.
 * NVRAR_INVALID_ARGUMENT: the room is too small. */
NVRAR_API nvrar_status nvrar_host(char* text, uint32_t text_bytes);

/*
 * Sets close-on-exec on TCP sockets of this process that other code opened without it, as the JDK does: programs that
 * the process starts then do not inherit them, and do not keep them open when the process ends. remote_port 0: every
 * socket that listens at local_port; else every socket that connects local_port to remote_port, on any address. A
 * program that starts between the socket's creation and this call still inherits the socket. Looks at all descriptors
 * of the process (microseconds each) and never waits; any thread may call it at any time. NVRAR_INVALID_ARGUMENT: the
 * process has no such socket, or a port is none. NVRAR_SYSTEM: /proc/self/fd cannot be read.
 */
NVRAR_API nvrar_status nvrar_close_on_exec(int32_t local_port, int32_t remote_port);

/* Fills out[NVRAR_UNIQUE_ID_BYTES] with a new group's id. The calling process must stay alive until all members have
 * connected. */
NVRAR_API nvrar_status nvrar_unique_id(int32_t backend, uint8_t* out);

/*
 * Reserves this member's memory, fills its rings (on GPUs nvrar_connect does), and writes
 * descriptor[NVRAR_DESCRIPTOR_BYTES] for the other members. rules[rule_count] is the tuning table, NULL if rule_count
 * is 0; it is copied. unique_id[NVRAR_UNIQUE_ID_BYTES], the table and ranks_per_node must be the same on all members: a
 * difference is NVRAR_MISMATCH in nvrar_connect. On success *out is the new communicator; otherwise nothing was
 * allocated.
 */
NVRAR_API nvrar_status nvrar_prepare(const nvrar_config* config, const nvrar_tuning_rule* rules, uint32_t rule_count,
                                     const uint8_t* unique_id, uint8_t* descriptor, nvrar_comm** out);

/*
 * Replaces the tuning table, for the calls that follow; graphs that were captured keep what they have. All members must
 * do so between the same two calls. For measurements of many tables in one group.
 */
NVRAR_API nvrar_status nvrar_set_tuning(nvrar_comm* comm, const nvrar_tuning_rule* rules, uint32_t rule_count);

/*
 * Maps the peers' memory, and links this rank to those on other hosts. descriptors: world_size x
 * NVRAR_DESCRIPTOR_BYTES in rank order. Called once: NVRAR_INVALID_USAGE after a success, and after a failure that came
 * once the peers' memory was mapped, such as a link that did not come about. The communicator can then only be
 * destroyed. A failure before, such as a descriptor that is refused, leaves it as it was.
 */
NVRAR_API nvrar_status nvrar_connect(nvrar_comm* comm, const uint8_t* descriptors);

/*
 * On the CPU backend a collective returns when this rank's result is complete; on the CUDA backend, when it is enqueued
 * on the stream. send may equal recv (in place; for nvrar_all_gather: send == recv + rank * count elements; for
 * nvrar_reduce_scatter: recv == send + rank * count elements); any other overlap is NVRAR_INVALID_ARGUMENT. Addresses
 * need only the alignment of an element. All ranks must pass the same count, type, op, root and algorithm; a difference
 * is NVRAR_MISMATCH on all of them. A call with count 0 sends nothing and waits for no rank, but is a call with a
 * number of its own: if other ranks' count is not 0, the next call that sends is the mismatch (or their call times out,
 * if that rank makes none). A call that is refused (NVRAR_INVALID_ARGUMENT, NVRAR_INVALID_USAGE) has no number.
 *
 * Reductions combine the operands in one order, a function of the sizes of the nodes alone (of the hosts, if there are
 * several): within a node in rank order from its first rank's value, then over the nodes level by level (the partial
 * results 2i and 2i + 1 are combined, an odd last one passes up unchanged). Every rank and every algorithm gives the
 * same bits. 16- and 32-bit floats accumulate in float32, float64 in float64, integers wrap in their own width; the
 * result is rounded once, after AVG's division. MIN and MAX propagate NaN and order -0 below +0. In a group of one the
 * input is copied unchanged. The calling thread's rounding and denormal modes (MXCSR) have no effect: a call computes
 * with the defaults and restores the thread's modes afterwards. A sum may leave floating-point exception flags raised.
 */

/* recv[i] = op over ranks of send[i], count elements. algorithm: NVRAR_ALGORITHM_*; HIERARCHICAL in a group in one node
 * is NVRAR_INVALID_ARGUMENT. */
NVRAR_API nvrar_status nvrar_all_reduce(nvrar_comm* comm, uint64_t send, uint64_t recv, uint64_t count,
                                        int32_t data_type, int32_t op, int32_t algorithm, uint64_t stream);

/* On rank root recv[i] = op over ranks of send[i]; recv is written on the root only and may be 0 elsewhere. */
NVRAR_API nvrar_status nvrar_reduce(nvrar_comm* comm, uint64_t send, uint64_t recv, uint64_t count, int32_t data_type,
                                    int32_t op, int32_t root, uint64_t stream);

/* recv[i] = op over ranks of send[rank * count + i]; count elements of recv, world_size * count of send. */
NVRAR_API nvrar_status nvrar_reduce_scatter(nvrar_comm* comm, uint64_t send, uint64_t recv, uint64_t count,
                                            int32_t data_type, int32_t op, uint64_t stream);

/* recv[r * count + i] = send[rank * count + i] of rank r; send and recv hold world_size * count elements. */
NVRAR_API nvrar_status nvrar_all_to_all(nvrar_comm* comm, uint64_t send, uint64_t recv, uint64_t count,
                                        int32_t data_type, uint64_t stream);

/* recv[r * count + i] = send[i] of rank r; recv holds world_size * count elements. */
NVRAR_API nvrar_status nvrar_all_gather(nvrar_comm* comm, uint64_t send, uint64_t recv, uint64_t count,
                                        int32_t data_type, uint64_t stream);

/* recv[i] = send[i] of rank root; send is read on the root only and may be 0 elsewhere. */
NVRAR_API nvrar_status nvrar_broadcast(nvrar_comm* comm, uint64_t send, uint64_t recv, uint64_t count,
                                       int32_t data_type, int32_t root, uint64_t stream);

/*
 * What an all-reduce of rows does with its sums before it stores them. x is the sum over ranks (NVRAR_SUM), rounded to
 * the data type; r, w and y are the elements of residual, weight and output; everything is computed in float32, and
 * each element that is stored is rounded once to the data type. A NaN result is the same as in a reduction.
 *
 * Sums of squares. The order of their additions is a function of hidden and of the data type alone. Let a word be four
 * bytes of a row of h: its square is low * low + high * high of its two 16-bit elements, or the square of its float32.
 * The row is divided into parts of 32 words, the last of which is filled with zeros; a part's sum combines adjacent
 * words as a balanced binary tree. `squares` receives these sums, ceil(hidden * element size / 128) for each row. For
 * RMS_NORM, four adjacent parts make a run, (p0 + p1) + (p2 + p3), where absent parts are 0; lane i of 32 adds the runs
 * i, i + 32, i + 64, ... in this order, and the lanes are combined as a balanced binary tree. No multiplication and
 * addition are contracted. s is 1 / sqrt(sum / hidden + eps), each operation correctly rounded.
 */
enum {
  NVRAR_FUSION_RESIDUAL = 1, /* y = x + r */
  NVRAR_FUSION_BIAS = 2,     /* y = x + w; weight is the bias */
  NVRAR_FUSION_RMS_NORM = 3, /* h = x + r, stored in residual_out; y = (h * s) * w with the stored h */
  NVRAR_FUSION_RMS_FOLD = 4  /* h = x + r, stored in residual_out; y = h * w with the stored h; squares: a consumer
                                scales what it computes of y, for each row, by s */
};

/* rows x hidden elements, row after row, in input, residual, residual_out and output; hidden elements in weight. Fields
 * that the form does not use are 0. */
typedef struct nvrar_fused_all_reduce {
  uint32_t size;         /* sizeof(nvrar_fused_all_reduce) */
  int32_t form;          /* NVRAR_FUSION_* */
  int32_t data_type;     /* NVRAR_BFLOAT16, NVRAR_FLOAT16 or NVRAR_FLOAT32, of all but squares */
  int32_t algorithm;     /* NVRAR_ALGORITHM_* */
  uint32_t rows;         /* 0: a call without data, as any with count 0 */
  uint32_t hidden;       /* a multiple of 8, at most NVRAR_MAX_HIDDEN */
  float eps;             /* of RMS_NORM: at least 0 and finite */
  uint32_t reserved;     /* 0 */
  uint64_t input;        /* what is summed over ranks */
  uint64_t residual;     /* all but BIAS */
  uint64_t weight;       /* all but RESIDUAL */
  uint64_t residual_out; /* RMS_NORM and RMS_FOLD */
  uint64_t output;
  uint64_t squares; /* RMS_FOLD: float32 */
} nvrar_fused_all_reduce;

/* All addresses are multiples of 16. output and residual_out may each be at the address of input or residual; any other
 * overlap with what the call writes is NVRAR_INVALID_ARGUMENT. All ranks must pass the same form, type, rows, hidden,
 * eps and algorithm, as in nvrar_all_reduce; they need not pass the same residual and weight, but the results are the
 * same on all ranks, bit for bit, only if they do. A group on GPUs of one host needs all of its ranks in one node, and
 * for any form but RESIDUAL ring_bytes must hold world_size rows, each rounded up to 512 bytes. */
NVRAR_API nvrar_status nvrar_all_reduce_fused(nvrar_comm* comm, const nvrar_fused_all_reduce* call, uint64_t stream);

/* A top-k of rows whose columns are divided among the ranks, as the logits of a vocabulary are. */
typedef struct nvrar_selection {
  uint32_t size;        /* sizeof(nvrar_selection) */
  int32_t data_type;    /* NVRAR_BFLOAT16, NVRAR_FLOAT16 or NVRAR_FLOAT32, of input and values */
  uint32_t rows;        /* 0: a call without data, as any with count 0 */
  uint32_t k;           /* 1 (argMax) to NVRAR_MAX_TOP_K */
  uint64_t columns;     /* of a row on this rank; ranks may have different numbers, also 0 */
  uint64_t first_index; /* of this rank's first column; the last index is at most 2^31 - 1 */
  uint64_t input;       /* rows x columns elements, row after row */
  uint64_t values;      /* rows x k elements, on every rank; 0: not stored */
  uint64_t indices;     /* rows x k int32, on every rank */
} nvrar_selection;

/* Of each row the k greatest elements over all ranks, the greatest first, and of equal ones that of the lowest index
 * first; -0 is below +0. On every rank `values` has the elements and `indices` where they stand in the row: first_index
 * of their rank and their column there. If a row has a NaN on any rank, all of its values are NaN and all of its
 * indices -1. If it has fewer than k columns on all ranks together, what is missing has the value -infinity and the
 * index -1. Columns that have the same index on several ranks count as several. All ranks must pass the same type, rows
 * and k; values may be 0 on some of them. No buffer may overlap another one. What ranks exchange is an all-gather, or
 * several where rows x k is more than 8192, and the flight record shows it as such: allGather int64[rows x k]. */
NVRAR_API nvrar_status nvrar_top_k(nvrar_comm* comm, const nvrar_selection* selection, uint64_t stream);

/* Completes when every rank has entered. */
NVRAR_API nvrar_status nvrar_barrier(nvrar_comm* comm, uint64_t stream);

/*
 * Runs all transfers together. The batch is complete when all are: the recvs have their data, and the sends' buffers
 * may be written again. (The CPU backend returns then, the CUDA backend when the batch is enqueued.) Data that is sent
 * before the peer's recv waits in a ring of ring_bytes / 16 (half of that is data); a larger send waits for its recv.
 * Within a batch, sends never wait for the batch's recvs or the other way round. So ranks that exchange more than a
 * ring holds must do it in one batch each; separate calls can deadlock.
 *
 * The n-th send to a peer matches that peer's n-th recv from this rank. Nothing else is ordered, not even against
 * collectives, and ranks without a transfer between them need not both call. A matched pair that differs in count or
 * type is NVRAR_MISMATCH on all ranks. A transfer of count 0 sends nothing and waits for no rank, but has a number: if
 * the other side's count is not 0, that transfer is matched with the pair's next one, which is the mismatch (or it
 * times out, if there is none).
 *
 * A transfer to oneself needs its send and its recv, of the same count and type, in one batch. A buffer that is
 * received into may not overlap any other buffer of the batch. The batch has one timeout, which restarts whenever any
 * transfer makes progress, so a stuck transfer is reported once no transfer makes progress. A batch is one call (see
 * Threads); transfer_count 0 does nothing. A batch that is refused (NVRAR_INVALID_ARGUMENT, NVRAR_INVALID_USAGE) has
 * moved nothing.
 */
NVRAR_API nvrar_status nvrar_batch(nvrar_comm* comm, const nvrar_transfer* transfers, uint32_t transfer_count,
                                   uint64_t stream);

/* Ends the running call and all later calls of this member, and of every peer that shares memory with it or is linked
 * to it, with NVRAR_ABORTED. An abort before or during nvrar_connect reaches the peers by nvrar_connect, which then
 * takes up to a second longer to link and tell those on other hosts. Waits for no rank and no GPU, but for another
 * thread that is just sending on a link, whose sends do not block. */
NVRAR_API nvrar_status nvrar_abort(nvrar_comm* comm);

/* Returns NVRAR_OK, or the status that poisoned this communicator; then nvrar_last_error() says why. On the CUDA
 * backend this also reports failures of work that was enqueued successfully. */
NVRAR_API nvrar_status nvrar_async_error(nvrar_comm* comm);

/* Fills *out with why this communicator is poisoned. */
NVRAR_API nvrar_status nvrar_failure_of(nvrar_comm* comm, nvrar_failure* out);

/* Asks the ranks on other hosts what they are doing. wait: 1 waits at most 100 ms for the answers; 0 does not wait.
 * Does nothing if there are no such ranks. */
NVRAR_API nvrar_status nvrar_refresh(nvrar_comm* comm, int32_t wait);

/* Fills *out, whose size the caller has set, with the call that a rank is in, or with its last call; never waits. Every
 * rank of this host can be asked for, even after its process died; of a rank on another host it is what that rank last
 * told, which it does when it is asked (nvrar_refresh, and calls that have waited for 50 ms) and when the group fails.
 * On the CUDA backend a rank's record is updated when the rank itself calls this function or nvrar_flight_record, and
 * when the group fails; a captured call counts as done once it is captured. */
NVRAR_API nvrar_status nvrar_call_of(nvrar_comm* comm, int32_t rank, nvrar_call* out);

/* Fills *out, whose size the caller has set, with the connection to a rank; never waits. */
NVRAR_API nvrar_status nvrar_link_of(nvrar_comm* comm, int32_t rank, nvrar_link* out);

/* Fills out[0 .. *count) with the last calls of a rank, oldest first: the newest `capacity` calls, and at most
 * NVRAR_FLIGHT_RECORDS. The caller sets out[0].size before every call, and the entries lie that far apart. Works for
 * the same ranks as nvrar_call_of. A call that begins meanwhile may be missing. */
NVRAR_API nvrar_status nvrar_flight_record(nvrar_comm* comm, int32_t rank, nvrar_call* out, uint32_t capacity,
                                           uint32_t* count);

/* Fills *out, whose size the caller has set, with what this member has called of a collective so far; never waits. A
 * graph on a GPU counts once, when its calls are captured. */
NVRAR_API nvrar_status nvrar_statistics_of(nvrar_comm* comm, int32_t collective, nvrar_statistics* out);

/* Fills *out, whose size the caller has set, with how long this member has waited for a rank; never waits. 0 on GPUs,
 * whose kernels wait, and before nvrar_connect. */
NVRAR_API nvrar_status nvrar_wait_of(nvrar_comm* comm, int32_t rank, nvrar_wait* out);

/* Where the algorithm of this member's last call is, NVRAR_ALGORITHM_*; readable until nvrar_destroy. */
NVRAR_API const int32_t* nvrar_last_algorithm(nvrar_comm* comm);

/*
 * The last calls of a member of another process on this host, for who looks on and is in no group: descriptor is what
 * nvrar_prepare gave there. Fills out[0 .. *count) as nvrar_flight_record does, *begun with the number of calls, sends
 * and recvs that it has begun so far, and *failure with why its communicator is poisoned, NVRAR_OK if it is not. Only
 * reads its memory, so it need not run; of what a GPU executes it sees what the member has last noted. The first use in
 * a process takes 10 ms. NVRAR_MISMATCH: it has another build of the library. NVRAR_SYSTEM: it has ended, has destroyed
 * its communicator, belongs to another user, or is not visible from this process.
 */
NVRAR_API nvrar_status nvrar_look_at(const uint8_t* descriptor, nvrar_call* out, uint32_t capacity, uint32_t* count,
                                     uint64_t* begun, nvrar_status* failure);

/*
 * Ends a running call (as nvrar_abort does), waits for it to leave, and frees all resources of this member. NULL does
 * nothing. On the CUDA backend, enqueued work has one second to complete in order and is then aborted as by
 * nvrar_abort. The GPU itself counts the completed work, so other work is not waited for, streams may already have been
 * destroyed, and captures on any stream by any thread are not disturbed. The freeing itself has no time limit: the
 * driver may free memory only after the GPU has executed everything enqueued before. NVRAR_INTERNAL: a call did not
 * return within 10 s, or enqueued work did not end within another 10 s (perhaps because it is queued behind long work
 * of the caller). Then nothing is freed, the communicator is in the state after nvrar_abort, and nvrar_destroy may be
 * called again.
 *
 * A rank that has links first waits until the hosts of its peers have all that it has sent, at most timeout_ns and one
 * second, and not once the group has failed: a peer may still need it to complete the last call.
 *
 * A rank on a GPU, unless its group has failed, waits at most one second until the ranks in other processes have left,
 * too: they may write to its memory until then. If they have not, that memory is freed when this process next creates
 * or destroys a group on GPUs and they have left.
 *
 * Graphs that contain calls of this communicator: nvrar does not see their launches. Before nvrar_destroy the caller
 * must wait for launches already made, after nvrar_abort if they may hang, and must make none afterwards: such a launch
 * would use freed memory and code that may be unloaded. If the caller does not wait, launches that have started are
 * waited for as above, and launches that have not started do nothing and leave their output unchanged. The graphs
 * themselves may be destroyed at any time.
 */
NVRAR_API nvrar_status nvrar_destroy(nvrar_comm* comm);

#ifdef __cplusplus
}
#endif
#endif
