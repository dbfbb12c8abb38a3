package io.nvrar.tools.bench.results;

import io.nvrar.tools.bench.setup.CollectiveValues;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.OptionNames;
import io.nvrar.tools.bench.setup.Settings;
import io.nvrar.tools.bench.setup.TimedCollective;
import java.util.List;
import java.util.Locale;

/**
 * One measured cell: a line of the CSV files, including those of {@code nvrar_bench}.
 *
 * @param root -1 if the collective has none
 * @param placement "out" or "in" place
 * @param timeUs median over the batches of the slowest rank's mean
 * @param wrong elements, over all ranks and batches
 * @param hosts how many hosts the ranks were on
 */
public record Row(
    String implementation,
    String collective,
    int processes,
    long bytes,
    long count,
    String type,
    String op,
    int root,
    String algorithm,
    String placement,
    double timeUs,
    double algbwGbps,
    double busbwGbps,
    long wrong,
    double timeMinUs,
    double timeMaxUs,
    int iterations,
    int repeats,
    String backend,
    String mode,
    int hosts) {

  public static final String OUT_OF_PLACE = "out";
  public static final String IN_PLACE = "in";

  /** The fields that the programs write, which do not know on how many hosts they are. */
  public static final String PROGRAM_HEADER =
      "implementation,collective,processes,bytes,count,type,op,root,algorithm,placement,time_us,"
          + "algbw_gbps,busbw_gbps,wrong,time_min_us,time_max_us,iterations,repeats,backend,mode";

  public static final String HEADER = PROGRAM_HEADER + ",hosts";

  /**
   * The collective name of a row with the cost of a group: the time of its creation, and its memory
   * in bytes.
   */
  public static final String GROUP = "group";

  public static final String CREATE = "create";
  private static final double GB_PER_MICROSECOND_BYTE = 1e-3;

  /** The key of a cell; the rows with the same key are its rounds. */
  public record Key(
      String implementation,
      String collective,
      int processes,
      long bytes,
      String placement,
      String mode) {}

  public Key key() {
    // A group's GPU memory may differ from round to round.
    long size = collective.equals(GROUP) ? 0 : bytes;
    return new Key(implementation, collective, processes, size, placement, mode);
  }

  public static Row of(
      Implementation implementation,
      Settings settings,
      CollectiveValues problem,
      String placement,
      Mode mode,
      List<Double> batchesUs,
      long wrong) {
    double us = Medians.of(batchesUs);
    // As in merge, a time may be 0.
    double algbw = us == 0 ? 0 : problem.bytes() / us * GB_PER_MICROSECOND_BYTE;
    TimedCollective collective = problem.collective();
    return new Row(
        implementation.toString(),
        settings.name(),
        problem.world(),
        problem.bytes(),
        problem.count(),
        collective == TimedCollective.BARRIER ? "none" : OptionNames.of(problem.type()),
        collective.reduces() ? OptionNames.of(problem.op()) : "none",
        collective.hasRoot() ? problem.root() : -1,
        collective == TimedCollective.ALL_REDUCE ? OptionNames.of(settings.algorithm()) : "none",
        placement,
        us,
        algbw,
        algbw * problem.busFactor(),
        wrong,
        batchesUs.stream().mapToDouble(Double::doubleValue).min().orElseThrow(),
        batchesUs.stream().mapToDouble(Double::doubleValue).max().orElseThrow(),
        settings.iterationsOf(problem.bytes()),
        batchesUs.size(),
        OptionNames.of(settings.backend()),
        OptionNames.of(mode),
        settings.hosts());
  }

  /** Creates a row with the cost of an implementation's group. */
  public static Row ofGroup(
      Implementation implementation, Settings settings, double createUs, long deviceBytes) {
    return new Row(
        implementation.toString(),
        GROUP,
        settings.processes(),
        deviceBytes,
        0,
        "none",
        "none",
        -1,
        "none",
        OUT_OF_PLACE,
        createUs,
        0,
        0,
        0,
        createUs,
        createUs,
        1,
        1,
        OptionNames.of(settings.backend()),
        CREATE,
        settings.hosts());
  }

  /** Parses a line of a program's file, which begins with {@link #PROGRAM_HEADER}. */
  public static Row parseOfProgram(String line, int hosts) {
    return parse(line + "," + hosts);
  }

  /** Parses a line of a file that begins with {@link #HEADER}. */
  public static Row parse(String line) {
    String[] fields = line.split(",", -1);
    int wanted = HEADER.split(",", -1).length;
    if (fields.length != wanted) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a line of results has %d fields, not %d: %s",
              fields.length,
              wanted,
              line));
    }
    return new Row(
        fields[0],
        fields[1],
        Integer.parseInt(fields[2]),
        Long.parseLong(fields[3]),
        Long.parseLong(fields[4]),
        fields[5],
        fields[6],
        Integer.parseInt(fields[7]),
        fields[8],
        fields[9],
        Double.parseDouble(fields[10]),
        Double.parseDouble(fields[11]),
        Double.parseDouble(fields[12]),
        Long.parseLong(fields[13]),
        Double.parseDouble(fields[14]),
        Double.parseDouble(fields[15]),
        Integer.parseInt(fields[16]),
        Integer.parseInt(fields[17]),
        fields[18],
        fields[19],
        Integer.parseInt(fields[20]));
  }

  /**
   * Merges all rounds of one cell: the median of the times, with its bandwidths, and the sum of the
   * wrong elements.
   */
  public static Row merge(List<Row> rounds) {
    Row first = rounds.get(0);
    double us = Medians.of(rounds.stream().map(Row::timeUs).toList());
    // A call's time may be 0 after the time of the computation is subtracted.
    Row timed = rounds.stream().filter(row -> row.timeUs > 0).findFirst().orElse(first);
    double scale = us == 0 ? 0 : timed.timeUs / us;
    return new Row(
        first.implementation,
        first.collective,
        first.processes,
        rounds.stream().mapToLong(Row::bytes).max().orElseThrow(),
        first.count,
        first.type,
        first.op,
        first.root,
        first.algorithm,
        first.placement,
        us,
        timed.algbwGbps * scale,
        timed.busbwGbps * scale,
        rounds.stream().mapToLong(Row::wrong).sum(),
        rounds.stream().mapToDouble(Row::timeMinUs).min().orElseThrow(),
        rounds.stream().mapToDouble(Row::timeMaxUs).max().orElseThrow(),
        first.iterations,
        rounds.stream().mapToInt(Row::repeats).sum(),
        first.backend,
        first.mode,
        first.hosts);
  }

  String toCsv() {
    return String.format(
        Locale.ROOT,
        "%s,%s,%d,%d,%d,%s,%s,%d,%s,%s,%.4f,%.4f,%.4f,%d,%.4f,%.4f,%d,%d,%s,%s,%d",
        implementation,
        collective,
        processes,
        bytes,
        count,
        type,
        op,
        root,
        algorithm,
        placement,
        timeUs,
        algbwGbps,
        busbwGbps,
        wrong,
        timeMinUs,
        timeMaxUs,
        iterations,
        repeats,
        backend,
        mode,
        hosts);
  }
}
