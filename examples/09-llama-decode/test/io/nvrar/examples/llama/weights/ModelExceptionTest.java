package io.nvrar.examples.llama.weights;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CarriedCause;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class ModelExceptionTest {
  @TempDir private Path directory;

  @Test
  void whatWasWrongWithAFileIsTheCause() throws IOException {
    Files.writeString(directory.resolve("config.json"), "{'hidden_size'");
    assertThatThrownBy(() -> LlamaConfig.read(directory))
        .isInstanceOf(ModelException.class)
        .hasMessageContaining("is not JSON")
        .hasCauseInstanceOf(EOFException.class);
  }

  @Test
  void whatIsSuppressedTravelsWithACauseAndWithout() throws Exception {
    for (ModelException sent :
        List.of(
            new ModelException("no model"),
            new ModelException("no model", new IOException("no file")))) {
      sent.addSuppressed(new Stubborn("not closed"));
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
        out.writeObject(sent);
      }
      ModelException received;
      try (ObjectInputStream in =
          new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
        received = (ModelException) in.readObject();
      }
      assertThat(printed(received)).isEqualTo(printed(sent));
      assertThat(received.getSuppressed()).hasOnlyElementsOfType(CarriedCause.class);
    }
  }

  private static String printed(Throwable e) {
    StringWriter text = new StringWriter();
    e.printStackTrace(new PrintWriter(text, true));
    return text.toString();
  }

  /** What no serializer can carry. */
  private static final class Stubborn extends RuntimeException {
    private static final long serialVersionUID = 1L;

    @SuppressWarnings("unused")
    private final Thread thread = Thread.currentThread();

    Stubborn(String message) {
      super(message);
    }
  }
}
