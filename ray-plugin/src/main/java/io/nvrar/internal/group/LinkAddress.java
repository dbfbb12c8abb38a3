package io.nvrar.internal.group;

import io.nvrar.AddressRange;
import io.nvrar.CollectiveException;
import java.io.IOException;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** Chooses the address of this host at which members on other hosts reach a member. */
public final class LinkAddress {
  /**
   * An address of this host, and the interface that has it.
   *
   * @param up whether the interface is; it keeps its addresses when it is not
   */
  public record Own(String nic, InetAddress address, boolean up) {
    Own(String nic, InetAddress address) {
      this(nic, address, true);
    }

    @Override
    public String toString() {
      return nic + " " + text() + (up ? "" : " (down)");
    }

    String text() {
      return withoutZone(address.getHostAddress());
    }
  }

  private LinkAddress() {}

  /**
   * The address by {@link io.nvrar.GroupConfig.Links#networkInterface}, as a number; "" if that is
   * empty and {@code automatic} is of no use without its zone, which a group on one host does not
   * need.
   *
   * @param automatic the address from which the member reached the rendezvous, as a number
   * @throws CollectiveException if this host has no such address, with those that it has
   */
  static String of(String networkInterface, String automatic) {
    if (!networkInterface.isEmpty()) {
      return choose(networkInterface, automatic, ofThisHost()).text();
    }
    String number = withoutZone(automatic);
    return needsZone(numeric(number)) ? "" : number;
  }

  private static InetAddress numeric(String number) {
    try {
      return InetAddress.getByName(number);
    } catch (UnknownHostException e) {
      throw new IllegalArgumentException(number + " is no numeric address", e);
    }
  }

  /** Whether an address leads nowhere without a zone, which differs between hosts. */
  private static boolean needsZone(InetAddress address) {
    return address instanceof Inet6Address && address.isLinkLocalAddress();
  }

  /**
   * The address by a {@link io.nvrar.GroupConfig.Links#networkInterface} that is not empty, where
   * an IPv4 address and an IPv6 address serve as well.
   *
   * @throws CollectiveException if this host has no such address, with those that it has
   */
  public static Own of(String networkInterface) {
    return choose(networkInterface, "", ofThisHost());
  }

  /** The addresses of this host by which others may reach it. */
  public static List<Own> all() {
    return ofThisHost().stream()
        .filter(own -> own.up && !own.address.isLoopbackAddress() && !needsZone(own.address))
        .toList();
  }

  static Own choose(String networkInterface, String automatic, List<Own> all) {
    AddressRange range = AddressRange.parse(networkInterface);
    List<Own> wanted =
        all.stream()
            .filter(own -> own.up && isWanted(own, networkInterface, range))
            .filter(own -> !needsZone(own.address))
            .toList();
    boolean isIpv6 = automatic.contains(":");
    return wanted.stream()
        // The members of a group best speak to each other in one family.
        .filter(own -> own.address instanceof Inet6Address == isIpv6)
        .findFirst()
        .or(() -> wanted.stream().findFirst())
        .orElseThrow(
            () ->
                new CollectiveException(
                    String.format(
                        Locale.ROOT,
                        "links.networkInterface is '%s', but this host has no such address; it has %s",
                        networkInterface,
                        all.stream().map(Own::toString).collect(Collectors.joining(", ")))));
  }

  private static boolean isWanted(Own own, String name, @Nullable AddressRange range) {
    return range == null ? own.nic.equals(name) : range.contains(own.address);
  }

  private static List<Own> ofThisHost() {
    List<Own> all = new ArrayList<>();
    try {
      for (NetworkInterface nic : Collections.list(NetworkInterface.getNetworkInterfaces())) {
        for (InetAddress address : Collections.list(nic.getInetAddresses())) {
          all.add(new Own(nic.getName(), address, nic.isUp()));
        }
      }
    } catch (IOException e) {
      throw new CollectiveException(
          "the addresses of this host cannot be read: " + e.getMessage(), e);
    }
    return all;
  }

  /** An IPv6 address may name an interface of the machine that it was read on. */
  private static String withoutZone(String address) {
    int percent = address.indexOf('%');
    return percent < 0 ? address : address.substring(0, percent);
  }
}
