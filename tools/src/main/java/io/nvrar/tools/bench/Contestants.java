package io.nvrar.tools.bench;

import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.tools.bench.measure.ProgramRun;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.OptionNames;
import io.nvrar.tools.bench.setup.OptionNames.Compared;
import io.nvrar.tools.bench.setup.Settings;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** Chooses which implementations are measured: those that --compare names, or all that are here. */
final class Contestants {
  private final Path home;
  private final List<Settings> settings;
  private final PrintWriter err;
  private final List<Implementation> chosen = new ArrayList<>();

  private Contestants(Path home, List<Settings> settings, PrintWriter err) {
    this.home = home;
    this.settings = settings;
    this.err = err;
  }

  /**
   * Returns them in the order of {@link Implementation}, and says on {@code err} what is left out,
   * and why.
   *
   * @param compared null for all that are here
   * @throws CollectiveException if a named one cannot be measured here, unless it is for the other
   *     backend and not the only one
   */
  static List<Implementation> choose(
      @Nullable List<Compared> compared, Path home, List<Settings> settings, PrintWriter err) {
    Contestants contestants = new Contestants(home, settings, err);
    if (compared == null) {
      contestants.all();
    } else {
      contestants.named(compared);
    }
    return contestants.chosen.stream().distinct().sorted().toList();
  }

  private Backend backend() {
    return settings.get(0).backend();
  }

  private void all() {
    for (Implementation one : Implementation.of(backend())) {
      if (one != Implementation.CPP_APART || settings.get(0).fused() != null) {
        addOrSay(one);
      }
    }
  }

  private void named(List<Compared> compared) {
    boolean elsewhere = compared.stream().noneMatch(this::isForThisBackend);
    for (Compared one : compared) {
      if (!elsewhere && !isForThisBackend(one)) {
        err.println(
            String.format(
                Locale.ROOT,
                "nvrar: left out: %s, it is not for --backend %s",
                one,
                backendName()));
        continue;
      }
      List<String> reasons =
          one.all().stream().map(this::leftOut).distinct().collect(Collectors.toList());
      if (!reasons.contains("")) {
        throw new CollectiveException(
            String.format(
                Locale.ROOT, "--compare names %s, but %s", one, String.join("; ", reasons)));
      }
      one.all().forEach(this::addOrSay);
    }
    if (compared.stream().flatMap(one -> one.all().stream()).noneMatch(Implementation::isOurs)) {
      addOrSay(Implementation.CPP);
      addOrSay(Implementation.JAVA);
    }
  }

  private void addOrSay(Implementation one) {
    String reason = leftOut(one);
    if (reason.isEmpty()) {
      chosen.add(one);
    } else {
      err.println("nvrar: left out: " + one + ", " + reason);
    }
  }

  private boolean isForThisBackend(Compared compared) {
    return compared.all().stream().anyMatch(one -> one.runsOn(backend()));
  }

  /** Why it cannot be measured with any of the settings; empty if it can with at least one. */
  private String leftOut(Implementation one) {
    if (!one.runsOn(backend())) {
      return "it is not for --backend " + backendName();
    }
    String reason = "";
    for (Settings each : settings) {
      reason = ProgramRun.leftOut(home, one, each);
      if (reason.isEmpty()) {
        return reason;
      }
    }
    return reason;
  }

  private String backendName() {
    return OptionNames.of(backend());
  }
}
