package io.nvrar.internal.device.cuda;

import io.nvrar.internal.TempDirectory;
import io.nvrar.internal.loading.CudaLibraries;
import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import jcuda.JCudaVersion;
import jcuda.LibUtils;
import jcuda.driver.JCudaDriver;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Makes JCuda load its library from the directory in which {@link CudaLibraries} has extracted it.
 */
final class JCudaLoader {
  private static final Logger LOG = LoggerFactory.getLogger(JCudaLoader.class);
  private static final String TEMP_DIR_PROPERTY = "java.io.tmpdir";

  private JCudaLoader() {}

  /**
   * Loads JCuda's driver part. Called once.
   *
   * @throws io.nvrar.BackendUnavailableException if JCuda or the driver is not available
   * @throws LinkageError if JCuda itself fails
   */
  static void load() {
    String version = JCudaVersion.get();
    String name = LibUtils.createPlatformLibraryName("JCudaDriver-" + version);
    Path directory =
        CudaLibraries.open(
            "jcuda-" + version, System.mapLibraryName(name), JCudaDriver.class.getClassLoader());
    haveTheJdkReadTheProperty();
    TempDirectory.get(); // keeps our own files where they are, whoever asks meanwhile
    // JCuda supports no path. It loads the file of its name in java.io.tmpdir, and writes the file
    // only if it does not exist. So while JCuda starts, that property names our directory.
    String before = System.setProperty(TEMP_DIR_PROPERTY, directory.toString());
    try {
      JCudaDriver.setExceptionsEnabled(true);
    } finally {
      if (before == null) {
        System.clearProperty(TEMP_DIR_PROPERTY);
      } else {
        System.setProperty(TEMP_DIR_PROPERTY, before);
      }
    }
  }

  // java.io reads the property when it first creates a temporary file, and caches it; java.nio has
  // already done so when the library was extracted.
  private static void haveTheJdkReadTheProperty() {
    try {
      File probe = File.createTempFile("nvrar", null);
      if (!probe.delete()) {
        LOG.debug("{} cannot be deleted", probe);
      }
    } catch (IOException e) {
      LOG.debug("no temporary file can be made here", e);
    }
  }
}
