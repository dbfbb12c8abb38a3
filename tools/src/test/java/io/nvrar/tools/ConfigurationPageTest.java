package io.nvrar.tools;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.Algorithm;
import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.TuningTable;
import io.nvrar.tuning.TuningFile;
import java.io.IOException;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ConfigurationPageTest {
  // Surefire runs the tests in the module's directory.
  private static final Path PAGE = Path.of("..", "docs", "reference", "configuration.md");

  @Test
  void everyOptionOfGroupConfigIsExplained() throws IOException {
    Set<String> parts = Set.of("cuda", "links");
    List<String> options =
        Stream.of(
                options(GroupConfig.Builder.class, "").filter(option -> !parts.contains(option)),
                options(GroupConfig.Cuda.Builder.class, "cuda."),
                options(GroupConfig.Links.Builder.class, "links."))
            .flatMap(part -> part)
            .toList();
    assertThat(options).contains("timeout", "cuda.memory", "links.ports");
    String page = Files.readString(PAGE);
    assertThat(options).allSatisfy(option -> assertThat(page).contains("| `" + option + "` |"));
  }

  private static Stream<String> options(Class<?> builder, String prefix) {
    return Arrays.stream(builder.getDeclaredMethods())
        .filter(method -> Modifier.isPublic(method.getModifiers()))
        .filter(method -> method.getParameterCount() > 0)
        .map(method -> prefix + method.getName());
  }

  @Test
  void theDefaultsAreThoseOfTheCode() throws IOException {
    String page = Files.readString(PAGE);
    GroupConfig defaults = GroupConfig.defaults();
    assertThat(page)
        .contains("| `backend` | `" + defaults.backend() + "` |")
        .contains("| `timeout` | " + defaults.timeout().toSeconds() + " s |")
        .contains("| `joinTimeout` | " + defaults.joinTimeout().toSeconds() + " s |")
        .contains("| `heartbeatLimit` | " + defaults.heartbeatLimit().toSeconds() + " s |")
        .contains("| `ringBytes` | " + defaults.ringBytes() + ":")
        .contains("| `rendezvousPort` | " + defaults.rendezvousPort() + ":")
        .contains("| `gpusPerNode` | " + defaults.gpusPerNode() + ":")
        .contains("| `cuda.memory` | `" + defaults.cuda().memory() + "` |")
        .contains("| `cuda.concurrentGroups` | " + defaults.cuda().concurrentGroups() + " |")
        .contains("| `cuda.arenaBytes` | " + defaults.cuda().arenaBytes() + ":")
        .contains("| `cuda.exclusive` | `" + defaults.cuda().exclusive() + "` |")
        .contains("| `cuda.programmaticLaunch` | `" + defaults.cuda().programmaticLaunch() + "` |")
        .contains(
            String.format(
                Locale.ROOT,
                "| `links.ports` | %d, %d:",
                defaults.links().firstPort(),
                defaults.links().lastPort()))
        .contains("| `links.security` | `" + defaults.links().security() + "` |")
        .contains("| `links.threads` | " + defaults.links().threads() + " |")
        .contains("| `links.spin` | " + defaults.links().spin().toMillis() + " ms |")
        .contains("| `tuning` | `" + defaults.tuning() + "` | up to " + TuningTable.MAX_RULES);
  }

  @Test
  void theTuningFileOfThePageIsOneThatIsRead(@TempDir Path directory) throws IOException {
    String page = Files.readString(PAGE);
    int start = page.indexOf("```json") + "```json".length();
    Path file = directory.resolve("tuning.json");
    Files.writeString(file, page.substring(start, page.indexOf("```", start)));
    assertThat(TuningFile.read(file).rules()).hasSize(2);
    assertThat(DataType.values()).allSatisfy(type -> assertThat(page).contains("`" + type + "`"));
    assertThat(Algorithm.values())
        .filteredOn(algorithm -> algorithm != Algorithm.AUTO)
        .allSatisfy(algorithm -> assertThat(page).contains("`" + algorithm + "`"));
  }
}
