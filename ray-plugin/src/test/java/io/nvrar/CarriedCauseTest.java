package io.nvrar;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.device.CarriedCauseUser;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.NoSuchFileException;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.Test;

/** By Java's own serializer; {@code FaultsIT} has the same by Ray's. */
class CarriedCauseTest {

  /** What no serializer can carry. */
  private static final class Stubborn extends RuntimeException {
    private static final long serialVersionUID = 1;

    @SuppressWarnings("unused")
    private final Thread thread = Thread.currentThread();

    Stubborn(String message, Throwable cause) {
      super(message, cause);
    }
  }

  /** A user's own, of which nothing is known here. */
  private static final class Foreign extends CollectiveException {
    private static final long serialVersionUID = 1;

    Foreign(String message, Throwable cause) {
      super(message, cause);
    }
  }

  private static Stubborn stubborn() {
    return new Stubborn("no way", new NoSuchFileException("weights"));
  }

  @SuppressWarnings("BanSerializableRead") // what this test has written
  private static <T extends Throwable> T travelled(T sent) throws Exception {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(sent);
    }
    try (ObjectInputStream in =
        new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
      @SuppressWarnings("unchecked")
      T received = (T) in.readObject();
      return received;
    }
  }

  private static String printed(Throwable e) {
    StringWriter text = new StringWriter();
    e.printStackTrace(new PrintWriter(text, true));
    return text.toString();
  }

  @Test
  void everyExceptionTravelsWithACauseThatCannot() throws Exception {
    List<RuntimeException> exceptions =
        List.of(
            new CollectiveException("outer"),
            new PeerLostException("rank 3 is lost", 3, "node-b", 4711),
            new CollectiveTimeoutException("ranks 1 and 2 are missing", 1, 2),
            new GroupMismatchException("rank 0 has 4, rank 1 has 5"),
            new CollectiveFatalException("this process must end"),
            new BackendUnavailableException("no library"));
    for (RuntimeException sent : exceptions) {
      Stubborn cause = stubborn();
      sent.initCause(cause);
      RuntimeException received = travelled(sent);
      assertThat(received)
          .isExactlyInstanceOf(sent.getClass())
          .usingRecursiveComparison()
          .ignoringFields("cause")
          .isEqualTo(sent);
      assertThat(received).cause().isInstanceOf(CarriedCause.class).hasMessage("no way");
      assertThat(printed(received)).isEqualTo(printed(sent));
      assertThat(sent).as("where it was thrown").cause().isSameAs(cause);
    }
  }

  @Test
  void whatIsSuppressedTravelsToo() throws Exception {
    CollectiveException sent = new CollectiveException("outer");
    sent.addSuppressed(stubborn());
    sent.addSuppressed(new CollectiveException("inner", stubborn()));
    CollectiveException received = travelled(sent);
    assertThat(printed(received)).isEqualTo(printed(sent));
    assertThat(received.getSuppressed()[1]).isExactlyInstanceOf(CollectiveException.class);
    received.addSuppressed(new CollectiveException("can still be added to"));
  }

  @Test
  void whatTravelsByItselfIsLeftAsItIs() throws Exception {
    PeerLostException inner = new PeerLostException("rank 3 is lost", 3, "node-b", 4711);
    assertThat(travelled(new CollectiveException("outer", inner)))
        .cause()
        .isExactlyInstanceOf(PeerLostException.class)
        .hasMessage("rank 3 is lost");
    assertThat(CarriedCause.of(inner)).isSameAs(inner);
    Throwable carried = CarriedCause.of(stubborn());
    assertThat(CarriedCause.of(carried)).isSameAs(carried);
    Foreign foreign = new Foreign("of a user", new IllegalStateException("plain"));
    assertThat(travelled(foreign)).isExactlyInstanceOf(Foreign.class).cause().hasMessage("plain");
  }

  @Test
  void aUsersSubclassThatCannotTravelIsCarried() throws Exception {
    RuntimeException outside = CarriedCauseUser.failed("of a user", stubborn());
    CollectiveException sent = new CollectiveException("outer", outside);
    sent.addSuppressed(CarriedCauseUser.failed("of another", stubborn()));
    CollectiveException received = travelled(sent);
    assertThat(received).cause().isInstanceOf(CarriedCause.class).hasMessage("of a user");
    assertThat(printed(received)).isEqualTo(printed(sent));
    assertThat(CarriedCause.of(outside)).isInstanceOf(CarriedCause.class);
  }

  @Test
  void causesThatGoInCirclesAndMessagesThatFailAreNoTrap() throws Exception {
    Stubborn one = new Stubborn("one", new IOException("two"));
    Objects.requireNonNull(one.getCause()).initCause(one);
    one.addSuppressed(
        new RuntimeException() {
          private static final long serialVersionUID = 1;

          @Override
          public String getMessage() {
            throw new UnsupportedOperationException();
          }
        });
    assertThat(printed(travelled(new CollectiveException("outer", one))))
        .contains("Caused by: " + one, "Caused by: java.io.IOException: two", getClass().getName());
  }
}
