package io.nvrar.tools;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.Algorithm;
import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.TuningTable;
import io.nvrar.tuning.TuningFile;
import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ConfigurationPageTest {
  // Surefire runs the tests in the module's directory.
  private static final Path PAGE = Path.of("..", "docs", "configuration.md");

  @Test
  void everyOptionOfGroupConfigIsExplained() throws IOException {
    List<String> options =
        Arrays.stream(GroupConfig.Builder.class.getDeclaredMethods())
            .filter(method -> Modifier.isPublic(method.getModifiers()))
            .filter(method -> method.getParameterCount() > 0)
            .map(Method::getName)
            .toList();
    assertThat(options).isNotEmpty();
    String page = Files.readString(PAGE);
    assertThat(options).allSatisfy(option -> assertThat(page).contains("| `" + option + "` |"));
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
        .contains(
            "| `linkPorts` | " + defaults.linkPortFirst() + ", " + defaults.linkPortLast() + ":")
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
