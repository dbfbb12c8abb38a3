package io.nvrar.internal.binding;

import com.sun.jna.Function;
import com.sun.jna.LastErrorException;
import com.sun.jna.NativeLibrary;
import io.nvrar.internal.CpuList;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Set;

/** On which cores the threads of this process may run. Linux only; JNA must run. */
public final class CpuAffinity {
  private static final Path TASKS = Path.of("/proc/self/task");

  /** The errno of a thread that has ended. */
  private static final int ESRCH = 3;

  /** Room for 65,536 cores: the kernel refuses to answer into less than it has. */
  private static final int MASK_BYTES = 8192;

  /**
   * How often the threads are listed. A listing that shows no new thread ends it sooner: a thread
   * starts with the cores of that which starts it.
   */
  private static final int LISTINGS = 100;

  private static final NativeLibrary C = NativeLibrary.getInstance("libc.so.6");
  private static final Function GET = function("sched_getaffinity");
  private static final Function SET = function("sched_setaffinity");

  private CpuAffinity() {}

  private static Function function(String name) {
    return C.getFunction(name, Function.THROW_LAST_ERROR);
  }

  /**
   * The cores of the calling thread.
   *
   * @throws IOException if the kernel does not say
   */
  public static CpuList ofThisThread() throws IOException {
    try {
      return get(0);
    } catch (LastErrorException e) {
      throw failed("sched_getaffinity", e);
    }
  }

  /**
   * Takes from every thread of this process the cores that are not among these, except from threads
   * that would have none left. Threads that start later have the cores of those that start them.
   *
   * @throws IOException if the kernel refuses it; some of the threads may have been narrowed
   */
  public static void narrow(CpuList cores) throws IOException {
    Set<Integer> seen = new HashSet<>();
    int listings = 0;
    boolean hasNew = true;
    while (hasNew && listings < LISTINGS) {
      hasNew = false;
      listings++;
      for (int thread : threads()) {
        if (seen.add(thread)) {
          hasNew = true;
          narrow(thread, cores);
        }
      }
    }
  }

  private static Set<Integer> threads() throws IOException {
    Set<Integer> threads = new HashSet<>();
    try (DirectoryStream<Path> tasks = Files.newDirectoryStream(TASKS)) {
      tasks.forEach(task -> threads.add(Integer.parseInt(task.getFileName().toString())));
    } catch (DirectoryIteratorException e) {
      throw e.getCause();
    }
    return threads;
  }

  private static void narrow(int thread, CpuList cores) throws IOException {
    try {
      CpuList left = get(thread).and(cores);
      if (!left.isEmpty()) {
        byte[] mask = left.toMask();
        SET.invokeInt(new Object[] {thread, (long) mask.length, mask});
      }
    } catch (LastErrorException e) {
      if (e.getErrorCode() != ESRCH) {
        throw failed("sched_setaffinity", e);
      }
    }
  }

  private static CpuList get(int thread) {
    byte[] mask = new byte[MASK_BYTES];
    GET.invokeInt(new Object[] {thread, (long) mask.length, mask});
    return CpuList.ofMask(mask);
  }

  private static IOException failed(String function, LastErrorException e) {
    return new IOException(function + " failed with errno " + e.getErrorCode(), e);
  }
}
