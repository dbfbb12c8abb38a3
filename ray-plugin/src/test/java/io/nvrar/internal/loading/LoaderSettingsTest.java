package io.nvrar.internal.loading;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class LoaderSettingsTest {
  private static final Path TEMP = Path.of("/var/tmp");
  private static final Path TEMP_FALLBACK = Path.of("/var/tmp/nvrar-a_b");

  private final Map<String, String> properties =
      new HashMap<>(
          Map.of(
              "user.home", "/home/ab",
              "user.name", "a b",
              "os.name", "Linux",
              "os.arch", "amd64"));

  @Test
  void theCacheIsTheUsersAndTheTemporaryDirectoryTheFallback() {
    LoaderSettings settings = LoaderSettings.of(properties, Map.of(), TEMP);
    assertThat(settings.nativeDir()).isNull();
    assertThat(settings.platform()).isEqualTo("linux-x86_64");
    assertThat(settings.extractionRoots())
        .containsExactly(Path.of("/home/ab/.cache/nvrar"), TEMP_FALLBACK);
  }

  @Test
  void xdgCacheHomeReplacesTheHomeUnlessItIsRelative() {
    assertThat(roots(Map.of("XDG_CACHE_HOME", "/cache"))[0]).isEqualTo(Path.of("/cache/nvrar"));
    assertThat(roots(Map.of("XDG_CACHE_HOME", "cache"))[0])
        .isEqualTo(Path.of("/home/ab/.cache/nvrar"));
    assertThat(roots(Map.of("XDG_CACHE_HOME", ""))[0]).isEqualTo(Path.of("/home/ab/.cache/nvrar"));
  }

  @Test
  void thePropertyComesBeforeBoth() {
    properties.put("nvrar.native.cache", "/mine");
    assertThat(roots(Map.of("XDG_CACHE_HOME", "/cache")))
        .containsExactly(Path.of("/mine"), TEMP_FALLBACK);
  }

  @Test
  void aUserWithoutAHomeUsesTheTemporaryDirectory() {
    properties.put("user.home", "?");
    assertThat(roots(Map.of())).containsExactly(TEMP_FALLBACK);
  }

  private Path[] roots(Map<String, String> environment) {
    return LoaderSettings.of(properties, environment, TEMP).extractionRoots().toArray(Path[]::new);
  }
}
