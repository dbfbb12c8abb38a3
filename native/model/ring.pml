/* The ring protocol of docs/concepts/protocol.md for N ranks and EPOCHS launches. README.md says what is modelled and what is not;
 * ./check runs it, right and with each of its known mistakes. */

#ifndef N
#define N 2
#endif
#ifndef EPOCHS
#define EPOCHS 5
#endif

#ifndef NODE_SIZE
#define NODE_SIZE 2
#endif

#if defined(NODES_2_1_1)
#define NODE(r) ((r) < 2 -> 0 : (r) - 1)
#define FIRST_OF(node) ((node) == 0 -> 0 : (node) + 1)
#define SIZE_OF(node) ((node) == 0 -> 2 : 1)
#else
#define NODE(r) ((r) / NODE_SIZE)
#define FIRST_OF(node) ((node) * NODE_SIZE)
#define SIZE_OF(node) (N - FIRST_OF(node) < NODE_SIZE -> N - FIRST_OF(node) : NODE_SIZE)
#endif
#define SAME_NODE(a, b) (NODE(a) == NODE(b))
#define THIRD (N > 2 -> 2 : 0)

/* Collectives that a launch may be; CALLS is a set of bits. */
#define BARRIER 1
#define BROADCAST 2         /* from rank (epoch % N): the others' headers are its only evidence */
#define REDUCE 4            /* to rank (epoch % N), by sentinel packets: what the root gets is no evidence for the others */
#define ONE_SHOT_EPOCH 8    /* all-gather, all-to-all and reduce-scatter move their packets alike */
#define ONE_SHOT_SENTINEL 16
#define TWO_SHOT_EPOCH 32
#define TWO_SHOT_SENTINEL 64
#define HIERARCHICAL 128    /* by sentinel packets; nodes of NODE_SIZE ranks, the last may have fewer */
#ifndef CALLS
#define CALLS (BARRIER + BROADCAST + REDUCE + ONE_SHOT_EPOCH + ONE_SHOT_SENTINEL)
#endif

/* What may go wrong, once, at any moment and to any rank. */
#define NOTHING 0
#define ABORT 1             /* a thread of a rank aborts it */
#define DEATH 2             /* a rank stops for ever */
#define STALL 3             /* any wait may reach its deadline although nobody died */
#define DIFFERENCE 4        /* a rank makes another call than the others */
#define CUT 5               /* a link breaks; what is on its way may be lost, and each end finds out at a moment of its own */
#define STRAY 6             /* a link brings a packet of a call that is not near */
#ifndef FAULT
#define FAULT NOTHING
#endif

/* With LINKS, ranks of different nodes have no memory in common: src/link, src/link/ring_inbox.cpp. Within a node packets then
 * arrive at once. */
#if defined(LINKS)
#define AT_ONCE
#endif

/* Parities of the data's rings and of the headers'. */
#if defined(MISTAKE_ONE_DATA_PARITY)
#define DATA_PARITY(e) 0
#else
#define DATA_PARITY(e) ((e) % 2)
#endif
#if defined(MISTAKE_ONE_HEADER_PARITY)
#define HEADER_PARITY(e) 0
#else
#define HEADER_PARITY(e) ((e) % 2)
#endif

/* With BY_NODES, headers go up within the node, across between one rank of each two nodes, and down within the node: groups
 * of more ranks than a node has. Each of these stages has an area. */
#if defined(BY_NODES)
#define STAGE stage
#define HEADER_AREAS 3
#elif defined(NODE_FLAG)
/* As GPU groups that span hosts will have it: a rank's header goes with its first frame, and a word of its own says, once
 * it is so, that all of its node are in this call. */
#define STAGE 0
#define HEADER_AREAS 2
#else
#define STAGE 0
#define HEADER_AREAS 1
#endif

/* Areas of a rank's memory. Those of headers come first, those of sentinel packets last. */
#define EPOCH_HOP(h) (HEADER_AREAS - 1 + (h))    /* h is 1 or 2 */
#if defined(MISTAKE_SHARED_KINDS)
#define SENTINEL_HOP(h) (h)
#define SENTINEL_HOPS 1
#define AREAS 3
#elif defined(MISTAKE_SHARED_HOPS)
#define SENTINEL_HOP(h) 3
#define SENTINEL_HOPS 1
#define AREAS 4
#elif CALLS >= HIERARCHICAL
#define SENTINEL_HOP(h) (HEADER_AREAS + 1 + (h))
#define SENTINEL_HOPS 3
#define AREAS (HEADER_AREAS + 5)
#elif CALLS >= TWO_SHOT_EPOCH
#define SENTINEL_HOP(h) (HEADER_AREAS + 1 + (h))
#define SENTINEL_HOPS 2
#define AREAS (HEADER_AREAS + 4)
#else
#define SENTINEL_HOP(h) (HEADER_AREAS + 1)
#define SENTINEL_HOPS 1
#define AREAS (HEADER_AREAS + 2)
#endif

