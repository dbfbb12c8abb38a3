/* One edge of a group on GPUs that spans hosts: what the kernel of one rank hands to its proxy, which sends it to the proxy
 * of a rank on another host, which hands it to the kernel there. ring.pml has the protocol above: here a rank leaves a launch
 * once it knows that the other one has entered it. README.md says what is modelled; ./check runs it, right and with its
 * mistakes. */

#ifndef LAUNCHES
#define LAUNCHES 4
#endif
#define CHUNKS 2            /* of a message; each has a connection of its own, so nothing orders them */
#define WARPS 2             /* that write or read runs of every chunk */
#ifndef RESIDENT
#define RESIDENT WARPS      /* of those that read, as many as the GPU has room for at once */
#endif

#if defined(MISTAKE_ONE_PARITY)
#define PARITY(e) 0
#else
#define PARITY(e) ((e) % 2)
#endif
#define LINE(e, c) (PARITY(e) * CHUNKS + (c))
#define LINES (2 * CHUNKS)
#define RUN(e, c, w) (LINE(e, c) * WARPS + (w))
#define RUNS (LINES * WARPS)
/* What bells and signals say. */
#if defined(MISTAKE_SHORT_EPOCH)
#define NUMBER(e) 1
#else
#define NUMBER(e) (e)
#endif

/* Block 0 is one more writer of the first chunk: it counts once it has compared the headers of its node. */
#if defined(MISTAKE_NODE_FLAG_IN_EVERY_CHUNK)
#define WRITERS(c) WARPS
#define HAS_NODE_FLAG(c) true
#else
#define WRITERS(c) ((c) == 0 -> WARPS + 1 : WARPS)
#define HAS_NODE_FLAG(c) ((c) == 0)
#endif

/* Of the sender: memory of its host, written by the GPU. Nobody reads a payload or a line before its bell, so behind a fence
 * they are there at once; without one they arrive at a moment of their own. A bell that is under way is one that the proxy has
 * not looked at. */
#if defined(MISTAKE_NO_FENCE) || defined(MISTAKE_BELL_BEFORE_LINE)
#define IN_FLIGHT
#endif
byte outbox[RUNS], line[LINES], bell[LINES];
#if defined(IN_FLIGHT)
byte outbox_in_flight[RUNS], line_in_flight[LINES];
#endif
byte counted[CHUNKS];       /* in the GPU's memory: the writers that are done with a chunk */
byte sent[LINES];           /* of its proxy: the bell that it has sent last from a line */

/* A frame: the launch, the line, the payload of each warp. */
chan link[CHUNKS] = [2] of { byte, byte, byte, byte };

/* Of the receiver: memory of its host, written by its proxy. */
byte inbox[RUNS];           /* 0: nothing that is still to be read */
byte signal[LINES];
byte header[2], node_flag[2];
byte poller[CHUNKS], ready[CHUNKS];  /* in the GPU's memory: the launch in which a warp polls, and has seen, a chunk's signal */

byte chunks_of[2];          /* of a launch, by its parity */
byte sender_in, receiver_in;  /* the launches that they have entered */
#if defined(DIFFERENCE)
byte differing;             /* the launch in which a node mate of the sender makes another call; 0: none does */
#else
#define differing 0
#endif
byte at_work[2], running;

bit outbox_overwritten, inbox_overwritten, wrong_payload, honest_frame_refused, stray_sent, difference_unseen;
#define PROPERTY(name, holds) name = !(holds); assert(!name)

/* A call that differs fails, and every wait may end. */
#if defined(DIFFERENCE)
#define MAY_END_1 end_1:
#define MAY_END_2 end_2:
#else
#define MAY_END_1
#define MAY_END_2
#endif

#if defined(IN_FLIGHT)
#define STORE(words, i, value) words##_in_flight[i] = value
#else
#define STORE(words, i, value) words[i] = value
#endif
#if defined(IN_FLIGHT) && !defined(MISTAKE_NO_FENCE)
#define FENCE(words, i) words##_in_flight[i] == 0
#else
#define FENCE(words, i) skip
#endif

