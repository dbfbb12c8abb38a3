package io.nvrar;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** That the classes which the documentation shows compile. */
class RecipesTest {
  private static final Path DOCS = Path.of("../docs");

  /** A block of Java that is a whole file. */
  private static final Pattern FILE =
      Pattern.compile(
          "^```java\\n((?:package|import) .*?)^```$", Pattern.DOTALL | Pattern.MULTILINE);

  private static final Pattern CLASS_NAME =
      Pattern.compile(
          "^(?:public )?(?:final )?(?:class|record|interface) (\\w+)", Pattern.MULTILINE);

  @Test
  void theClassesOfTheRecipesCompile(@TempDir Path directory) throws Exception {
    List<Path> files = new ArrayList<>();
    Matcher block = FILE.matcher(Files.readString(DOCS.resolve("recipes.md")));
    while (block.find()) {
      Matcher name = CLASS_NAME.matcher(block.group(1));
      assertThat(name.find()).isTrue();
      files.add(Files.writeString(directory.resolve(name.group(1) + ".java"), block.group(1)));
    }
    assertThat(files).isNotEmpty();
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    StringWriter said = new StringWriter();
    try (StandardJavaFileManager manager = compiler.getStandardFileManager(null, null, null)) {
      Iterable<? extends JavaFileObject> sources = manager.getJavaFileObjectsFromPaths(files);
      boolean compiles =
          compiler
              .getTask(
                  said,
                  manager,
                  null,
                  List.of(
                      "-proc:none",
                      "-d",
                      directory.toString(),
                      "-cp",
                      System.getProperty("java.class.path")),
                  null,
                  sources)
              .call();
      assertThat(compiles).as(said.toString()).isTrue();
    }
  }
}
