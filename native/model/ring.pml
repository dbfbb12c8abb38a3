/* The ring protocol of docs/protocol.md for N ranks and EPOCHS launches. README.md says what is modelled and what is not;
 * ./check runs it, right and with each of its known mistakes. */

#ifndef N
#define N 2
#endif
#ifndef EPOCHS
#define EPOCHS 5
#endif

#define THIRD (N > 2 -> 2 : 0)

/* Collectives that a launch may be; CALLS is a set of bits. */
#define BARRIER 1
#define BROADCAST 2         /* from rank (epoch % N): the others' headers are its only evidence */
#define REDUCE 4            /* to rank (epoch % N), by sentinel packets: what the root gets is no evidence for the others */
#define ONE_SHOT_EPOCH 8    /* all-gather, all-to-all and reduce-scatter move their packets alike */
#define ONE_SHOT_SENTINEL 16
#define TWO_SHOT_EPOCH 32
#define TWO_SHOT_SENTINEL 64
#define HIERARCHICAL 128    /* by sentinel packets; nodes of two ranks, the last may have one */
#ifndef CALLS
#define CALLS (BARRIER + BROADCAST + REDUCE + ONE_SHOT_EPOCH + ONE_SHOT_SENTINEL)
#endif

/* What may go wrong, once, at any moment and to any rank. */
#define NOTHING 0
#define ABORT 1             /* a thread of a rank aborts it */
#define DEATH 2             /* a rank stops for ever */
#define STALL 3             /* any wait may reach its deadline although nobody died */
#define DIFFERENCE 4        /* a rank makes another call than the others */
#ifndef FAULT
#define FAULT NOTHING
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

/* Areas of a rank's memory. Those of sentinel packets come last. */
#define HEADERS 0
#define EPOCH_HOP(h) (h)    /* h is 1 or 2 */
#if defined(MISTAKE_SHARED_KINDS)
#define SENTINEL_HOP(h) (h)
#define SENTINEL_HOPS 1
#define AREAS 3
#elif defined(MISTAKE_SHARED_HOPS)
#define SENTINEL_HOP(h) 3
#define SENTINEL_HOPS 1
#define AREAS 4
#elif CALLS >= HIERARCHICAL
#define SENTINEL_HOP(h) (2 + (h))
#define SENTINEL_HOPS 3
#define AREAS 6
#elif CALLS >= TWO_SHOT_EPOCH
#define SENTINEL_HOP(h) (2 + (h))
#define SENTINEL_HOPS 2
#define AREAS 5
#else
#define SENTINEL_HOP(h) 2
#define SENTINEL_HOPS 1
#define AREAS 3
#endif

#define SLOT(area, owner, parity, source) ((((area) * N + (owner)) * 2 + (parity)) * N + (source))
#define OWNER(slot) ((slot) / (2 * N) % N)
#define SLOTS (AREAS * N * 2 * N)
#define FIRST_SENTINEL SLOT(SENTINEL_HOP(1), 0, 0, 0)

/* What a packet carries is the epoch whose data it is; a header of the call that differs carries DIFFERS beside it. */
#define EMPTY 0
#define DIFFERS 16

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
byte differing_epoch;       /* in which a rank made another call than the others; 0: none did */
byte entered[N];            /* the last epoch that the rank has begun to send */
byte call_of[2];            /* of an epoch, by its parity */

/* The properties; each has a name so that ./check can tell which one a mistake breaks. */
bit slot_written_twice, unread_slot_overwritten, other_epoch_taken, ran_ahead, difference_unseen, packet_destroyed;
#define PROPERTY(name, holds) name = !(holds); assert(!name)

#define me _pid

/* Into the slot that `slot` names, of the rank `peer`. Memory that nobody will read again is left out. */
inline put(packet) {
  if
  :: has_left[peer] -> skip
#if defined(AT_ONCE)
  :: else ->
    PROPERTY(unread_slot_overwritten, !unread[slot] && (slot < FIRST_SENTINEL || memory[slot] == EMPTY));
    memory[slot] = packet;
    unread[slot] = 1
#else
  :: else ->
    PROPERTY(slot_written_twice, in_flight[slot] == EMPTY);
    in_flight[slot] = packet
#endif
  fi
}

inline poison_all(first) {
  poisoned[first] = 1;
  poison_in_flight[first] = 0;
#if !defined(MISTAKE_KEPT_POISON)
  for (peer : 0 .. N - 1) {
    if
    :: peer != first && !poisoned[peer] && !has_left[peer] -> poison_in_flight[peer] = 1
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
  slot = 0
}

/* Hops of a call, who sends to whom in one, and where. */
#define NODE(r) ((r) / 2)
#define SAME_NODE(a, b) (NODE(a) == NODE(b))
/* Slices 0 and 1; a rank alone in its node owns both. */
#define SAME_SLICE(a, b) ((a) % 2 == (b) % 2 || (a) == N - 1 && N % 2 == 1 || (b) == N - 1 && N % 2 == 1)
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
#define HEADER_SLOT(owner, e, source) SLOT(HEADERS, owner, HEADER_PARITY(e), source)
#define HEADER_IS_HERE(e, source) (me == (source) || SAME_EPOCH(memory[HEADER_SLOT(me, e, source)], e))
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
    :: peer != me ->
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
    :: call = BARRIER
    :: call = ONE_SHOT_SENTINEL
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
    :: source != me ->
      slot = HEADER_SLOT(me, e, source);
      PROPERTY(other_epoch_taken, memory[slot] % DIFFERS == e);
      unread[slot] = 0;
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

/* The end of a wait that found nothing. */
#define GIVE_UP                                              \
  :: atomic { poisoned[me] -> poison_all(me); goto failed }  \
  :: atomic { DEADLINE_MAY_PASS -> poison_all(me); goto failed }

/* On to the next wait, or to the end of the call. */
#define NEXT_WAIT                    \
  next_packet(e);                    \
  if                                 \
  :: hop != 0 -> goto take           \
  :: else -> goto result             \
  fi

active [N] proctype rank() {
  byte e, peer, source, slot, call, differs;
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
#else
        send_headers(e, differs);
#endif
        send_hop(e)
      }
    :: atomic { !MAY_CALL -> goto left }
    fi;
#if defined(MISTAKE_LATE_CLEAR)
    atomic { clear_epoch(e - 1) }
#endif

    if
    :: atomic { HEADERS_ARE_HERE(e) ->
        take_headers(e);
#if defined(MISTAKE_EARLY_HEADER)
        if
        :: e < EPOCHS -> send_headers(e + 1, 0)
        :: else
        fi;
#endif
        NEXT_WAIT
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

#if !defined(AT_ONCE) || FAULT != NOTHING
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

#if FAULT == ABORT || FAULT == DEATH
active proctype fate() {
  byte peer, slot, victim;
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
#if FAULT == ABORT
    poison_all(victim)
#else
    dead[victim] = 1;
    somebody_died = 1;
    leave(victim)
#endif
  }
}
#endif