inline ring() {
#if defined(MISTAKE_BELL_BEFORE_LINE)
  bell[LINE(e, c)] = NUMBER(e);
  STORE(line, LINE(e, c), e)
#else
  STORE(line, LINE(e, c), e);
  FENCE(line, LINE(e, c));
  bell[LINE(e, c)] = NUMBER(e)
#endif
}

/* The last one rings. */
inline count_writer() {
  counted[c]++;
  if
  :: counted[c] == WRITERS(c) -> counted[c] = 0; ring()
  :: else
  fi
}

#define w _pid
active [WARPS] proctype writer() {
  byte e, c;
  for (e : 1 .. LAUNCHES) {
MAY_END_1
    sender_in == e ->
    do
    :: c < chunks_of[e % 2] ->
      atomic {
        PROPERTY(outbox_overwritten, bell[LINE(e, c)] == sent[LINE(e, c)]);
        STORE(outbox, RUN(e, c, w), e);
        FENCE(outbox, RUN(e, c, w));
        count_writer();
        c++
      }
    :: else -> break
    od;
    atomic { c = 0; at_work[0]-- }
  }
}
#undef w

/* The first of them says how long the message is. */
inline enter(entered) {
  if
#if defined(MISTAKE_LEAVES_ALONE)  /* and then the length of a parity says nothing */
  :: true -> chunks_of[e % 2] = CHUNKS
#else
  :: sender_in < e && receiver_in < e -> if :: chunks_of[e % 2] = 1 :: chunks_of[e % 2] = CHUNKS fi
#endif
  :: else
  fi;
  entered = e
}

/* And block 0. */
active proctype sender() {
  byte e, c;
  for (e : 1 .. LAUNCHES) {
    atomic {
      enter(sender_in);
#if defined(DIFFERENCE)
      if
      :: differing == 0 -> differing = e
      :: true
      fi;
#endif
      at_work[0] = WARPS
    }
    if
    :: differing == e -> break  /* it fails, and so do the others: their waits end */
    :: else
    fi;
#if !defined(MISTAKE_NODE_FLAG_IN_EVERY_CHUNK)
    atomic { count_writer() }
#endif
MAY_END_1
#if defined(MISTAKE_LEAVES_ALONE)
    at_work[0] == 0
#else
    at_work[0] == 0 && receiver_in >= e
#endif
  }
}

#define CHUNK(l) ((l) % CHUNKS)
inline send(l) {
  atomic {
    number = bell[l];
    link[CHUNK(l)]!line[l], l, outbox[l * WARPS], outbox[l * WARPS + 1];
    PROPERTY(stray_sent, line[l] != 0 && line[l] <= sender_in);
    sent[l] = number;
    number = 0;
    line[l] = 0;  /* so that what was sent makes no difference any more */
    outbox[l * WARPS] = 0;
    outbox[l * WARPS + 1] = 0
  }
}
active proctype sending_proxy() {
  byte number;
#if defined(MISTAKE_CURSOR)
  byte next[CHUNKS];
  next[0] = 1;
  next[1] = 1;
end:
  do
  :: bell[LINE(next[0], 0)] == next[0] -> send(LINE(next[0], 0)); next[0]++
  :: bell[LINE(next[1], 1)] == next[1] -> send(LINE(next[1], 1)); next[1]++
  od
#else
end:
  do
  :: bell[0] != sent[0] -> send(0)
  :: bell[1] != sent[1] -> send(1)
  :: bell[2] != sent[2] -> send(2)
  :: bell[3] != sent[3] -> send(3)
  od
#endif
}

inline store_run(w, packet) {
  PROPERTY(inbox_overwritten, inbox[l * WARPS + w] == 0);
  inbox[l * WARPS + w] = packet
}
/* One thread for all connections, or one for each. What its GPU has said of the launch that it is in may be one launch old, so
 * a frame may have to wait for that, and its connection with it. */