#define SLOT(area, owner, parity, source) ((((area) * N + (owner)) * 2 + (parity)) * N + (source))
#define OWNER(slot) ((slot) / (2 * N) % N)
#define SLOTS (AREAS * N * 2 * N)
#define FIRST_SENTINEL SLOT(SENTINEL_HOP(1), 0, 0, 0)

/* What a packet carries is the epoch whose data it is; a header of the call that differs carries DIFFERS beside it. */
#define EMPTY 0
#define DIFFERS 16
#define IS_STRAY 32

byte memory[SLOTS];         /* what the slot's owner reads */
#if defined(AT_ONCE)
#define IN_FLIGHT(what)
#else
#define IN_FLIGHT(what) what
byte in_flight[SLOTS];      /* stored by the source, not yet in the owner's memory */
#endif
bit unread[SLOTS];          /* holds what its owner has not taken */
#if defined(MISTAKE_UNORDERED_CLEAR)
bit clearing[SLOTS];        /* emptied by its owner, which memory does not show yet */
#endif
bit poisoned[N];
bit poison_in_flight[N];
bit dead[N];
bit has_left[N];
bit somebody_died;
#if defined(LINKS)
#define REMOTE(a, b) (!SAME_NODE(a, b))
#if N == 2 * NODE_SIZE        /* ranks of one node have none */
#define LINK(from, to) ((from) * NODE_SIZE + (to) % NODE_SIZE)
#define LINK_COUNT (N * NODE_SIZE)
#else
#define LINK(from, to) ((from) * N + (to))
#define LINK_COUNT (N * N)
#endif
#if defined(NODE_FLAG)
#define MOST_ON_LINK 6      /* and two words of the node */
#else
#define MOST_ON_LINK 4      /* two epochs' headers and data; that a result is sent, too, shows that what was before it was taken */
#endif
#if FAULT == STRAY
#define PLACES_ON_LINK MOST_ON_LINK + 1
#else
#define PLACES_ON_LINK MOST_ON_LINK
#endif
chan link[LINK_COUNT] = [PLACES_ON_LINK] of { byte, byte };  /* a slot, and what it is to hold */
bit cut[LINK_COUNT];             /* nothing is put on this link any more */
bit end_found[LINK_COUNT];       /* the rank that receives from it knows */
#else
#define REMOTE(a, b) false
#endif
byte differing_epoch;       /* in which a rank made another call than the others; 0: none did */
byte entered[N];            /* the last epoch that the rank has begun to send */
byte call_of[2];            /* of an epoch, by its parity */

/* The properties; each has a name so that ./check can tell which one a mistake breaks. */
bit slot_written_twice, unread_slot_overwritten, other_epoch_taken, ran_ahead, difference_unseen, packet_destroyed;
bit honest_packet_refused, link_overfull;
#define PROPERTY(name, holds) name = !(holds); assert(!name)

#define me _pid

#define IS_FREE(slot) (!unread[slot] && (slot < FIRST_SENTINEL || memory[slot] == EMPTY || memory[slot] >= IS_STRAY))
inline store(where, packet) {
  PROPERTY(unread_slot_overwritten, IS_FREE(where));
  memory[where] = packet;
  unread[where] = 1
}

/* Into the slot that `slot` names, of the rank `peer`. Memory that nobody will read again is left out. */
inline put(packet) {
  if
  :: has_left[peer] -> skip
#if defined(LINKS)
  :: !has_left[peer] && REMOTE(me, peer) ->
    if
    :: !cut[LINK(me, peer)] ->
      PROPERTY(link_overfull, len(link[LINK(me, peer)]) < PLACES_ON_LINK);
      link[LINK(me, peer)]!slot, packet
    :: else
    fi
#endif
#if defined(AT_ONCE)
  :: !has_left[peer] && !REMOTE(me, peer) -> store(slot, packet)
#else
  :: else ->
    PROPERTY(slot_written_twice, in_flight[slot] == EMPTY);
    in_flight[slot] = packet
#endif
  fi
}

/* A frame on a link that nothing interrupts arrives at some moment, like a word in memory. */
#if !defined(LINKS)
#define CAN_TELL(a, b) true
#elif defined(MISTAKE_POISON_WITHIN_NODE)
#define CAN_TELL(a, b) (!REMOTE(a, b))
#else
#define CAN_TELL(a, b) (!REMOTE(a, b) || !cut[LINK(a, b)])
#endif
inline poison_all(first) {
  poisoned[first] = 1;
  poison_in_flight[first] = 0;
#if !defined(MISTAKE_KEPT_POISON)
  for (peer : 0 .. N - 1) {
    if
    :: peer != first && !poisoned[peer] && !has_left[peer] && CAN_TELL(first, peer) -> poison_in_flight[peer] = 1
    :: else
    fi
  }
  peer = 0
#endif
}

