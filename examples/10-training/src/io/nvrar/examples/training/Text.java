package io.nvrar.examples.training;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.SplittableRandom;
import java.util.zip.CRC32C;

/**
 * A text, each character a number. The text is cut into 100 blocks, and every tenth block is held
 * out, so a book's beginning, middle and end are in both parts.
 */
final class Text {
  private static final int BLOCKS = 100;
  private static final int HELD_OUT_INTERVAL = 10;

  private final char[] vocabulary;
  private final short[] training;
  private final List<short[]> heldOut = new ArrayList<>();
  private final String checksum;

  private Text(String text, String checksum) {
    this.checksum = checksum;
    boolean[] occurs = new boolean[Character.MAX_VALUE + 1];
    text.chars().forEach(character -> occurs[character] = true);
    StringBuilder characters = new StringBuilder();
    short[] numbers = new short[occurs.length];
    for (int character = 0; character < occurs.length; character++) {
      if (occurs[character]) {
        numbers[character] = (short) characters.length();
        characters.append((char) character);
      }
    }
    vocabulary = characters.toString().toCharArray();
    short[] learned = new short[text.length()];
    int count = 0;
    for (int block = 0; block < BLOCKS; block++) {
      int from = (int) ((long) text.length() * block / BLOCKS);
      int to = (int) ((long) text.length() * (block + 1) / BLOCKS);
      short[] part = new short[to - from];
      for (int i = from; i < to; i++) {
        part[i - from] = numbers[text.charAt(i)];
      }
      if (block % HELD_OUT_INTERVAL == HELD_OUT_INTERVAL - 1) {
        heldOut.add(part);
      } else {
        System.arraycopy(part, 0, learned, count, part.length);
        count += part.length;
      }
    }
    training = Arrays.copyOf(learned, count);
  }

  /**
   * Decodes UTF-8 text and splits it into training and held-out blocks.
   *
   * @param utf8 its bytes
   * @param name the text's name in messages
   * @param context the characters that a model sees at once; each block has more of them
   * @throws TrainingException if it is empty, too short, or not UTF-8
   */
  static Text of(byte[] utf8, String name, int context) {
    if (utf8.length == 0) {
      throw new TrainingException(String.format(Locale.ROOT, "the text %s is empty", name));
    }
    String text;
    try {
      text = UTF_8.newDecoder().decode(ByteBuffer.wrap(utf8)).toString();
    } catch (CharacterCodingException e) {
      throw new TrainingException(
          String.format(Locale.ROOT, "the text %s is not in UTF-8: %s", name, e.getMessage()), e);
    }
    long least = (long) BLOCKS * (context + 1);
    if (text.length() < least) {
      throw new TrainingException(
          String.format(
              Locale.ROOT,
              "the text %s has %d characters, and a context of %d needs %d",
              name,
              text.length(),
              context,
              least));
    }
    CRC32C sum = new CRC32C();
    sum.update(utf8);
    Text made = new Text(text, Long.toHexString(sum.getValue()));
    int characters = made.vocabularySize();
    if (characters < 2 || characters > Short.MAX_VALUE) {
      throw new TrainingException(
          String.format(
              Locale.ROOT,
              "the text %s has %d different characters, must have 2 to %d",
              name,
              characters,
              Short.MAX_VALUE));
    }
    return made;
  }

  /** The number of characters that differ. */
  int vocabularySize() {
    return vocabulary.length;
  }

  /** The number of characters for training. */
  int trainingSize() {
    return training.length;
  }

  /** The blocks that are held out, as numbers of characters; not copied. */
  List<short[]> heldOut() {
    return heldOut;
  }

  /** The same for the same bytes. */
  String checksum() {
    return checksum;
  }

  /**
   * Draws the sequences of a step, which depend on nothing but the seed and the step. Each has one
   * character more than the context, since the last one is predicted only.
   */
  short[][] draw(long seed, int step, int batch, int context) {
    SplittableRandom random = new SplittableRandom(seed).split();
    random = new SplittableRandom(random.nextLong() + step);
    short[][] sequences = new short[batch][];
    for (int i = 0; i < batch; i++) {
      int start = random.nextInt(training.length - context);
      sequences[i] = Arrays.copyOfRange(training, start, start + context + 1);
    }
    return sequences;
  }

  /**
   * The numbers of a text's characters.
   *
   * @throws TrainingException if one of them does not occur in this text
   */
  short[] encode(String characters) {
    short[] numbers = new short[characters.length()];
    for (int i = 0; i < numbers.length; i++) {
      int number = Arrays.binarySearch(vocabulary, characters.charAt(i));
      if (number < 0) {
        throw new TrainingException(
            String.format(
                Locale.ROOT,
                "'%s' has the character '%c', which does not occur in the text",
                characters,
                characters.charAt(i)));
      }
      numbers[i] = (short) number;
    }
    return numbers;
  }

  /** The character of a number. */
  char character(int number) {
    return vocabulary[number];
  }
}
