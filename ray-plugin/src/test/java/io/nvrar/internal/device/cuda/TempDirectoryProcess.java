package io.nvrar.internal.device.cuda;

import io.nvrar.internal.flight.FlightFile;
import io.nvrar.internal.loading.LoaderSettings;
import java.util.Properties;

/** Says where files of this process go while JCuda starts, when another directory is named. */
final class TempDirectoryProcess {
  private static final String PROPERTY = "java.io.tmpdir";

  private TempDirectoryProcess() {}

  public static void main(String[] args) {
    Properties watched =
        new Properties() {
          private static final long serialVersionUID = 1L;

          @Override
          public synchronized Object setProperty(String key, String value) {
            Object before = super.setProperty(key, value);
            if (key.equals(PROPERTY)) {
              System.out.println(
                  value
                      + " "
                      + FlightFile.directoryOfProcess().getParent()
                      + " "
                      + LoaderSettings.ofProcess().tempDir());
            }
            return before;
          }
        };
    watched.putAll(System.getProperties());
    System.setProperties(watched);
    CudaDevices.open(0);
  }
}