/* The rank reads nothing any more: what its memory holds makes no difference. */
inline leave(first) {
  has_left[first] = 1;
  poison_in_flight[first] = 0;
  slot = 0;
  do
  :: slot < SLOTS ->
    if
    :: OWNER(slot) == first ->
      memory[slot] = EMPTY;
      IN_FLIGHT(in_flight[slot] = EMPTY;)
      unread[slot] = 0
    :: else
    fi;
    slot++
  :: else -> break
  od;
  slot = 0;
#if defined(LINKS)
  for (peer : 0 .. N - 1) {
    do
    :: REMOTE(peer, first) && len(link[LINK(peer, first)]) != 0 -> link[LINK(peer, first)]?_, _
    :: else -> break
    od
  }
  peer = 0
#endif
}

/* Hops of a call, who sends to whom in one, and where. */
/* As many slices as a node has ranks; a rank alone in its node owns all. */
#if NODE_SIZE == 1
#define SAME_SLICE(a, b) true
#else
#define SAME_SLICE(a, b) ((a) % 2 == (b) % 2 || (a) == N - 1 && N % 2 == 1 || (b) == N - 1 && N % 2 == 1)
#endif
#define HOPS(call) ((call) == HIERARCHICAL -> 3 : ((call) >= TWO_SHOT_EPOCH -> 2 : ((call) == BARRIER -> 0 : 1)))
#define IN_NODES(hop, a, b) ((hop) == 2 -> !SAME_NODE(a, b) && SAME_SLICE(a, b) : SAME_NODE(a, b))
#define SENDS(call, e, hop, a, b)                                                   \
  ((a) != (b) && ((call) == HIERARCHICAL -> IN_NODES(hop, a, b)                     \
                                          : ((call) >= ONE_SHOT_EPOCH ||            \
                                             (call) == BROADCAST && (a) == (e) % N || \
                                             (call) == REDUCE && (b) == (e) % N)))
#define IS_SENTINEL(call) \
  ((call) == REDUCE || (call) == ONE_SHOT_SENTINEL || (call) == TWO_SHOT_SENTINEL || (call) == HIERARCHICAL)
#define AREA(call, hop) (IS_SENTINEL(call) -> SENTINEL_HOP(hop) : EPOCH_HOP(hop))

#if defined(MISTAKE_EPOCH_AS_ONE_BIT)
#define SAME_EPOCH(packet, e) ((packet) != EMPTY && (packet) % 2 == (e) % 2)
#else
#define SAME_EPOCH(packet, e) ((packet) % DIFFERS == (e))
#endif
#define ARRIVED(call, slot, e) \
  (IS_SENTINEL(call) && memory[slot] != EMPTY || !IS_SENTINEL(call) && SAME_EPOCH(memory[slot], e))

#if defined(MISTAKE_NO_DEADLINE)
#define DEADLINE_MAY_PASS false
#elif FAULT == STALL
#define DEADLINE_MAY_PASS true
#else
#define DEADLINE_MAY_PASS somebody_died
#endif

/* Where a source's packets lie differs between algorithms: with MOVING_SOURCES every use of a slot has another source. */
#if defined(MOVING_SOURCES)
#define PLACE(e, source) (((source) + (e) / 2) % N)
#else
#define PLACE(e, source) (source)
#endif
#define DATA_SLOT(call, hop, e, owner, source) SLOT(AREA(call, hop), owner, DATA_PARITY(e), PLACE(e, source))
#define HEADER_SLOT(owner, e, source) SLOT(STAGE, owner, HEADER_PARITY(e), source)
#define FLAG_SLOT(owner, e, source) SLOT(1, owner, HEADER_PARITY(e), source)
#define EDGE(e, a, b) (SENDS(call, e, 1, a, b) || SENDS(call, e, 1, b, a))
#define TELLS(a, b) ((a) == FIRST_OF(NODE(a)) + NODE(b) % SIZE_OF(NODE(a)))
#if defined(MISTAKE_HEADERS_WITHIN_NODE)
#define NEEDS_HEADER(a, b) ((a) != (b) && SAME_NODE(a, b))
#elif defined(MISTAKE_NO_OWNER_HEADERS)
#define NEEDS_HEADER(a, b) ((a) != (b) && (call != HIERARCHICAL || SAME_NODE(a, b) && !exchanged))
#elif defined(MISTAKE_EVIDENCE_ON_WRITTEN_EDGES)
#define NEEDS_HEADER(a, b) ((a) != (b) && EDGE(e, a, b))
#elif defined(BY_NODES)
#define NEEDS_HEADER(a, b) \
  ((a) != (b) && (stage == 1 -> !SAME_NODE(a, b) && TELLS(a, b) && TELLS(b, a) : SAME_NODE(a, b)))
