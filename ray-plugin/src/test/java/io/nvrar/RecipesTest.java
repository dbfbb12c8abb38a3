package io.nvrar;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.standalone.Members;
import java.nio.file.Path;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** That the classes which the documentation shows compile, and sum what they say. */
class RecipesTest {
  @ParameterizedTest
  @ValueSource(strings = {"ofJavaCpp", "ofLwjgl"})
  void memoryOfAnotherLibraryIsSummedWhereItIs(String recipe, @TempDir Path directory)
      throws Exception {
    GroupConfig config = Members.config().backend(Backend.CPU).build();
    try (Recipes recipes = Recipes.compile(directory);
        Members members = Members.join("foreign", 2, config)) {
      members.onAll(
          group -> {
            float own = group.rank() + 1;
            float[] values = {own, 10 * own, -own};
            assertThat((float[]) recipes.call("ForeignSums", recipe, group, values))
                .containsExactly(3, 30, -3);
          });
    }
  }
}
