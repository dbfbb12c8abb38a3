package io.nvrar.examples.llama;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

final class GeneratedTokensTest {

  @Test
  void takingWaitsForATokenAndTakesAllThereAre() throws Exception {
    GeneratedTokens tokens = new GeneratedTokens(false);
    CompletableFuture<int[]> taken = CompletableFuture.supplyAsync(() -> take(tokens, 10_000));
    tokens.accept(3, 70, new float[1]);
    assertThat(taken.get(5, TimeUnit.SECONDS)).containsExactly(0, 3, 70);
    tokens.accept(0, 71, new float[1]);
    tokens.accept(1, 72, new float[1]);
    assertThat(tokens.take(0)).containsExactly(0, 0, 71, 1, 72);
    assertThat(tokens.take(0)).containsExactly(0);
  }

  @Test
  void theEndComesWithTheLastTokensAndWakesWhoWaits() throws Exception {
    GeneratedTokens tokens = new GeneratedTokens(false);
    CompletableFuture<int[]> taken = CompletableFuture.supplyAsync(() -> take(tokens, 10_000));
    tokens.end();
    assertThat(taken.get(5, TimeUnit.SECONDS)).containsExactly(1);
    GeneratedTokens others = new GeneratedTokens(false);
    others.accept(0, 5, new float[1]);
    others.end();
    assertThat(others.take(0)).containsExactly(1, 0, 5);
  }

  @Test
  void logitsAreKeptAsLittleEndianRowsInTheOrderOfTheTokens() {
    GeneratedTokens tokens = new GeneratedTokens(true);
    tokens.accept(0, 1, new float[] {1f, -2f});
    tokens.accept(1, 1, new float[] {5f, 5f});
    assertThat(tokens.takeLogits()).containsExactly(0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0);
    assertThat(tokens.takeLogits()).containsExactly(0, 0, 0xa0, 0x40, 0, 0, 0xa0, 0x40);
    assertThat(tokens.takeLogits()).isNull();
  }

  private static int[] take(GeneratedTokens tokens, long millis) {
    try {
      return tokens.take(millis);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