#elif defined(NODE_FLAG) && CALLS >= HIERARCHICAL
#define NEEDS_HEADER(a, b) ((a) != (b) && (call != HIERARCHICAL || SAME_NODE(a, b) || SAME_SLICE(a, b)))
#elif defined(OWNERS_TELL) && CALLS >= HIERARCHICAL    /* hierarchical on the CPU: within the node, then between owners of a slice */
#define NEEDS_HEADER(a, b) \
  ((a) != (b) && (call != HIERARCHICAL || (SAME_NODE(a, b) -> !exchanged : exchanged && SAME_SLICE(a, b))))
#else
#define NEEDS_HEADER(a, b) ((a) != (b))
#endif
/* Hierarchical waits for the headers of its node, then for those of the others once it has sent them its node's sums. */
#if CALLS >= HIERARCHICAL && !defined(BY_NODES)
#define IN_TWO_PARTS
#define WAITS_FOR_HEADER(a, b) (NEEDS_HEADER(a, b) && (call != HIERARCHICAL || (SAME_NODE(a, b) -> !exchanged : exchanged)))
#else
#define WAITS_FOR_HEADER(a, b) NEEDS_HEADER(a, b)
#endif
#if defined(NODE_FLAG)
#define NEEDS_FLAG(a, b) (call == HIERARCHICAL && exchanged && WAITS_FOR_HEADER(a, b))
#define FLAG_IS_HERE(e, source) (!NEEDS_FLAG(source, me) || SAME_EPOCH(memory[FLAG_SLOT(me, e, source)], e))
#else
#define FLAG_IS_HERE(e, source) true
#endif
#define HEADER_IS_HERE(e, source) \
  (!WAITS_FOR_HEADER(source, me) || SAME_EPOCH(memory[HEADER_SLOT(me, e, source)], e) && FLAG_IS_HERE(e, source))
#if defined(NO_HEADERS)
#define HEADERS_ARE_HERE(e) true
#elif N == 2
#define HEADERS_ARE_HERE(e) (HEADER_IS_HERE(e, 0) && HEADER_IS_HERE(e, 1))
#elif N == 3
#define HEADERS_ARE_HERE(e) (HEADER_IS_HERE(e, 0) && HEADER_IS_HERE(e, 1) && HEADER_IS_HERE(e, 2))
#else
#define HEADERS_ARE_HERE(e) \
  (HEADER_IS_HERE(e, 0) && HEADER_IS_HERE(e, 1) && HEADER_IS_HERE(e, 2) && HEADER_IS_HERE(e, 3))
#endif

inline send_headers(e, mark) {
#if !defined(NO_HEADERS)
  for (peer : 0 .. N - 1) {
    if
    :: NEEDS_HEADER(me, peer) ->
      slot = HEADER_SLOT(peer, e, me);
      put(e + mark)
    :: else
    fi
  }
  peer = 0;
  slot = 0
#else
  skip
#endif
}

/* Of a hierarchical call, once the headers of the own node are there: to the owners of a slice in the other nodes. */
#if defined(NODE_FLAG)
#define TELLING_SLOT(owner, e, source) FLAG_SLOT(owner, e, source)
#else
#define TELLING_SLOT(owner, e, source) HEADER_SLOT(owner, e, source)
#endif
#if (defined(OWNERS_TELL) || defined(NODE_FLAG)) && defined(IN_TWO_PARTS) && !defined(MISTAKE_NO_OWNER_HEADERS)
inline tell_other_nodes(e) {
  if
  :: call == HIERARCHICAL && !exchanged ->
    for (peer : 0 .. N - 1) {
      if
      :: !SAME_NODE(me, peer) && SAME_SLICE(me, peer) ->
        slot = TELLING_SLOT(peer, e, me);
        put(e + differs)
      :: else
      fi
    }
    peer = 0;
    slot = 0
  :: else
  fi
}
#if defined(MISTAKE_EARLY_NODE_FLAG)  /* with a rank's first frame, before it has heard of its node */
#define TELL_OTHER_NODES(e)
#else
#define TELL_OTHER_NODES(e) tell_other_nodes(e);
#endif
#else
#define TELL_OTHER_NODES(e)
#endif

inline send_hop(e) {
  for (peer : 0 .. N - 1) {
    if
    :: SENDS(call, e, hop, me, peer) ->
      slot = DATA_SLOT(call, hop, e, peer, me);
      put(e)
    :: else
    fi
  }
  peer = 0;
  slot = 0
}

/* Sets hop, source and slot to the next packet to wait for; a hop is sent when the one before it is complete. At the
 * end hop is 0. */
inline next_packet(e) {
  do
  :: hop > HOPS(call) -> hop = 0; source = 0; break
  :: hop <= HOPS(call) && source < N && SENDS(call, e, hop, source, me) ->
    slot = DATA_SLOT(call, hop, e, me, source);
    break
  :: hop <= HOPS(call) && source < N && !SENDS(call, e, hop, source, me) -> source++
  :: hop <= HOPS(call) && source == N ->
    source = 0;
    hop++;
    if
    :: hop <= HOPS(call) -> send_hop(e)
    :: else
    fi
  od
}

