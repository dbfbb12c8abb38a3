package io.nvrar;

import static org.assertj.core.api.Assertions.assertThat;

import java.net.InetAddress;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class AddressRangeTest {

  @ParameterizedTest
  @CsvSource({
    "10.1.0.0/16, 10.1.255.7, true",
    "10.1.0.0/16, 10.2.0.1, false",
    "10.1.2.3/16, 10.1.9.9, true",
    "172.16.0.0/12, 172.31.255.255, true",
    "172.16.0.0/12, 172.32.0.0, false",
    "192.168.7.9/32, 192.168.7.9, true",
    "192.168.7.9/32, 192.168.7.8, false",
    "0.0.0.0/0, 1.2.3.4, true",
    "0.0.0.0/0, fd00::1, false",
    "fd00::/8, fd12:3456::1, true",
    "fd00::/8, fe80::1, false",
    "fd00::/8, 10.1.0.1, false",
    "::1/128, ::1, true",
    "192.168.7.9, 192.168.7.9, true",
    "192.168.7.9, 192.168.7.8, false",
    "fd00::7, fd00:0::7, true",
    "fd00::7, fd00::8, false"
  })
  void aRangeContainsWhatBeginsWithItsBits(String range, String address, boolean contained)
      throws Exception {
    assertThat(
            Objects.requireNonNull(AddressRange.parse(range))
                .contains(InetAddress.getByName(address)))
        .isEqualTo(contained);
  }

  @Test
  void whatIsNoRangeIsToldWithoutAResolver() {
    List<String> none =
        List.of(
            "",
            "/",
            "eth0",
            "localhost/8",
            "::ffff:10.1.0.0/112",
            "::ffff:10.1.0.7",
            "::ffff:0a01:7/128",
            "10.1.0.0/",
            "10.1.0.0/33",
            "10.1/16",
            "256.1.0.0/8",
            "fd00",
            "fd00::/129",
            "fd00:::/8",
            "10.1.0.0/-1",
            "10.1.0.0/8/8",
            "1.2.3.4.5/8",
            "fe80::1%eth0/64",
            ":/8");
    assertThat(none).allSatisfy(text -> assertThat(AddressRange.parse(text)).as(text).isNull());
  }
}
