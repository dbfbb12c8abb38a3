package io.nvrar;

import java.util.Arrays;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Stands for a cause where it may have to travel: Ray's serializer cannot carry all exceptions, not
 * even all of the JDK's, and where it cannot, the driver gets none of the chain. It has the
 * message, the stack trace, the causes and the suppressed exceptions of the other, and prints as
 * that does.
 *
 * <p>The exceptions of this library take what led to them along in this form by themselves, when
 * they are serialized; {@link #of} is for those of an actor.
 */
public final class CarriedCause extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /**
   * What travels as it is. Not what users derive: that has a form of its own to be serialized in,
   * or none.
   */
  private static final Set<Class<? extends Throwable>> TRAVELLING =
      Set.of(
          CarriedCause.class,
          CollectiveException.class,
          PeerLostException.class,
          CollectiveTimeoutException.class,
          GroupMismatchException.class,
          CollectiveFatalException.class,
          BackendUnavailableException.class);

  private final String text;

  private CarriedCause(@Nullable String message, String text) {
    super(message);
    this.text = text;
  }

  /** What can travel in the place of an exception; the same where it is one of this library. */
  public static Throwable of(Throwable original) {
    Set<Throwable> seen = Collections.newSetFromMap(new IdentityHashMap<>());
    seen.add(original);
    return of(original, seen);
  }

  /**
   * An exception of this library as it is to be serialized.
   *
   * @param bare makes one of the same class and the same fields
   */
  static Object travelling(Throwable original, Supplier<? extends Throwable> bare) {
    Throwable cause = original.getCause();
    if ((cause == null || travels(cause))
        && Arrays.stream(original.getSuppressed()).allMatch(CarriedCause::travels)) {
      return original;
    }
    Throwable copy = bare.get();
    if (copy.getClass() != original.getClass()) {
      return original; // of a class that somebody has derived, and looks after
    }
    Set<Throwable> seen = Collections.newSetFromMap(new IdentityHashMap<>());
    seen.add(original);
    return take(original, copy, seen);
  }

  private static boolean travels(Throwable e) {
    return TRAVELLING.contains(e.getClass());
  }

  private static Throwable of(Throwable original, Set<Throwable> seen) {
    return travels(original) ? original : take(original, carrier(original), seen);
  }

  private static CarriedCause carrier(Throwable original) {
    try {
      return new CarriedCause(original.getMessage(), original.toString());
    } catch (RuntimeException e) { // it is made by whoever wrote that class
      return new CarriedCause(null, original.getClass().getName());
    }
  }

  private static Throwable take(Throwable from, Throwable to, Set<Throwable> seen) {
    to.setStackTrace(from.getStackTrace());
    Throwable cause = from.getCause();
    if (cause != null && seen.add(cause)) {
      to.initCause(of(cause, seen));
    }
    for (Throwable suppressed : from.getSuppressed()) {
      if (seen.add(suppressed)) {
        to.addSuppressed(of(suppressed, seen));
      }
    }
    return to;
  }

  /** As the exception that this stands for: its class and its message. */
  @Override
  @SuppressWarnings("OverrideThrowableToString") // the message is the other's, and so is the class
  public String toString() {
    return text;
  }
}