/* The first rank to enter an epoch says what call it is. */
inline choose_call(e) {
  if
  :: entered[0] < e && entered[1] < e && entered[THIRD] < e && entered[N - 1] < e ->
    if
    :: CALLS & BARRIER -> call_of[e % 2] = BARRIER
    :: CALLS & BROADCAST -> call_of[e % 2] = BROADCAST
    :: CALLS & REDUCE -> call_of[e % 2] = REDUCE
    :: CALLS & ONE_SHOT_EPOCH -> call_of[e % 2] = ONE_SHOT_EPOCH
    :: CALLS & ONE_SHOT_SENTINEL -> call_of[e % 2] = ONE_SHOT_SENTINEL
    :: CALLS & TWO_SHOT_EPOCH -> call_of[e % 2] = TWO_SHOT_EPOCH
    :: CALLS & TWO_SHOT_SENTINEL -> call_of[e % 2] = TWO_SHOT_SENTINEL
    :: CALLS & HIERARCHICAL -> call_of[e % 2] = HIERARCHICAL
    fi
  :: else
  fi;
  call = call_of[e % 2];
#if FAULT == DIFFERENCE
  differs = 0;
  if
  :: differing_epoch == 0 ->
    differing_epoch = e;
    differs = DIFFERS;
    if /* another collective, or the same one with another count or type */
#if !defined(SAME_COLLECTIVE)
    :: call = BARRIER
    :: call = ONE_SHOT_SENTINEL
#endif
    :: skip
    fi
  :: true
  fi;
#endif
}

inline clear_epoch(e) {
  for (source : 0 .. N - 1) {
    for (hop : 1 .. SENTINEL_HOPS) {
      slot = SLOT(SENTINEL_HOP(hop), me, DATA_PARITY(e), source);
      PROPERTY(packet_destroyed, !unread[slot]);
      memory[slot] = EMPTY
    }
  }
  source = 0;
  slot = 0;
  hop = 1
}

/* Headers are not emptied, so to wait for each in turn and to wait for all are the same. */
inline take_headers(e) {
#if !defined(NO_HEADERS)
  for (source : 0 .. N - 1) {
    if
    :: WAITS_FOR_HEADER(source, me) ->
      slot = HEADER_SLOT(me, e, source);
      PROPERTY(other_epoch_taken, memory[slot] % DIFFERS == e);
      unread[slot] = 0;
#if defined(NODE_FLAG)
      if
      :: NEEDS_FLAG(source, me) -> unread[FLAG_SLOT(me, e, source)] = 0
      :: else
      fi;
#endif
#if !defined(MISTAKE_UNCOMPARED_HEADER)
      if
      :: memory[slot] != e + differs -> poison_all(me); goto failed
      :: else
      fi
#endif
    :: else
    fi
  }
#endif
  source = 0;
  slot = 0
}

/* On a link, what is sent first arrives first. The library sends headers last, its test builds send them first. */
#if defined(MISTAKE_EARLY_NODE_FLAG)
#define FIRST_SENDS(e) send_headers(e, differs); tell_other_nodes(e); send_hop(e)
#elif defined(LINKS) && !defined(HEADERS_LAST)
#define FIRST_SENDS(e)                                       \
  if                                                         \
  :: true -> send_headers(e, differs); send_hop(e)           \
  :: true -> send_hop(e); send_headers(e, differs)           \
  fi
#elif defined(LINKS)
#define FIRST_SENDS(e) send_hop(e); send_headers(e, differs)
#elif defined(MISTAKE_EARLY_NODE_HEADER)    /* before the ranks of the node have entered */
#define FIRST_SENDS(e) send_headers(e, differs); stage = 1; send_headers(e, differs); stage = 0; send_hop(e)
#else
#define FIRST_SENDS(e) send_headers(e, differs); send_hop(e)
#endif

#if defined(MISTAKE_NO_LAST_HEADER)
#define LAST_STAGE 1
#else
#define LAST_STAGE 2
#endif

/* The end of a wait that found nothing. */
#if defined(LINKS)          /* a rank may look late: that is the same as a word that arrives late */
#define KNOWS_POISON(r) (poisoned[r] || poison_in_flight[r])
#else
#define KNOWS_POISON(r) poisoned[r]
#endif
#define GIVE_UP                                              \
  :: atomic { KNOWS_POISON(me) -> poison_all(me); goto failed }  \
  :: atomic { DEADLINE_MAY_PASS -> poison_all(me); goto failed }

/* On to the next wait, or to the end of the call. With DATA_FIRST no wait for data waits for headers: block 0 alone of a GPU
 * looks at them, so the others may be as far ahead of it as the data lets them be. */
#if defined(DATA_FIRST)
#define HEADER_DIFFERS(e, source)                                                        \
  (NEEDS_HEADER(source, me) && SAME_EPOCH(memory[HEADER_SLOT(me, e, source)], e) &&      \
   memory[HEADER_SLOT(me, e, source)] != e + differs)
