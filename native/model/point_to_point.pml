/* Point-to-point of docs/concepts/protocol.md: two ranks, each one thread that turns what it sends and what it receives. README.md
 * says what is modelled and what is not; ./check runs it, right and with its known mistakes. */

#ifndef SLOTS
#define SLOTS 4             /* of a ring */
#endif
#ifndef SHARE
#define SHARE 2             /* the most that a step sends, and what a receiver owes before it gives credit */
#endif
#ifndef PACKETS
#define PACKETS 9           /* of each direction; more than a ring holds twice */
#endif
#define LONGEST 3           /* packets of a transfer */

/* Rank 1 sends too. */
#if defined(BOTH_WAYS)
#define SENDS(rank) PACKETS
#else
#define SENDS(rank) (rank == 0 -> PACKETS : 0)
#endif

byte memory[2 * SLOTS];     /* rings: slot s of the one that rank r receives by is r * SLOTS + s; 0: never written */
bit unread[2 * SLOTS];
byte credit[2];             /* in the memory of rank r: how many packets that it sent were read */
byte ends[2];               /* the last packet known to end a transfer that rank r receives, counted from 1 */
#if defined(AT_ONCE)
#define IN_FLIGHT(what)
#else
#define IN_FLIGHT(what) what
byte in_flight[2 * SLOTS];
byte credit_in_flight[2];
#endif

bit slot_written_twice, unread_slot_overwritten, unread_packet_missing;
#define PROPERTY(name, holds) name = !(holds); assert(!name)

#if defined(MISTAKE_NUMBER_IN_RING)
#define NUMBER(n) ((n) % SLOTS + 1)
#else
#define NUMBER(n) ((n) + 1)
#endif
#if defined(MISTAKE_IGNORED_CREDIT)
#define ROOM SLOTS
#else
#define ROOM (SLOTS - (sent - credit[me]))
#endif
#if defined(MISTAKE_LATE_CREDIT)
#define OWES_ENOUGH (read - credited > SLOTS)
#else
#define OWES_ENOUGH (read - credited >= SHARE || read > credited && ends[me] == read)
#endif
#if defined(MISTAKE_CREDIT_BEFORE_READING)
#define READ_BY_CREDIT (read + 1)
#else
#define READ_BY_CREDIT read
#endif
#if defined(MISTAKE_SEND_BEFORE_RECV)
#define MAY_RECEIVE (sent == SENDS(me))
#else
#define MAY_RECEIVE true
#endif

#define me _pid
#define other (1 - _pid)
#define NEXT_IS_HERE (memory[me * SLOTS + read % SLOTS] == NUMBER(read))

inline put(slot, packet) {
#if defined(AT_ONCE)
  PROPERTY(unread_slot_overwritten, !unread[slot]);
  memory[slot] = packet;
  unread[slot] = 1
#else
  PROPERTY(slot_written_twice, in_flight[slot] == 0);
  in_flight[slot] = packet
#endif
}

inline give_credit() {
#if defined(AT_ONCE)
  credit[other] = READ_BY_CREDIT;
#else
  credit_in_flight[other] = READ_BY_CREDIT;
#endif
  credited = read
}

active [2] proctype rank() {
  byte sent, read, credited, left, moved, length;
  do
  :: atomic { sent < SENDS(me) && ROOM > 0 ->
      if
      :: left == 0 ->
        select (length : 1 .. LONGEST);
        left = (length < SENDS(me) - sent -> length : SENDS(me) - sent);
        length = 0
      :: else
      fi;
      do
      :: moved < SHARE && left > 0 && ROOM > 0 ->
        put(other * SLOTS + sent % SLOTS, NUMBER(sent));
        left--;
        sent++;
        moved++
      :: else -> break
      od;
      moved = 0;
      if /* Known to the receiver too: its own recv says how long the transfer is. */
      :: left == 0 -> ends[other] = sent
      :: else
      fi
    }
  :: atomic { read < SENDS(other) && MAY_RECEIVE && NEXT_IS_HERE ->
      PROPERTY(unread_packet_missing, unread[me * SLOTS + read % SLOTS]);
      unread[me * SLOTS + read % SLOTS] = 0;
      read++
    }
  /* At once, or after more was read. */
  :: atomic { OWES_ENOUGH -> give_credit() }
  :: sent == SENDS(me) && read == SENDS(other) && !OWES_ENOUGH -> break
  od
}

#define ARRIVES(slot)                                   \
  :: atomic { in_flight[slot] != 0 ->                   \
      PROPERTY(unread_slot_overwritten, !unread[slot]); \
      memory[slot] = in_flight[slot];                   \
      in_flight[slot] = 0;                              \
      unread[slot] = 1                                  \
    }
/* One word of one writer: a later credit may arrive instead of an earlier one, never before it. */
#define CREDIT_ARRIVES(r) :: atomic { credit_in_flight[r] != 0 -> credit[r] = credit_in_flight[r]; credit_in_flight[r] = 0 }

#if !defined(AT_ONCE)
active proctype network() {
end:
  do
#if SLOTS == 4
  ARRIVES(0) ARRIVES(1) ARRIVES(2) ARRIVES(3) ARRIVES(4) ARRIVES(5) ARRIVES(6) ARRIVES(7)
#else
  ARRIVES(0) ARRIVES(1) ARRIVES(2) ARRIVES(3)
#endif
  CREDIT_ARRIVES(0) CREDIT_ARRIVES(1)
  od
}
#endif
