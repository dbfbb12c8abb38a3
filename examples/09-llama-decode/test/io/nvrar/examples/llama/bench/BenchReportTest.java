package io.nvrar.examples.llama.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class BenchReportTest {
  private static final BenchCell CELL = new BenchCell(8, 1024, 32, 0, 3);
  private static final String MEASURED =
      "{\"all_reduce\": \"nccl\", \"batch\": 8, \"context\": 1024, \"step_millis\": [1], \"problem\": \"\"}";
  private static final StepFloor FLOOR = new StepFloor(900, 100, 1e6);

  @Test
  void ofABlockTheSlowestRankCountsAndOfTheBlocksTheMedian() {
    BenchRow row =
        BenchRow.of(
            CELL,
            BenchRow.NVRAR,
            List.of(rank(1.0, 1.0, 4.0, 7, ""), rank(2.0, 3.0, 1.0, 7, "")),
            FLOOR);
    // The blocks take 2, 3 and 4 ms.
    assertThat(row.millis()).isEqualTo(3);
    assertThat(row.leastMillis()).isEqualTo(2);
    assertThat(row.mostMillis()).isEqualTo(4);
    assertThat(row.tokensPerSecond()).isCloseTo(8 / 0.003, within(1e-6));
    assertThat(row.floorMillis()).isCloseTo(1, within(1e-9));
    assertThat(row.percentOfFloor()).isCloseTo(100 / 3.0, within(1e-9));
    // Without all-reduces they take half as long, in the median 1.5 ms.
    assertThat(row.withoutMillis()).isCloseTo(1.5, within(1e-9));
    assertThat(row.allReducePercent()).isCloseTo(50, within(1e-9));
    assertThat(row.problem()).isEmpty();
  }

  @Test
  void differentTokensOfRanksAreAProblemAndSoIsWhatARankSays() {
    assertThat(
            BenchRow.of(
                    CELL,
                    BenchRow.NVRAR,
                    List.of(rank(1, 1, 1, 7, ""), rank(1, 1, 1, 8, "")),
                    FLOOR)
                .problem())
        .isEqualTo("the ranks have different tokens");
    assertThat(
            BenchRow.of(
                    CELL,
                    BenchRow.NVRAR,
                    List.of(rank(1, 1, 1, 7, ""), rank(1, 1, 1, 7, "no")),
                    FLOOR)
                .problem())
        .isEqualTo("no");
  }

  @Test
  void tokensOfTimedAndOfFedStepsMustBeThoseOfADecode() {
    int[] tokens = {1, 2, 3, 4, 5, 6};
    assertThat(StepBench.problem(new int[] {5, 6}, tokens, new int[] {1, 2, 3, 4})).isEmpty();
    assertThat(StepBench.problem(new int[] {5, 7}, tokens, new int[] {1, 2, 3, 4}))
        .isEqualTo("the tokens of timed steps are not those of a decode");
    assertThat(StepBench.problem(new int[] {5, 6}, tokens, new int[] {1, 2, 3, 5}))
        .isEqualTo("the tokens of captured steps are not those of steps that the host feeds");
  }

  @Test
  void theSameStepsWithTheAllReducesOfNcclAreComparedAndAreNotTakenForOurs() throws Exception {
    BenchRow ours = BenchRow.of(CELL, BenchRow.NVRAR, List.of(rank(2, 2, 2, 7, "")), FLOOR);
    BenchRow nccl = BenchRow.of(CELL, BenchRow.NCCL, List.of(rank(4, 4, 4, 7, "")), FLOOR);
    BenchReport report =
        report(List.of(nccl, ours))
            .with(
                TorchDecode.rows(
                    "{\"version\": \"PyTorch 2.9\", \"cells\": [" + MEASURED + "]}", ours));
    StringWriter text = new StringWriter();
    report.print(new PrintWriter(text, true));
    assertThat(text.toString())
        .containsOnlyOnce("a step takes 0.50 of the same with NCCL's all-reduces.")
        .containsOnlyOnce("of the fastest of PyTorch 2.9");
    assertThat(report.rowOf(CELL)).contains(ours);
    BenchRow wrong =
        BenchRow.of(CELL, BenchRow.NCCL, List.of(rank(4, 4, 4, 7, "they differ")), FLOOR);
    assertThat(report(List.of(ours, wrong)).problem())
        .isEqualTo("At batch 8 and context 1024 with NCCL's all-reduces they differ.");
  }

  @Test
  void theFilesSayWhatTheTableSays(@TempDir Path directory) throws Exception {
    BenchRow ours =
        BenchRow.of(
            CELL, BenchRow.NVRAR, List.of(rank(2, 2, 2, 7, ""), rank(1, 2, 2, 7, "")), FLOOR);
    List<BenchRow> theirs =
        TorchDecode.rows(
            """
            {"version": "PyTorch 2.9", "cells": [
              {"all_reduce": "nccl", "batch": 8, "context": 1024, "step_millis": [6, 5, 1], "problem": ""},
              {"all_reduce": "one-shot", "batch": 8, "context": 1024, "step_millis": [4], "problem": ""},
              {"all_reduce": "two-shot", "batch": 8, "context": 1024, "step_millis": [3], "problem": "wrong, all"},
              {"all_reduce": "none", "batch": 8, "context": 1024, "step_millis": [3], "problem": ""},
              {"all_reduce": "nccl", "batch": 1, "context": 1024, "step_millis": [9], "problem": ""}]}
            """,
            ours);
    assertThat(theirs).extracting(BenchRow::millis).containsExactly(5.0, 4.0, 3.0);
    assertThat(theirs).extracting(BenchRow::allReducePercent).containsExactly(40.0, 25.0, 0.0);
    BenchReport report = report(List.of(ours)).with(theirs);

    StringWriter text = new StringWriter();
    report.print(new PrintWriter(text, true));
    assertThat(text.toString())
        .contains(
            "random weights of 8b on 2 GPUs NVIDIA H100, by the fast kernels: 16.00 GB loaded in 8.0 s, 2.00 GB/s.",
            "3.10 TB/s, which the slowest GPU reads",
            "The first token of a prompt of 128 comes after 12.3 ms (prefill: slices).",
            "At batch 8 and context 1024 a step takes 0.50 of the fastest of PyTorch 2.9, that with one-shot.");
    assertThat(text.toString().lines())
        .anyMatch(line -> line.matches(" +nvrar +nvrar +8 +1024 +2\\.000 .* 50\\.0 .* ok"));
    assertThat(report.markdown())
        .contains("| nvrar | nvrar | 8 | 1024 | 2.000 |", "bin/nvrar decode-bench --shape 8b");

    Path json = directory.resolve("report.json");
    report.writeJson(json);
    JsonObject parsed = JsonParser.parseString(Files.readString(json)).getAsJsonObject();
    assertThat(parsed.get("weight_bytes").getAsLong()).isEqualTo(16_000_000_000L);
    JsonObject row = parsed.getAsJsonArray("results").get(0).getAsJsonObject();
    assertThat(row.get("millis").getAsDouble()).isEqualTo(2);
    assertThat(row.get("percent_of_floor").getAsDouble()).isCloseTo(50, within(1e-9));

    Path csv = directory.resolve("report.csv");
    report.writeCsv(csv);
    List<String> lines = Files.readAllLines(csv);
    assertThat(lines).hasSize(5);
    assertThat(lines.get(0)).startsWith("implementation,all_reduce,ranks,batch,context,millis,");
    assertThat(lines.get(1)).startsWith("nvrar,nvrar,2,8,1024,2.0,");
    assertThat(lines.get(2)).startsWith("PyTorch 2.9,nccl,2,8,1024,5.0,");
    assertThat(lines.get(4)).endsWith("\"wrong, all\"");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "[]",
        "{",
        "null",
        "{\"version\": \"1\"}",
        "{\"version\": \"1\", \"cells\": \"none\"}",
        "{\"version\": \"1\", \"cells\": []}",
        "{\"version\": \"1\", \"cells\": [1]}",
        "{\"version\": [], \"cells\": [" + MEASURED + "]}",
        "{\"version\": \"1\", \"cells\": [{}]}",
        "{\"version\": \"1\", \"cells\": [{\"batch\": 8, \"context\": 1024}]}",
        "{\"version\": \"1\", \"cells\": [{\"all_reduce\": \"nccl\", \"batch\": 1, \"context\": 1024, \"step_millis\": [1], \"problem\": \"\"}]}",
        "{\"version\": \"1\", \"cells\": [{\"all_reduce\": \"nccl\", \"batch\": 8, \"context\": 1024, \"step_millis\": [], \"problem\": \"\"}]}",
        "{\"version\": \"1\", \"cells\": [{\"all_reduce\": \"nccl\", \"batch\": 8, \"context\": 1024, \"step_millis\": [NaN], \"problem\": \"\"}]}",
        "{\"version\": \"1\", \"cells\": [{\"all_reduce\": \"nccl\", \"batch\": 8, \"context\": 1024, \"step_millis\": [\"x\"], \"problem\": \"\"}]}",
        "{\"version\": \"1\", \"cells\": [{\"all_reduce\": \"nccl\", \"batch\": 8, \"context\": 1024, \"step_millis\": 3, \"problem\": \"\"}]}",
        "{\"version\": \"1\", \"cells\": [{\"all_reduce\": \"nccl\", \"batch\": 8, \"context\": 1024, \"step_millis\": [-1], \"problem\": \"\"}]}",
      })
  void whatIsNoResultOfTheScriptIsRefused(String text) {
    BenchRow ours = BenchRow.of(CELL, BenchRow.NVRAR, List.of(rank(2, 2, 2, 7, "")), FLOOR);
    assertThatThrownBy(() -> TorchDecode.rows(text, ours))
        .isInstanceOf(IOException.class)
        .hasMessage("torch_decode.py wrote no results that this version knows");
  }

  @Test
  void severalFirstTokensAreATable() {
    BenchReport report =
        report(
            List.of(),
            List.of(
                new FirstToken("cuBLASLt 13.1.0", 512, 0.0086),
                new FirstToken("slices", 512, 0.044)));
    StringWriter text = new StringWriter();
    report.print(new PrintWriter(text, true));
    assertThat(text.toString().lines())
        .contains(
            "   512  cuBLASLt 13.1.0                    8.6",
            "   512           slices                   44.0")
        .noneMatch(line -> line.startsWith("The first token"));
    assertThat(report.markdown())
        .contains(
            "| prompt | prefill | ms to the first token |\n|---:|---:|---:|\n| 512 | cuBLASLt 13.1.0 | 8.6 |\n");
  }

  private static BenchReport report(List<BenchRow> rows) {
    return report(rows, List.of(new FirstToken("slices", 128, 0.0123)));
  }

  private static BenchReport report(List<BenchRow> rows, List<FirstToken> firstTokens) {
    return new BenchReport(
        "bin/nvrar decode-bench --shape 8b",
        "random weights of 8b",
        "NVIDIA H100",
        2,
        "fast",
        16_000_000_000L,
        8,
        3.1e12,
        true,
        firstTokens,
        rows,
        List.of());
  }

  private static RankTimes rank(
      double first, double second, double third, int token, String problem) {
    return new RankTimes(
        new double[] {first, second, third},
        new double[] {first / 2, second / 2, third / 2},
        new int[] {token},
        true,
        problem);
  }
}