#define A_HEADER_DIFFERS(e)                                                              \
  (HEADER_DIFFERS(e, 0) || HEADER_DIFFERS(e, 1) || HEADER_DIFFERS(e, THIRD) || HEADER_DIFFERS(e, N - 1))
#define NEXT_WAIT                    \
  next_packet(e);                    \
  if                                 \
  :: hop != 0 -> goto take           \
  :: else -> goto headers            \
  fi
#define AFTER_HEADERS                                                        \
  if                                                                         \
  :: call == HIERARCHICAL && !exchanged -> exchanged = 1; goto headers       \
  :: else -> exchanged = 0; goto result                                      \
  fi
#elif defined(IN_TWO_PARTS)
#define NEXT_WAIT                                                                      \
  next_packet(e);                                                                      \
  if                                                                                   \
  :: call == HIERARCHICAL && hop == 2 && !exchanged -> exchanged = 1; goto headers     \
  :: hop != 0 && !(call == HIERARCHICAL && hop == 2 && !exchanged) -> goto take        \
  :: else -> exchanged = 0; goto result                                                \
  fi
#else
#define NEXT_WAIT                    \
  next_packet(e);                    \
  if                                 \
  :: hop != 0 -> goto take           \
  :: else -> goto result             \
  fi
#endif

#if !defined(DATA_FIRST)
#define AFTER_HEADERS NEXT_WAIT
#endif

active [N] proctype rank() {
  byte e, peer, source, call, differs;
#if SLOTS > 255
  short slot;
#else
  byte slot;
#endif
#if defined(BY_NODES)
  byte stage;
#endif
#if defined(IN_TWO_PARTS)
  bit exchanged;
#endif
  byte hop = 1;
#if defined(MISTAKE_CALL_AFTER_FAILURE)
#define MAY_CALL (e < EPOCHS)
#else
#define MAY_CALL (e < EPOCHS && !poisoned[me])
#endif
  {
    skip;
enter:
#if defined(MISTAKE_POLL_FIRST)
    if
    :: e == 0 || HEADER_IS_HERE(e + 1, (me + 1) % N) -> skip
    GIVE_UP
    fi;
#endif
    if
    :: atomic { MAY_CALL ->
        e++;
        PROPERTY(ran_ahead, entered[0] + 1 >= e && entered[1] + 1 >= e &&
                            entered[THIRD] + 1 >= e && entered[N - 1] + 1 >= e);
        choose_call(e);
        entered[me] = e;
#if defined(MISTAKE_CLEAR_AT_ENTRY)
        clear_epoch(e);
#endif
#if defined(MISTAKE_EARLY_HEADER)
        if
        :: e == 1 -> send_headers(e, differs)
        :: else
        fi;
        send_hop(e)
#else
        FIRST_SENDS(e)
#endif
#if defined(DATA_FIRST)
        ;
        NEXT_WAIT
#endif
      }
    :: atomic { !MAY_CALL || KNOWS_POISON(me) -> goto left }
    fi;
#if defined(MISTAKE_LATE_CLEAR)
    atomic { clear_epoch(e - 1) }
#endif

headers:
    if
    :: atomic { HEADERS_ARE_HERE(e) ->
        take_headers(e);
#if defined(BY_NODES)
        if
        :: stage < LAST_STAGE ->
          stage++;
#if defined(MISTAKE_EARLY_NODE_HEADER)
          if
          :: stage == 2 -> send_headers(e, differs)
          :: else
          fi;
#else
          send_headers(e, differs);
#endif
          goto headers
        :: else -> stage = 0
        fi;
#endif
#if defined(MISTAKE_EARLY_HEADER)
        if
        :: e < EPOCHS -> send_headers(e + 1, 0)
        :: else
        fi;
#endif
        TELL_OTHER_NODES(e)
        AFTER_HEADERS
      }
    GIVE_UP
    fi;

take:
    if
    :: atomic { ARRIVED(call, slot, e) ->
        PROPERTY(other_epoch_taken, memory[slot] == e);
        unread[slot] = 0;
        if
#if !defined(MISTAKE_LATE_CLEAR) && !defined(MISTAKE_CLEAR_AT_ENTRY) && !defined(MISTAKE_KEPT_SLOTS)
        :: IS_SENTINEL(call) -> goto clear
#endif
        :: else
        fi;
        source++;
        NEXT_WAIT
      }
#if defined(MISTAKE_RESULT_AFTER_FAILURE)
    :: atomic { DEADLINE_MAY_PASS ->
        poison_all(me);
        PROPERTY(other_epoch_taken, memory[slot] == e);
        unread[slot] = 0
      }
#else
    GIVE_UP
#endif
#if defined(DATA_FIRST)
    :: atomic { A_HEADER_DIFFERS(e) -> poison_all(me); goto failed }
#endif
    fi;
clear:
    atomic {
#if defined(MISTAKE_UNORDERED_CLEAR)
      clearing[slot] = 1;
#else
      PROPERTY(packet_destroyed, !unread[slot]);
      memory[slot] = EMPTY;
#endif
      source++;
      NEXT_WAIT;
result:
      PROPERTY(difference_unseen, e != differing_epoch);
      call = 0;
      slot = 0;
      hop = 1;
      goto enter;
failed:
#if defined(BY_NODES)
      stage = 0;
#endif
#if defined(IN_TWO_PARTS)
      exchanged = 0;
#endif
      /* The caller tries again, as if it had not read the error. */
      source = 0;
      slot = 0;
      call = 0;
      hop = 1;
      goto enter
    }
left:
    atomic { leave(me) }
  }
#if FAULT == DEATH
  unless { dead[me] }
#endif
}

