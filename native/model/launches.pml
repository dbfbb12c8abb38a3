/* How the launches of one rank follow each other on a GPU with programmatic dependent launch (docs/concepts/protocol.md 4 to 6):
 * each warp finds its launch's number, and proves that no other launch is in flight, although the launch may start
 * before the one before it has completed. README.md says what is modelled; ./check runs it, right and with its mistakes. */

#ifndef LAUNCHES
#define LAUNCHES 4
#endif
#define WARPS 2
/* The warps of a launch, of one block or of two, which makes no difference here: two, or in every other launch one. */
#if defined(UNEVEN)
#define SIZE(l) (1 + (l) % 2)
#else
#define SIZE(l) WARPS
#endif
/* Eager launches have tags of their own; replays of a graph of so many launches repeat them. */
#if defined(GRAPH)
#define TAG(l) ((l) % GRAPH + 1)
#else
#define TAG(l) ((l) + 1)
#endif

/* The rank's state in device memory. */
byte claims[WARPS];
byte exits[WARPS], own_epoch[WARPS];  /* written together */
byte latest_epoch, latest_tag;          /* written together */

/* What the GPU counts of a launch. A warp that has ended counts as one that lets the next launch start. The first warp
 * of a block to do so does it for the whole block, so it waits for the others. */
byte let_next[LAUNCHES], ended[LAUNCHES];
bit latest_stored[LAUNCHES];            /* a launch has completed when its stores are visible, too */
#define COMPLETE(l) (ended[l] == SIZE(l) && latest_stored[l])

/* A kernel of the caller's between two launches. It lets the next one start as soon as it has started itself. */
#if defined(FOREIGN)
bit foreign_started[LAUNCHES], foreign_ended[LAUNCHES];
#define MAY_START(l) (l == 0 || foreign_started[l - 1])
#define BEFORE_IS_COMPLETE(l) (l == 0 || foreign_ended[l - 1])
#else
#if defined(MISTAKE_FIRST_WARP_FOR_ALL)
#define ENOUGH(l) 1
#else
#define ENOUGH(l) SIZE(l)
#endif
#define MAY_START(l) (l == 0 || let_next[l - 1] >= ENOUGH(l - 1))
#define BEFORE_IS_COMPLETE(l) (l == 0 || COMPLETE(l - 1))
#endif

bit wrong_number, false_overlap, sent_too_early, two_ahead;
#define PROPERTY(name, holds) name = !(holds); assert(!name)

inline load() {
  if /* Two loads, which may be served in either order. */
  :: seen_exits = exits[w]; seen_own = own_epoch[w]; atomic { seen_epoch = latest_epoch; seen_tag = latest_tag }
  :: atomic { seen_epoch = latest_epoch; seen_tag = latest_tag }; atomic { seen_exits = exits[w]; seen_own = own_epoch[w] }
  fi
}

inline claim() {
  atomic { old = claims[w]; claims[w]++ }
}

proctype warp(byte l; byte w) {
  byte old, seen_exits, seen_own, seen_epoch, seen_tag, number;
  atomic {
    MAY_START(l) ->
      PROPERTY(two_ahead, l < 2 || COMPLETE(l - 2))
  }
#if defined(MISTAKE_EARLY_TRIGGER)
  let_next[l]++;
#endif
#if defined(MISTAKE_TRIGGER_WITHOUT_CLAIM) /* The claims of every other launch take long. */
  if :: l % 2 != 0 -> claim() :: else fi;
#else
  claim();
#endif
#if defined(MISTAKE_TRUSTED_GUESS)
  load();
#endif
#if !defined(MISTAKE_NO_WAIT)
  BEFORE_IS_COMPLETE(l) ->
#endif
#if defined(EXCLUSIVE) && !defined(MISTAKE_EARLY_TRIGGER)
  let_next[l]++;
#endif
#if defined(MISTAKE_TRIGGER_WITHOUT_CLAIM)
  if :: l % 2 == 0 -> claim() :: else fi;
#endif
#if !defined(MISTAKE_TRUSTED_GUESS)
  load();
#endif
  number = (seen_tag == TAG(l) && seen_own != seen_epoch -> seen_epoch : seen_epoch + 1);
  PROPERTY(sent_too_early, l == 0 || COMPLETE(l - 1));
  PROPERTY(false_overlap, seen_exits == old);
  PROPERTY(wrong_number, number == l + 1);
  /* Block 0 looks at the places that the launch before had and this one has not. */
  PROPERTY(false_overlap, w != 0 || l == 0 || SIZE(l - 1) <= SIZE(l) || own_epoch[WARPS - 1] == l);
  if /* Whenever it becomes visible, also after the warp has ended. */
  :: w == 0 -> run store_latest(l)
  :: else
  fi;
  atomic { exits[w] = old + 1; own_epoch[w] = number }
#if !defined(EXCLUSIVE) && !defined(MISTAKE_EARLY_TRIGGER)
  let_next[l]++;
#endif
  ended[l]++
}

proctype store_latest(byte l) {
  atomic { latest_epoch = l + 1; latest_tag = TAG(l); latest_stored[l] = 1 }
}

#if defined(FOREIGN)
proctype foreign(byte l) {
  let_next[l] == SIZE(l) -> foreign_started[l] = 1;
#if !defined(MISTAKE_FOREIGN_DOES_NOT_WAIT)
  COMPLETE(l) ->
#endif
  foreign_ended[l] = 1
}
#endif

init {
  byte l, w;
  atomic {
    for (l : 0 .. LAUNCHES - 1) {
      for (w : 0 .. SIZE(l) - 1) { run warp(l, w) }
#if defined(FOREIGN)
      run foreign(l)
#endif
    }
  }
}
