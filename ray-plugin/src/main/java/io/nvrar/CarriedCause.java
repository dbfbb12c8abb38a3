package io.nvrar;

import java.util.Arrays;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A serializable copy of a cause. Ray's serializer cannot carry every exception, not even every one
 * of the JDK's, and if one cause cannot be carried, the driver loses the whole chain. The copy has
 * the message, the stack trace, the causes and the suppressed exceptions of the original, and
 * prints as the original does.
 *
 * <p>The exceptions of this library convert their causes into this form by themselves when they are
 * serialized. {@link #of} is for exceptions that an actor throws on its own.
 */
public final class CarriedCause extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /**
   * The classes that are serialized unchanged. Classes that users derive from them are not listed:
   * such a class serializes in a form of its own, or not at all.
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

  /**
   * A serializable stand-in for an exception: the exception itself if it is one of this library's.
   */
  public static Throwable of(Throwable original) {
    Set<Throwable> seen = Collections.newSetFromMap(new IdentityHashMap<>());
    seen.add(original);
    return of(original, seen);
  }

  /**
   * The form in which an exception of this library is serialized.
   *
   * @param bare creates an exception of the same class with the same fields and nothing else
   */
  static Object travelling(Throwable original, Supplier<? extends Throwable> bare) {
    Throwable cause = original.getCause();
    if ((cause == null || travels(cause))
        && Arrays.stream(original.getSuppressed()).allMatch(CarriedCause::travels)) {
      return original;
    }
    Throwable copy = bare.get();
    if (copy.getClass() != original.getClass()) {
      return original; // a derived class serializes in its own way
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
    } catch (RuntimeException e) { // getMessage and toString may be overridden, and may throw
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

  /** The class and the message of the original exception. */
  @Override
  @SuppressWarnings("OverrideThrowableToString") // class and message are the original's
  public String toString() {
    return text;
  }
}