#if defined(THREADS)
#define RECEIVING CHUNKS
#define MAY_TAKE(c) _pid == WARPS + 2 + (c) &&
#else
#define RECEIVING 1
#define MAY_TAKE(c)
#endif
#if defined(MISTAKE_LATE_VIEW_REFUSED)
#define TAKE(c) :: atomic { MAY_TAKE(c) link[c]?[e, l, first, second] -> \
    link[c]?e, l, first, second; chunk = c; PROPERTY(honest_frame_refused, e <= receiver_in) }
#else
#define TAKE(c)                                                                                                            \
  :: atomic { MAY_TAKE(c) link[c]?[eval(receiver_in), l, first, second] -> link[c]?e, l, first, second; chunk = c }        \
  :: atomic { MAY_TAKE(c) link[c]?[eval(receiver_in + 1), l, first, second] -> link[c]?e, l, first, second; chunk = c }
#endif
active [RECEIVING] proctype receiving_proxy() {
  byte e, l, first, second, chunk;
end:
  do
  :: if
    TAKE(0)
    TAKE(1)
    fi;
#if defined(MISTAKE_SIGNAL_BEFORE_PAYLOAD)
    signal[l] = NUMBER(e);
#endif
    atomic {
      store_run(0, first);
      store_run(1, second);
      header[e % 2] = e;
      if
      :: HAS_NODE_FLAG(chunk) -> node_flag[e % 2] = e
      :: else
      fi
    }
    atomic {
#if !defined(MISTAKE_SIGNAL_BEFORE_PAYLOAD)
      signal[l] = NUMBER(e);
#endif
      e = 0; l = 0; first = 0; second = 0; chunk = 0
    }
  od
}

#define w (_pid - WARPS - 2 - RECEIVING)
active [WARPS] proctype reader() {
  byte e, c;
  bit polls;
  for (e : 1 .. LAUNCHES) {
MAY_END_1
    atomic { receiver_in == e && running < RESIDENT -> running++ }
    do
    :: c < chunks_of[e % 2] ->
#if defined(MISTAKE_FIXED_POLLER)
      polls = (w == 0);
#else
      atomic {
        polls = (poller[c] != e);
        poller[c] = e
      }
#endif
MAY_END_2
      atomic {
        if
        :: polls && signal[LINE(e, c)] == NUMBER(e) -> ready[c] = e
        :: !polls && ready[c] == e
        fi;
        PROPERTY(wrong_payload, inbox[RUN(e, c, w)] == e);
        inbox[RUN(e, c, w)] = 0;
        polls = 0;
        c++
      }
    :: else -> break
    od;
    atomic { polls = 0; c = 0; running--; at_work[1]-- }
  }
}
#undef w

/* Block 0, which looks at the header and the node's flag: nothing orders them with the signals. */
active proctype receiver() {
  byte e;
  for (e : 1 .. LAUNCHES) {
    atomic {
      enter(receiver_in);
      at_work[1] = WARPS
    }
MAY_END_1
    at_work[1] == 0 && header[e % 2] == e && node_flag[e % 2] == e;
    PROPERTY(difference_unseen, differing != e)
  }
}

#define ARRIVES(words, i) :: atomic { words##_in_flight[i] != 0 -> words[i] = words##_in_flight[i]; words##_in_flight[i] = 0 }
#if defined(IN_FLIGHT)
active proctype memory() {
end:
  do
  ARRIVES(outbox, 0) ARRIVES(outbox, 1) ARRIVES(outbox, 2) ARRIVES(outbox, 3)
  ARRIVES(outbox, 4) ARRIVES(outbox, 5) ARRIVES(outbox, 6) ARRIVES(outbox, 7)
  ARRIVES(line, 0) ARRIVES(line, 1) ARRIVES(line, 2) ARRIVES(line, 3)
  od
}
#endif

#if defined(MISTAKE_ARENA_NOT_ZEROED)
init { bell[LINE(1, 1)] = 3 }  /* of a group that used the arena before */
#endif
