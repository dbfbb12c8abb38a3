package io.nvrar;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * That no code which users may copy starts a driver without the address of its cluster: Ray would
 * start a head for it, and the driver's end would stop every Ray of the host.
 */
class DriverSnippetsTest {
  private static final Path HOME = Path.of("..");
  private static final String INIT = "Ray.init()";
  private static final String ADDRESS = "ray.address";

  /** The end of the sentence on processes that Ray itself has started. */
  private static final String NO_DRIVER = "needs no `" + INIT + "`";

  /** A block of code, or a paragraph. */
  private static final Pattern PASSAGE =
      Pattern.compile("(?ms)^```.*?^```$|^(?!```)[^\\n]+(?:\\n(?!```)[^\\n]+)*");

  private static List<String> withoutAddress(String page) {
    return PASSAGE
        .matcher(page)
        .results()
        .map(MatchResult::group)
        .filter(text -> text.contains(INIT))
        .filter(text -> !text.contains(ADDRESS) && !text.contains(NO_DRIVER))
        .toList();
  }

  private static List<Path> files(String suffix, String... folders) throws IOException {
    List<Path> found = new ArrayList<>();
    for (String folder : folders) {
      try (Stream<Path> files = Files.walk(HOME.resolve(folder))) {
        files
            .filter(file -> file.toString().endsWith(suffix))
            .filter(file -> !file.toString().contains("/target/"))
            .forEach(found::add);
      }
    }
    return found;
  }

  @Test
  void everyPassageOfAPageThatStartsADriverNamesTheAddress() throws IOException {
    List<Path> pages = files(".md", "docs", "examples");
    pages.add(HOME.resolve("README.md"));
    List<Path> starting = new ArrayList<>();
    for (Path page : pages) {
      String text = Files.readString(page);
      assertThat(withoutAddress(text)).as(page.toString()).isEmpty();
      if (text.contains(INIT)) {
        starting.add(page);
      }
    }
    assertThat(starting).contains(HOME.resolve("README.md"), HOME.resolve("docs/quick-start.md"));
  }

  @Test
  void everySourceThatStartsADriverHasTheAddress() throws IOException {
    List<Path> starting = new ArrayList<>();
    for (Path source : files(".java", "ray-plugin/src/main", "tools/src/main", "examples")) {
      String text = Files.readString(source);
      if (text.contains(INIT)) {
        starting.add(source);
        assertThat(text).as(source.toString()).contains(ADDRESS);
      }
    }
    assertThat(starting).hasSizeGreaterThan(2);
  }

  @Test
  void aSnippetWithoutTheAddressIsFound() {
    String page =
        """
        With `ray.address` set, call `Ray.init()`.

        ```java
        Ray.init();
        ```
        """;
    assertThat(withoutAddress(page)).containsExactly("```java\nRay.init();\n```");
  }
}