/* Memory: every packet arrives at a moment of its own, whatever was stored before or after it. */
#if defined(MISTAKE_UNORDERED_CLEAR)
#define CLEARS(slot)                                    \
  :: atomic { clearing[slot] ->                         \
      clearing[slot] = 0;                               \
      PROPERTY(packet_destroyed, !unread[slot]);        \
      memory[slot] = EMPTY                              \
    }
#else
#define CLEARS(slot)
#endif
#define ARRIVES(slot)                                   \
  :: atomic { in_flight[slot] != EMPTY ->               \
      PROPERTY(unread_slot_overwritten, !unread[slot]); \
      memory[slot] = in_flight[slot];                   \
      in_flight[slot] = EMPTY;                          \
      unread[slot] = 1                                  \
    }                                                   \
  CLEARS(slot)

#if defined(LINKS)
/* Packets are taken for the receiver's epoch and the next one only. */
#if defined(MISTAKE_UNCHECKED_EPOCH)
#define IS_NEAR(packet, rank) true
#elif defined(MISTAKE_CURRENT_EPOCH_ONLY)
#define IS_NEAR(packet, rank) ((packet) % DIFFERS == entered[rank])
#else
#define IS_NEAR(packet, rank) \
  ((packet) % DIFFERS == entered[rank] || (packet) % DIFFERS == entered[rank] + 1)
#endif
inline end_link(a, b) {
  cut[LINK(a, b)] = 1;
  cut[LINK(b, a)] = 1
}
/* What has not been taken yet is lost. */
inline find_end(from, to) {
  end_found[LINK(from, to)] = 1;
  do
  :: len(link[LINK(from, to)]) != 0 -> link[LINK(from, to)]?_, _
  :: else -> break
  od;
#if !defined(MISTAKE_IGNORED_END)
  poison_all(to)
#endif
}
/* The receiver takes the next packet of a link, at any moment; it is in no memory before. */
#define TAKEN(a, b) \
  :: REMOTE(a, b) && len(link[LINK(a, b)]) != 0 -> from = a; to = b
#define ENDED(a, b) \
  :: REMOTE(a, b) && cut[LINK(a, b)] && !end_found[LINK(a, b)] && !has_left[b] -> from = a; to = b
#define SWAPPED(a, b) \
  :: REMOTE(a, b) && len(link[LINK(a, b)]) > 1 -> from = a; to = b
#if N == 2
#define FROM_EACH(what, a) what(a, 0) what(a, 1)
#define EACH_LINK(what) FROM_EACH(what, 0) FROM_EACH(what, 1)
#elif N == 3
#define FROM_EACH(what, a) what(a, 0) what(a, 1) what(a, 2)
#define EACH_LINK(what) FROM_EACH(what, 0) FROM_EACH(what, 1) FROM_EACH(what, 2)
#else
#define FROM_EACH(what, a) what(a, 0) what(a, 1) what(a, 2) what(a, 3)
#define EACH_LINK(what) FROM_EACH(what, 0) FROM_EACH(what, 1) FROM_EACH(what, 2) FROM_EACH(what, 3)
#endif

active proctype links() {
  byte from, to, slot, packet, peer;
end:
  do
  :: atomic {
      if
      EACH_LINK(TAKEN)
      fi;
      link[LINK(from, to)]?slot, packet;
      if
      :: IS_NEAR(packet, to) && packet < IS_STRAY -> store(slot, packet)
      :: IS_NEAR(packet, to) && packet >= IS_STRAY -> memory[slot] = packet
      :: else ->
        PROPERTY(honest_packet_refused, packet >= IS_STRAY);
        end_link(from, to);
        find_end(from, to)
      fi;
      from = 0; to = 0; slot = 0; packet = 0
    }
#if FAULT == CUT || FAULT == DEATH || FAULT == STRAY
  :: atomic {
      if
      EACH_LINK(ENDED)
      fi;
      find_end(from, to);
      from = 0; to = 0
    }
#endif
#if defined(ANY_ORDER)      /* the first packet falls behind the others */
  :: atomic {
      if
      EACH_LINK(SWAPPED)
      fi;
      link[LINK(from, to)]?slot, packet;
      link[LINK(from, to)]!slot, packet;
      from = 0; to = 0; slot = 0; packet = 0
    }
#endif
  od
}
#endif

