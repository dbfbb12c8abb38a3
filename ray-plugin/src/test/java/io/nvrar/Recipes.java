package io.nvrar;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

/** The classes that the documentation shows, compiled. */
public final class Recipes implements AutoCloseable {
  private static final Path GUIDES = Path.of("../docs/guides");

  /** A block of Java that is a whole file. */
  private static final Pattern FILE =
      Pattern.compile(
          "^```java\\n((?:package|import) .*?)^```$", Pattern.DOTALL | Pattern.MULTILINE);

  private static final Pattern CLASS_NAME =
      Pattern.compile(
          "^(?:public )?(?:final )?(?:class|record|interface) (\\w+)", Pattern.MULTILINE);

  private final URLClassLoader loader;

  private Recipes(URLClassLoader loader) {
    this.loader = loader;
  }

  /** Compiles them; what they unpack of native libraries is in the directory, too. */
  public static Recipes compile(Path directory) throws IOException {
    List<Path> files = new ArrayList<>();
    for (Path page : pages()) {
      Matcher block = FILE.matcher(Files.readString(page));
      while (block.find()) {
        Matcher name = CLASS_NAME.matcher(block.group(1));
        assertThat(name.find()).isTrue();
        files.add(Files.writeString(directory.resolve(name.group(1) + ".java"), block.group(1)));
      }
    }
    assertThat(files).isNotEmpty();
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    StringWriter said = new StringWriter();
    try (StandardJavaFileManager manager = compiler.getStandardFileManager(null, null, null)) {
      Iterable<? extends JavaFileObject> sources = manager.getJavaFileObjectsFromPaths(files);
      List<String> options =
          List.of(
              "-proc:none",
              "-d",
              directory.toString(),
              "-cp",
              System.getProperty("java.class.path"));
      boolean compiles = compiler.getTask(said, manager, null, options, null, sources).call();
      assertThat(compiles).as(said.toString()).isTrue();
    }
    System.setProperty("org.bytedeco.javacpp.cachedir", directory.toString());
    System.setProperty("org.lwjgl.system.SharedLibraryExtractPath", directory.toString());
    System.setProperty("org.lwjgl.cuda.libname", "libcuda.so.1");
    return new Recipes(new URLClassLoader(new URL[] {directory.toUri().toURL()}));
  }

  private static List<Path> pages() throws IOException {
    try (Stream<Path> files = Files.list(GUIDES)) {
      return files.filter(file -> file.toString().endsWith(".md")).toList();
    }
  }

  /** Calls a static method. */
  public Object call(String type, String name, Object... arguments) {
    try {
      for (Method method : loader.loadClass(type).getDeclaredMethods()) {
        if (method.getName().equals(name)) {
          method.setAccessible(true);
          return method.invoke(null, arguments);
        }
      }
      throw new AssertionError(type + " has no method " + name);
    } catch (InvocationTargetException e) {
      throw new AssertionError(e.getCause());
    } catch (ReflectiveOperationException e) {
      throw new LinkageError(type + "." + name + " cannot be called", e);
    }
  }

  @Override
  public void close() throws IOException {
    loader.close();
  }
}
