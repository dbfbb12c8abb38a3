package io.nvrar.internal.wire;

import com.esotericsoftware.kryo.kryo5.Kryo;
import com.esotericsoftware.kryo.kryo5.KryoException;
import com.esotericsoftware.kryo.kryo5.Registration;
import com.esotericsoftware.kryo.kryo5.Serializer;
import com.esotericsoftware.kryo.kryo5.io.Input;
import com.esotericsoftware.kryo.kryo5.io.Output;
import com.esotericsoftware.kryo.kryo5.util.DefaultClassResolver;
import io.nvrar.GroupConfig;
import io.nvrar.internal.Printable;
import java.lang.reflect.Array;
import java.nio.charset.StandardCharsets;
import java.util.Locale;

/**
 * Serializes the objects of the bootstrap protocol with Kryo. Not thread-safe.
 *
 * <p>Kryo allocates as much as a length field claims, so six bytes can request 2 GB. Therefore
 * everything of variable length is read here by a serializer that compares the claimed length with
 * the remaining bytes.
 */
public final class Wire {
  /**
   * The largest size of one object: the introduction of all members, of which each has a share of
   * less than 4 KiB.
   */
  public static final int MAX_BYTES = GroupSpec.MAX_WORLD_SIZE * 4096;

  private static final int MAX_REASON_CHARS = 200;

  /** The buffer for what is written; it grows for a long object, and only for that. */
  private static final int FIRST_BYTES = 512;

  private static final int MAX_KEPT_BYTES = 64 * 1024;

  private final Kryo kryo = new Kryo(new NumbersOnly(), null);
  private final Output output = new Output(FIRST_BYTES, MAX_BYTES);

  public Wire() {
    kryo.setRegistrationRequired(true);
    kryo.setReferences(false);
    // Ids are part of the protocol: never reuse one. Kryo writes a record's components without
    // names, so a changed record needs a new protocol version.
    kryo.register(String.class, new StringSerializer());
    kryo.register(byte[].class, new BytesSerializer(), 10);
    kryo.register(int[].class, new IntsSerializer(), 11);
    kryo.register(GroupConfig.class, new ConfigSerializer(), 12);
    kryo.register(ProcessIdentity.class, 14);
    kryo.register(Failure.Kind.class, 15);
    kryo.register(Failure.class, 16);
    kryo.register(Message.Hello.class, 20);
    kryo.register(Message.ObserverHello.class, 21);
    kryo.register(Message.Descriptor.class, 22);
    kryo.register(Message.MemberInfo.class, 23);
    kryo.register(Message.MemberInfo[].class, new ArraySerializer<>(Message.MemberInfo.class), 24);
    kryo.register(Message.Members.class, 25);
    kryo.register(Message.Connected.class, 26);
    kryo.register(Message.Ready.class, 27);
    kryo.register(Message.Heartbeat.class, 28);
    kryo.register(Message.Closing.class, 29);
    kryo.register(Message.AllClosed.class, 30);
    kryo.register(Message.Goodbye.class, 31);
    kryo.register(Message.Destroy.class, 32);
    kryo.register(Message.Activity.class, 33);
    kryo.register(Message.Split.class, 34);
    kryo.register(Message.SplitPlaces.class, 35);
    kryo.register(Message.SplitRendezvous.class, 36);
    kryo.register(GroupSpec.class, 37);
  }

