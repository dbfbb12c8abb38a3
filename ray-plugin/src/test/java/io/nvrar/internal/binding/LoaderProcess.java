package io.nvrar.internal.binding;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.GroupConfig;
import io.nvrar.internal.loading.LoadAttempts;
import io.nvrar.internal.loading.LoaderSettings;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Loads the library, calls it and says from where it was loaded: {@code [start at, in ms of the
 * clock]}. Or says, for each class path behind the word {@code exhausted}, why it cannot be loaded
 * from there when the process can open no file any more.
 */
final class LoaderProcess {
  static final int UNAVAILABLE = 3;

  /**
   * Before a directory, on a full volume of this process: says first why the library cannot be
   * loaded and which files there are, and gives the volume room.
   */
  static final String FULL = "full";

  private LoaderProcess() {}

  public static void main(String[] args) throws Exception {
    if (args.length > 0 && args[0].equals("exhausted")) {
      loadExhausted(args);
      return;
    }
    if (args.length > 0 && args[0].equals(FULL)) {
      failForWantOfRoom(Path.of(args[1]));
    } else if (args.length > 0) {
      Thread.sleep(Math.max(0, Long.parseLong(args[0]) - System.currentTimeMillis()));
    }
    try {
      System.out.println("build " + NativeCommunicator.buildId());
    } catch (BackendUnavailableException e) {
      System.out.println(e.getMessage());
      System.exit(UNAVAILABLE);
    }
    byte[] id = NativeCommunicator.uniqueId(Backend.CPU);
    try (NativeCommunicator alone =
        NativeCommunicator.prepare(
            "a group of 1", Backend.CPU, 0, 0, 1, id, Links.NONE, GroupConfig.defaults())) {
      alone.connect(new byte[][] {alone.descriptor()});
      alone.run(new Call().barrier(), 0);
      System.out.println(alone.call(0).description());
    }
    System.out.println("from " + loadedFrom());
  }

  private static void failForWantOfRoom(Path volume) throws Exception {
    BackendUnavailableException cause = NativeLibraries.unavailabilityCause();
    System.out.println(cause == null ? "loaded" : firstLine(cause));
    try (Stream<Path> all = Files.walk(volume)) {
      System.out.println("left " + all.filter(Files::isRegularFile).toList());
    }
    new ProcessBuilder("mount", "-o", "remount,size=256m", volume.toString())
        .inheritIO()
        .start()
        .waitFor();
    Thread.sleep(1_100); // it is not tried again before
  }

  private static String firstLine(Exception e) {
    return String.valueOf(e.getMessage()).lines().findFirst().orElse("");
  }

  private static void loadExhausted(String[] args) throws Exception {
    List<URLClassLoader> loaders = new ArrayList<>();
    loaders.add(new URLClassLoader(new URL[0], null));
    for (int i = 1; i < args.length; i++) {
      loaders.add(new URLClassLoader(new URL[] {Path.of(args[i]).toUri().toURL()}, null));
    }
    List<FileInputStream> files = new ArrayList<>();
    for (URLClassLoader loader : loaders) {
      try {
        NativeLibraries.open(LoaderSettings.ofProcess(), loader, new LoadAttempts());
      } catch (BackendUnavailableException e) {
        System.out.println(firstLine(e));
      }
      // From the second on, when all classes that it takes have been loaded. Again after a while,
      // for the JVM itself opens and closes a file now and then.
      for (int turn = 0; turn < 3; turn++) {
        openAll(files);
        Thread.sleep(100);
      }
      openAll(files);
    }
  }

  private static void openAll(List<FileInputStream> files) {
    for (FileInputStream file = opened(); file != null; file = opened()) {
      files.add(file);
    }
  }

  private static @Nullable FileInputStream opened() {
    try {
      return new FileInputStream("/dev/null");
    } catch (FileNotFoundException e) {
      return null;
    }
  }

  private static String loadedFrom() throws IOException {
    return Files.readAllLines(Path.of("/proc/self/maps")).stream()
        .filter(line -> line.endsWith("/libnvrar.so"))
        .map(line -> line.substring(line.indexOf('/')))
        .distinct()
        .reduce("", String::concat);
  }
}