#define POISON_ARRIVES(r) :: atomic { poison_in_flight[r] -> poison_in_flight[r] = 0; poisoned[r] = 1 }

#if defined(AT_ONCE)
#define FROM_ALL(a, r, p)
#elif N == 2
#define FROM_ALL(a, r, p) ARRIVES(SLOT(a, r, p, 0)) ARRIVES(SLOT(a, r, p, 1))
#elif N == 3
#define FROM_ALL(a, r, p) ARRIVES(SLOT(a, r, p, 0)) ARRIVES(SLOT(a, r, p, 1)) ARRIVES(SLOT(a, r, p, 2))
#else
#define FROM_ALL(a, r, p) \
  ARRIVES(SLOT(a, r, p, 0)) ARRIVES(SLOT(a, r, p, 1)) ARRIVES(SLOT(a, r, p, 2)) ARRIVES(SLOT(a, r, p, 3))
#endif

#if N == 2
#define AT_ALL(a, p) FROM_ALL(a, 0, p) FROM_ALL(a, 1, p)
#define POISON_ARRIVES_AT_ALL POISON_ARRIVES(0) POISON_ARRIVES(1)
#elif N == 3
#define AT_ALL(a, p) FROM_ALL(a, 0, p) FROM_ALL(a, 1, p) FROM_ALL(a, 2, p)
#define POISON_ARRIVES_AT_ALL POISON_ARRIVES(0) POISON_ARRIVES(1) POISON_ARRIVES(2)
#else
#define AT_ALL(a, p) FROM_ALL(a, 0, p) FROM_ALL(a, 1, p) FROM_ALL(a, 2, p) FROM_ALL(a, 3, p)
#define POISON_ARRIVES_AT_ALL POISON_ARRIVES(0) POISON_ARRIVES(1) POISON_ARRIVES(2) POISON_ARRIVES(3)
#endif

#if !defined(LINKS) && (!defined(AT_ONCE) || FAULT != NOTHING)
active proctype network() {
end:
  do
  AT_ALL(0, 0) AT_ALL(0, 1)
  AT_ALL(1, 0) AT_ALL(1, 1)
  AT_ALL(2, 0) AT_ALL(2, 1)
#if AREAS > 3
  AT_ALL(3, 0) AT_ALL(3, 1)
#endif
#if AREAS > 4
  AT_ALL(4, 0) AT_ALL(4, 1)
#endif
#if AREAS > 5
  AT_ALL(5, 0) AT_ALL(5, 1)
#endif
#if FAULT != NOTHING
  POISON_ARRIVES_AT_ALL
#endif
  od
}
#endif

#if FAULT == STRAY
/* Of a call that no rank can have begun, or of one that all have ended. */
inline stray(from, to) {
  if
  :: peer = entered[from] + 3
  :: entered[from] > 2 -> peer = entered[from] - 2
  fi;
  if
  :: slot = HEADER_SLOT(to, peer, from)
  :: slot = SLOT(EPOCH_HOP(1), to, DATA_PARITY(peer), from)
  :: slot = SLOT(SENTINEL_HOP(1), to, DATA_PARITY(peer), from)
  fi;
  link[LINK(from, to)]!slot, IS_STRAY + peer;
  slot = 0;
  peer = 0
}
#endif

#if FAULT == ABORT || FAULT == DEATH || FAULT == CUT || FAULT == STRAY
active proctype fate() {
  byte peer, slot, victim;
#if FAULT == CUT || FAULT == STRAY
  byte other;
#endif
end:
  atomic {
    if
    :: victim = 0
    :: victim = 1
#if N > 2
    :: victim = 2
#endif
#if N > 3
    :: victim = 3
#endif
    fi;
#if FAULT == CUT || FAULT == STRAY
    if
    :: REMOTE(victim, 0) -> other = 0
    :: REMOTE(victim, 1) -> other = 1
#if N > 2
    :: REMOTE(victim, 2) -> other = 2
#endif
#if N > 3
    :: REMOTE(victim, 3) -> other = 3
#endif
    fi;
#endif
#if FAULT == ABORT
    poison_all(victim)
#elif FAULT == CUT
    end_link(victim, other)
#elif FAULT == STRAY
    if
    :: !has_left[other] -> stray(victim, other)
    :: else
    fi;
    victim = 0;
    other = 0
#else
    dead[victim] = 1;
    somebody_died = 1;
#if defined(LINKS)
    for (peer : 0 .. N - 1) {
      if
      :: REMOTE(victim, peer) -> end_link(victim, peer)
      :: else
      fi
    }
    peer = 0;
#endif
    leave(victim)
#endif
  }
}
#endif