  /**
   * The bytes of {@code value}.
   *
   * @throws IllegalArgumentException if they are more than {@link #MAX_BYTES}
   */
  public byte[] write(Object value) {
    output.reset();
    try {
      kryo.writeClassAndObject(output, value);
    } catch (KryoException e) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a %s that takes more than %d bytes",
              value.getClass().getSimpleName(),
              MAX_BYTES),
          e);
    }
    byte[] bytes = output.toBytes();
    if (output.getBuffer().length > MAX_KEPT_BYTES) {
      output.setBuffer(new byte[FIRST_BYTES], MAX_BYTES);
    }
    return bytes;
  }

  /**
   * Reads what {@link #write} wrote.
   *
   * @throws IllegalArgumentException if the bytes are anything but one object of {@code type}
   */
  public <T> T read(byte[] bytes, int offset, int length, Class<T> type) {
    Input input = new Input(bytes, offset, length);
    Object value;
    try {
      value = kryo.readClassAndObject(input);
    } catch (RuntimeException e) {
      // Kryo, the serializers below and the records' own checks throw different exceptions.
      throw new IllegalArgumentException("not a " + type.getSimpleName() + ": " + firstLine(e), e);
    }
    if (!type.isInstance(value)) {
      throw new IllegalArgumentException(
          "not a "
              + type.getSimpleName()
              + " but "
              + (value == null ? "nothing" : "a " + value.getClass().getSimpleName()));
    }
    if (input.position() != input.limit()) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "%d bytes follow the %s",
              input.limit() - input.position(),
              type.getSimpleName()));
    }
    return type.cast(value);
  }

  /** The message may contain untrusted input, so it is made printable. */
  private static String firstLine(RuntimeException e) {
    String message = e.getMessage();
    String line =
        message == null
            ? e.getClass().getSimpleName()
            : message.lines().findFirst().orElse("no reason given");
    return Printable.of(line, MAX_REASON_CHARS);
  }

  /** Reads a length and checks that this many items of at least {@code itemBytes} can follow. */
  static int readLength(Input input, int itemBytes) {
    int length = input.readVarInt(true);
    int left = input.limit() - input.position();
    if (length < 0 || length > left / itemBytes) {
      throw new KryoException("length " + length + " with " + left + " bytes left");
    }
    return length;
  }

  /** Refuses class names, which are not used here and whose length Kryo would trust, too. */
  private static final class NumbersOnly extends DefaultClassResolver {
    @Override
    protected Registration readName(Input input) {
      throw new KryoException("a class name where a number belongs");
    }
  }

  private static final class BytesSerializer extends Serializer<byte[]> {
    @Override
    public void write(Kryo kryo, Output output, byte[] value) {
      output.writeVarInt(value.length, true);
      output.writeBytes(value);
    }

    @Override
    public byte[] read(Kryo kryo, Input input, Class<? extends byte[]> type) {
      return input.readBytes(readLength(input, 1));
    }
  }

  private static final class StringSerializer extends Serializer<String> {
    @Override
    public void write(Kryo kryo, Output output, String value) {
      byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
      output.writeVarInt(bytes.length, true);
      output.writeBytes(bytes);
    }

    @Override
    public String read(Kryo kryo, Input input, Class<? extends String> type) {
      return new String(input.readBytes(readLength(input, 1)), StandardCharsets.UTF_8);
    }
  }

  private static final class IntsSerializer extends Serializer<int[]> {
    @Override
    public void write(Kryo kryo, Output output, int[] value) {
      output.writeVarInt(value.length, true);
      output.writeInts(value, 0, value.length);
    }

    @Override
    public int[] read(Kryo kryo, Input input, Class<? extends int[]> type) {
      return input.readInts(readLength(input, 4));
    }
  }

  private static final class ArraySerializer<T> extends Serializer<T[]> {
    private final Class<T> component;

    ArraySerializer(Class<T> component) {
      this.component = component;
    }

    @Override
    public void write(Kryo kryo, Output output, T[] value) {
      output.writeVarInt(value.length, true);
      for (T item : value) {
        kryo.writeObject(output, item);
      }
    }

    @Override
    public T[] read(Kryo kryo, Input input, Class<? extends T[]> type) {
      @SuppressWarnings("unchecked")
      T[] items = (T[]) Array.newInstance(component, readLength(input, 1));
      for (int i = 0; i < items.length; i++) {
        items[i] = kryo.readObject(input, component);
      }
      return items;
    }
  }
}
