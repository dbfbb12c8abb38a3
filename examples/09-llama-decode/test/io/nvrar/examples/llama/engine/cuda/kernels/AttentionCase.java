package io.nvrar.examples.llama.engine.cuda.kernels;

import io.nvrar.DataType;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * A step's attention that is computed.
 *
 * @param positions of the rows
 * @param sequences of the rows; null: row r belongs to sequence r
 * @param biased whether the projection has a bias
 * @param peaked whether each head looks at few positions, so that one that is missing shows
 * @param appended whether several rows may belong to a sequence
 */
record AttentionCase(
    DataType type,
    int headSize,
    int heads,
    int keyValueHeads,
    int cluster,
    List<Integer> positions,
    @Nullable List<Integer> sequences,
    boolean biased,
    boolean peaked,
    boolean appended) {

  int batch() {
    return positions.size();
  }

  int position(int row) {
    return positions.get(row);
  }

  int group() {
    return heads / keyValueHeads;
  }

  int sequence(int row) {
    return sequences == null ? row : sequences.get(row);
  }

  AttentionCase withSequences(Integer... ofRows) {
    return of(List.of(ofRows), appended);
  }

  AttentionCase appended(Integer... ofRows) {
    return of(List.of(ofRows), true);
  }

  private AttentionCase of(List<Integer> ofRows, boolean isAppended) {
    return new AttentionCase(
        type,
        headSize,
        heads,
        keyValueHeads,
        cluster,
        positions,
        ofRows,
        biased,
        peaked,
        isAppended);
  }

  @Override
  public String toString() {
    return String.format(
        Locale.ROOT,
        "%s, heads of %d, %d query and %d key/value heads, clusters of %d, positions %s%s%s%s%s",
        type,
        headSize,
        heads,
        keyValueHeads,
        cluster,
        positions,
        sequences == null ? "" : ", sequences " + sequences,
        biased ? ", biased" : "",
        peaked ? ", peaked" : "",
        appended ? ", appended" : "");
  }
}
