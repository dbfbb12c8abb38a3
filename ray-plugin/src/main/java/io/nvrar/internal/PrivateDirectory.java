package io.nvrar.internal;

import io.nvrar.internal.loading.NativeFiles;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.nio.file.attribute.UserPrincipal;
import java.util.Set;

/**
 * Directories that only this user can write, so that files loaded from them are those that this
 * user wrote.
 */
public final class PrivateDirectory {
  private static final Set<PosixFilePermission> OWNER_ONLY =
      PosixFilePermissions.fromString("rwx------");

  private PrivateDirectory() {}

  /**
   * Creates a directory with mode 0700, or accepts an existing one if it belongs to this user and
   * nobody else may write to it.
   *
   * @throws IOException if it cannot be created or written, or another user could put files into it
   */
  public static void ensure(Path directory) throws IOException {
    Path parent = directory.getParent();
    if (parent != null) {
      Files.createDirectories(parent);
    }
    try {
      Files.createDirectory(directory, PosixFilePermissions.asFileAttribute(OWNER_ONLY));
    } catch (FileAlreadyExistsException e) {
      // Another JVM may have created it at the same time; the checks below apply to it as well.
    }
    PosixFileAttributes attributes = attributes(directory);
    check(directory, attributes, userWhoWrites(directory));
  }

  /**
   * Accepts an existing directory as {@link #ensure} does, but writes nothing.
   *
   * @throws IOException if it does not exist, or another user could put files into it
   */
  public static void check(Path directory) throws IOException {
    check(directory, attributes(directory), Files.getOwner(Path.of("/proc/self")));
  }

  private static PosixFileAttributes attributes(Path directory) throws IOException {
    PosixFileAttributes attributes =
        Files.readAttributes(directory, PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
    if (!attributes.isDirectory()) {
      throw new IOException(directory + " is not a directory");
    }
    return attributes;
  }

  private static void check(Path directory, PosixFileAttributes attributes, UserPrincipal user)
      throws IOException {
    if (!attributes.owner().equals(user)) {
      throw new IOException(
          directory + " belongs to " + attributes.owner().getName() + ", not to " + user.getName());
    }
    Set<PosixFilePermission> permissions = attributes.permissions();
    if (permissions.contains(PosixFilePermission.GROUP_WRITE)
        || permissions.contains(PosixFilePermission.OTHERS_WRITE)) {
      throw new IOException(
          directory
              + " is writable by other users ("
              + PosixFilePermissions.toString(permissions)
              + "); make it private with chmod 700");
    }
  }

  // The owner of a file that we create. This also works in a container whose user has no name.
  private static UserPrincipal userWhoWrites(Path directory) throws IOException {
    Path probe = Files.createTempFile(directory, ".owner", NativeFiles.TEMP_SUFFIX);
    try {
      return Files.getOwner(probe, LinkOption.NOFOLLOW_LINKS);
    } finally {
      Files.deleteIfExists(probe);
    }
  }
}
