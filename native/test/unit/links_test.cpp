// Addresses and listeners of links, and which ranks need links.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "common/error.h"
#include "common/handle.h"
#include "link/meeting.h"
#include "member/host_key.h"
#include "member/nodes_of_hosts.h"
#include "support/error_of.h"

namespace nvrar::test {
namespace {

using link::LinkAddress;
using link::Listener;
using nvrar::node_layout_of;

TEST(LinkAddress, SaysWhatItIs) {
  EXPECT_FALSE(LinkAddress{}.exists());
  EXPECT_EQ(LinkAddress{}.text(), "no address");
  const LinkAddress v4 = LinkAddress::of("10.0.0.2", 4711);
  EXPECT_TRUE(v4.exists());
  EXPECT_EQ(v4.text(), "10.0.0.2:4711");
  EXPECT_EQ(v4.bytes[0], 10);
  EXPECT_EQ(v4.bytes[3], 2);
  EXPECT_EQ(LinkAddress::of("fd00::2", 65535).text(), "[fd00::2]:65535");
  EXPECT_EQ(LinkAddress::of("0:0:0:0:0:0:0:1", 0).text(), "[::1]:0");
  EXPECT_EQ(LinkAddress::of("::ffff:10.0.0.2", 4711).text(), "10.0.0.2:4711");
  EXPECT_TRUE(LinkAddress::of("::ffff:127.0.0.1", 1).is_loopback());
  LinkAddress damaged = v4;
  damaged.version = 5;
  EXPECT_EQ(damaged.text(), "no address");
}

TEST(LinkAddress, IsWhatSocketsTake) {
  const link::SocketAddress v4(LinkAddress::of("127.0.0.1", 80));
  EXPECT_EQ(v4.family(), AF_INET);
  EXPECT_EQ(v4.bytes, sizeof(sockaddr_in));
  const auto* const in = reinterpret_cast<const sockaddr_in*>(v4.get());
  EXPECT_EQ(ntohl(in->sin_addr.s_addr), 0x7F000001u);
  EXPECT_EQ(ntohs(in->sin_port), 80);
  const link::SocketAddress v6(LinkAddress::of("::1", 443));
  EXPECT_EQ(v6.family(), AF_INET6);
  EXPECT_EQ(v6.bytes, sizeof(sockaddr_in6));
  const auto* const in6 = reinterpret_cast<const sockaddr_in6*>(v6.get());
  EXPECT_EQ(in6->sin6_addr.s6_addr[15], 1);
  EXPECT_EQ(ntohs(in6->sin6_port), 443);
}

TEST(LinkAddress, RefusesAddressesThatLeadNowhereFromOtherHosts) {
  for (const std::string local : {"fe80::1", "febf::ff:1"}) {
    EXPECT_EQ(error_of([&] { (void)LinkAddress::of(local, 1); }),
              std::to_string(NVRAR_INVALID_ARGUMENT) + " link_address " + local +
                  " is link-local: it leads to this host only by an interface's name, which differs from host to host");
  }
  EXPECT_EQ(LinkAddress::of("fec0::1", 1).text(), "[fec0::1]:1");
}

TEST(LinkAddress, RefusesWhatIsNotNumericOrStandsForAll) {
  for (const std::string any : {"0.0.0.0", "::", "::ffff:0.0.0.0"}) {
    EXPECT_EQ(error_of([&] { (void)LinkAddress::of(any, 1); }),
              std::to_string(NVRAR_INVALID_ARGUMENT) + " link_address " + any +
                  " stands for all addresses of a host: other hosts need one of them");
  }
  for (const char* text : {"", " ", "localhost", "10.0.0", "10.0.0.256", "10.0.0.2:80", "[::1]", "fe80::1%lo", "::g",
                           "1:2:3:4:5:6:7:8:9", "127.0.0.1 ", "0x7f.0.0.1", "-1"}) {
    EXPECT_EQ(error_of([&] { (void)LinkAddress::of(text, 1); }),
              std::to_string(NVRAR_INVALID_ARGUMENT) + " link_address is not a numeric IPv4 or IPv6 address")
        << text;
  }
}

// Three adjacent ports that were free a moment ago.
uint16_t free_ports() {
  for (int tries = 0; tries < 100; ++tries) {
    const uint16_t first = Listener::open("127.0.0.1", 0, 0).address().port;
    if (first > 65532) continue;
    if (error_of([&] {
          for (uint16_t i = 0; i < 3; ++i) (void)Listener::open("127.0.0.1", first + i, first + i);
        }).empty()) {
      return first;
    }
  }
  return 0;
}

TEST(Listener, TakesTheNextFreePortOfARange) {
  const uint16_t first = free_ports();
  const uint16_t last = first + 2;
  Listener listeners[3];
  for (uint16_t i = 0; i < 3; ++i) {
    listeners[i] = Listener::open("127.0.0.1", first, last);
    EXPECT_EQ(listeners[i].address().port, first + i);
  }
  const std::string used = std::to_string(NVRAR_SYSTEM) +
                           " cannot listen for ranks on other hosts at 127.0.0.1, ports " + std::to_string(first) +
                           " to " + std::to_string(last) + ": Address already in use";
  EXPECT_EQ(error_of([&] { (void)Listener::open("127.0.0.1", first, last); }), used);
  listeners[1].close();
  EXPECT_EQ(Listener::open("127.0.0.1", first, last).address().port, first + 1);
}

TEST(Listener, TakesAnyPortWithoutARange) {
  const Listener a = Listener::open("127.0.0.1", 0, 0);
  const Listener b = Listener::open("127.0.0.1", 0, 0);
  EXPECT_NE(a.address().port, 0);
  EXPECT_NE(a.address().port, b.address().port);
  EXPECT_EQ(a.address().text(), "127.0.0.1:" + std::to_string(a.address().port));
}

TEST(LinkAddress, KnowsWhichAddressesAreOfThisHost) {
  for (const char* here : {"127.0.0.1", "127.0.1.1", "::1"}) {
    EXPECT_TRUE(LinkAddress::of(here, 1).is_loopback()) << here;
    EXPECT_TRUE(LinkAddress::of(here, 1).leads_here()) << here;
  }
  for (const char* elsewhere : {"192.0.2.1", "2001:db8::1", "::2"}) {
    EXPECT_FALSE(LinkAddress::of(elsewhere, 1).is_loopback()) << elsewhere;
    EXPECT_FALSE(LinkAddress::of(elsewhere, 1).leads_here()) << elsewhere;
  }
}

TEST(Listener, RefusesAnAddressOfAnotherHost) {
  EXPECT_EQ(error_of([] { (void)Listener::open("192.0.2.1", 0, 0); }),
            std::to_string(NVRAR_SYSTEM) +
                " cannot listen for ranks on other hosts at 192.0.2.1: Cannot assign requested address");
}

TEST(HostKey, IsThatOfThisMachine) {
  const auto key = HostKey::of_this_process();
  EXPECT_EQ(key, HostKey::of_this_process());
  EXPECT_FALSE(key == HostKey{});
  EXPECT_NE(key.boot_id, BootId{});
  EXPECT_TRUE(key.same_kernel(key));
  EXPECT_FALSE(HostKey{}.same_kernel(HostKey{}));
  EXPECT_NE(key.pid_namespace, 0u);
  HostKey other = key;
  other.boot_id[15] ^= 1;
  EXPECT_FALSE(key == other);
  other = key;
  ++other.pid_namespace;
  EXPECT_FALSE(key == other);
  EXPECT_NE(key.user_namespace, 0u);
  other = key;
  ++other.user_namespace;
  EXPECT_FALSE(key == other);
}

TEST(HostKey, IsATextThatDiffersWhereTheKeyDoes) {
  HostKey key{parse_boot_id("01234567-89ab-cdef-fedc-ba9876543210"), 4026531836, 4026531837};
  EXPECT_EQ(key.text(), "01234567-89ab-cdef-fedc-ba9876543210 pid:[4026531836] user:[4026531837]");
  for (uint64_t HostKey::*part : {&HostKey::pid_namespace, &HostKey::user_namespace}) {
    HostKey other = key;
    ++(other.*part);
    EXPECT_NE(other.text(), key.text());
  }
  ++key.boot_id[15];
  EXPECT_EQ(key.text().substr(0, 36), "01234567-89ab-cdef-fedc-ba9876543211");
  key.pid_namespace = key.user_namespace = ~uint64_t{0};
  EXPECT_LT(key.text().size(), size_t{NVRAR_HOST_BYTES});
}

TEST(HostKey, IsWhatTheCallerIsTold) {
  char text[NVRAR_HOST_BYTES];
  ASSERT_EQ(nvrar_host(text, sizeof text), NVRAR_OK);
  EXPECT_EQ(text, HostKey::of_this_process().text());
  EXPECT_EQ(nvrar_host(text, 20), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(nvrar_last_error()),
            "text_bytes is 20, must be at least " + std::to_string(std::strlen(text) + 1));
  const auto bytes = static_cast<uint32_t>(std::strlen(text));
  EXPECT_EQ(nvrar_host(text, bytes), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(nvrar_host(text, bytes + 1), NVRAR_OK);
  EXPECT_EQ(nvrar_host(nullptr, sizeof text), NVRAR_INVALID_ARGUMENT);
}

TEST(BootId, IsTheDigitsOfTheKernelsText) {
  const BootId id = parse_boot_id("01234567-89ab-cdef-fedc-ba9876543210\n");
  EXPECT_EQ(id,
            (BootId{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10}));
  EXPECT_EQ(parse_boot_id("01234567-89AB-CDEF-FEDC-BA9876543210"), id);
  EXPECT_EQ(parse_boot_id("0123456789abcdeffedcba987654321077"), id);
  EXPECT_EQ(parse_boot_id("0123")[1], 0x23);
  EXPECT_NE(parse_boot_id("0123"), parse_boot_id("0124")) << "an unusual id still tells hosts apart";
  EXPECT_EQ(parse_boot_id(""), BootId{});
}

// A rank for each letter: which host it is on.
std::vector<Descriptor> on_hosts(const std::string& hosts) {
  std::vector<Descriptor> descriptors(hosts.size());
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    descriptors[rank].host.boot_id[0] = static_cast<uint8_t>(hosts[rank]);
    descriptors[rank].link = LinkAddress::of("10.0.0.1", static_cast<uint16_t>(1 + rank));
  }
  return descriptors;
}

protocol::RingLayout prepared(uint32_t world, uint32_t ranks_per_node = 0, uint64_t ring_bytes = 1 << 20) {
  return {ring_bytes, {world, ranks_per_node == 0 ? world : ranks_per_node}};
}

std::string reach_text(const std::string& hosts, uint32_t rank, int32_t links = NVRAR_LINKS_BETWEEN_HOSTS,
                       uint32_t ranks_per_node = 0) {
  std::string text;
  const std::string error = error_of([&] {
    const NodeLayout layout =
        node_layout_of(on_hosts(hosts), rank, links, prepared(static_cast<uint32_t>(hosts.size()), ranks_per_node));
    text = "nodes of";
    for (uint32_t node = 0; node < layout.nodes.count; ++node) {
      text += " " + std::to_string(layout.nodes.first[node + 1] - layout.nodes.first[node]);
    }
    text += ", remote:";
    layout.remote.each([&](uint32_t peer) { text += " " + std::to_string(peer); });
  });
  return text + error;
}

TEST(ReachOf, RanksOfOneHostIsEachOther) {
  EXPECT_EQ(reach_text("a", 0), "nodes of 1, remote:");
  EXPECT_EQ(reach_text("aaaa", 2), "nodes of 4, remote:");
  EXPECT_EQ(reach_text("aaaa", 2, NVRAR_LINKS_BETWEEN_NODES), "nodes of 4, remote:");
}

TEST(ReachOf, RanksOfSeveralHostsIsByLinks) {
  EXPECT_EQ(reach_text("ab", 0), "nodes of 1 1, remote: 1");
  EXPECT_EQ(reach_text("ab", 1), "nodes of 1 1, remote: 0");
  EXPECT_EQ(reach_text("aabb", 1), "nodes of 2 2, remote: 2 3");
  EXPECT_EQ(reach_text("aabb", 1, NVRAR_LINKS_BETWEEN_NODES), "nodes of 2 2, remote: 2 3");
  EXPECT_EQ(reach_text("aaabb", 4), "nodes of 3 2, remote: 0 1 2");
  EXPECT_EQ(reach_text("aabbccdd", 3), "nodes of 2 2 2 2, remote: 0 1 4 5 6 7");
  EXPECT_EQ(reach_text("abcdefgh", 7), "nodes of 1 1 1 1 1 1 1 1, remote: 0 1 2 3 4 5 6");
}

TEST(ReachOf, SimulatedNodesIsByLinksOnlyWhereTheyAreAskedFor) {
  EXPECT_EQ(reach_text("aaaa", 0, NVRAR_LINKS_BETWEEN_HOSTS, 2), "nodes of 2 2, remote:");
  EXPECT_EQ(reach_text("aaaa", 0, NVRAR_LINKS_BETWEEN_NODES, 2), "nodes of 2 2, remote: 2 3");
  EXPECT_EQ(reach_text("aaaaa", 4, NVRAR_LINKS_BETWEEN_NODES, 3), "nodes of 3 2, remote: 0 1 2");
}

TEST(ReachOf, RefusesHostsWhoseRanksAreMixed) {
  const std::string mixed = std::to_string(NVRAR_INVALID_ARGUMENT) + " the ranks of a host must be consecutive: ";
  for (uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(reach_text("abab", rank),
              mixed + "rank 2 is on the host of rank 0, and rank 1 between them is on another");
    EXPECT_EQ(reach_text("abba", rank),
              mixed + "rank 3 is on the host of rank 0, and rank 2 between them is on another");
    EXPECT_EQ(reach_text("aabca", rank),
              mixed + "rank 4 is on the host of rank 0, and rank 3 between them is on another");
  }
}

TEST(ReachOf, HostsMayDifferInSize) {
  EXPECT_EQ(reach_text("aabbb", 0), "nodes of 2 3, remote: 2 3 4");
  EXPECT_EQ(reach_text("aaabccc", 3), "nodes of 3 1 3, remote: 0 1 2 4 5 6");
  EXPECT_EQ(reach_text("abb", 1), "nodes of 1 2, remote: 0");
}

TEST(ReachOf, ManyHostsAreAsManyNodes) {
  EXPECT_EQ(reach_text("aaaaaaaabccccccccd", 8), "nodes of 8 1 8 1, remote: 0 1 2 3 4 5 6 7 9 10 11 12 13 14 15 16 17");
  std::string hosts;
  for (char host = '!'; hosts.size() < 64; ++host) hosts += host;
  EXPECT_EQ(reach_text(hosts, 63).substr(0, 17), "nodes of 1 1 1 1 ");
}

TEST(ReachOf, RefusesNodesThatAreTooLargeOrTooMany) {
  const std::string invalid = std::to_string(NVRAR_INVALID_ARGUMENT);
  for (uint32_t rank : {0u, 9u}) {
    EXPECT_EQ(reach_text("abbbbbbbbbc", rank),
              invalid + " 9 ranks from rank 1 on are in one node, which has at most 8");
  }
  EXPECT_EQ(reach_text("aaaaaaaaa", 0), invalid + " 9 ranks from rank 0 on are in one node, which has at most 8");
  std::string hosts;
  for (char host = '!'; hosts.size() < 65; ++host) hosts += host;
  EXPECT_EQ(reach_text(hosts, 0), invalid + " rank 64 is in node 65 of the group, which has at most 64");
}

TEST(ReachOf, RefusesNodesWithinSeveralHosts) {
  EXPECT_EQ(reach_text("aabb", 0, NVRAR_LINKS_BETWEEN_HOSTS, 2),
            std::to_string(NVRAR_INVALID_ARGUMENT) +
                " ranks_per_node 2 divides the ranks of one host into nodes, and these are on several hosts");
}

TEST(ReachOf, RefusesARankWithoutAnAddress) {
  std::vector<Descriptor> descriptors = on_hosts("aabb");
  descriptors[3].link = {};
  const std::string lacks =
      std::to_string(NVRAR_UNAVAILABLE) +
      " rank 2 is on another host than rank 0, and rank 3 has no address for links (link_address)";
  for (uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(error_of([&] { (void)node_layout_of(descriptors, rank, NVRAR_LINKS_BETWEEN_HOSTS, prepared(4)); }),
              lacks);
  }
  descriptors[2].host = descriptors[3].host = descriptors[0].host;
  descriptors[2].host.pid_namespace = descriptors[3].host.pid_namespace = 7;
  EXPECT_EQ(
      error_of([&] { (void)node_layout_of(descriptors, 0, NVRAR_LINKS_BETWEEN_HOSTS, prepared(4)); }),
      std::to_string(NVRAR_UNAVAILABLE) +
          " rank 2 is in another PID or user namespace of the host of rank 0 (containers need to share both), and "
          "rank 3 has no address for links (link_address)");
  for (Descriptor& descriptor : descriptors) descriptor.host = descriptors[0].host;
  EXPECT_EQ(error_of([&] { (void)node_layout_of(descriptors, 0, NVRAR_LINKS_BETWEEN_NODES, prepared(4, 2)); }),
            std::to_string(NVRAR_UNAVAILABLE) +
                " rank 2 is in another node than rank 0 and to be linked (links), and rank 3 has no address for links "
                "(link_address)");
  EXPECT_EQ(error_of([&] { (void)node_layout_of(descriptors, 0, NVRAR_LINKS_BETWEEN_HOSTS, prepared(4)); }), "");
}

TEST(ReachOf, RefusesRingsThatAreTooSmall) {
  const uint64_t least = protocol::kMinRingBytesOfNodes;
  const auto with_rings = [](uint64_t bytes) {
    return error_of([&] { (void)node_layout_of(on_hosts("ab"), 0, NVRAR_LINKS_BETWEEN_HOSTS, prepared(2, 0, bytes)); });
  };
  EXPECT_EQ(with_rings(least), "");
  EXPECT_EQ(with_rings(least - 4096),
            std::to_string(NVRAR_INVALID_ARGUMENT) + " ring_bytes " + std::to_string(least - 4096) +
                " is too small for ranks on several hosts, which need " + std::to_string(least));
}

// A socket as the JDK makes it: a program that this process starts inherits it.
FileDescriptor inherited_socket(int family, int type = SOCK_STREAM) {
  return FileDescriptor(::socket(family, type, 0));
}

bool closes_on_exec(const FileDescriptor& fd) { return (::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0; }

LinkAddress bind_to(const FileDescriptor& socket, const char* numeric) {
  const link::SocketAddress address(LinkAddress::of(numeric, 0));
  EXPECT_EQ(::bind(socket.get(), address.get(), address.bytes), 0);
  return link::local_end(socket.get());
}

TEST(CloseOnExec, SocketsOfOtherCodeByTheirPorts) {
  for (const char* const host : {"127.0.0.1", "::1"}) {
    const link::SocketAddress any(LinkAddress::of(host, 0));
    const FileDescriptor listener = inherited_socket(any.family());
    const FileDescriptor other = inherited_socket(any.family());
    const FileDescriptor client = inherited_socket(any.family());
    const LinkAddress at = bind_to(listener, host);
    const LinkAddress elsewhere = bind_to(other, host);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    ASSERT_EQ(::listen(other.get(), 1), 0);
    const link::SocketAddress to(at);
    ASSERT_EQ(::connect(client.get(), to.get(), to.bytes), 0);
    const FileDescriptor accepted(::accept(listener.get(), nullptr, nullptr));
    const uint16_t port = link::local_end(client.get()).port;

    EXPECT_EQ(nvrar_close_on_exec(at.port, 0), NVRAR_OK) << nvrar_last_error();
    EXPECT_TRUE(closes_on_exec(listener));
    EXPECT_FALSE(closes_on_exec(accepted));
    EXPECT_FALSE(closes_on_exec(client));
    EXPECT_EQ(nvrar_close_on_exec(at.port, port), NVRAR_OK) << nvrar_last_error();
    EXPECT_TRUE(closes_on_exec(accepted));
    EXPECT_FALSE(closes_on_exec(client));
    EXPECT_EQ(nvrar_close_on_exec(port, at.port), NVRAR_OK) << nvrar_last_error();
    EXPECT_TRUE(closes_on_exec(client));
    EXPECT_FALSE(closes_on_exec(other));
    EXPECT_EQ(nvrar_close_on_exec(elsewhere.port, 0), NVRAR_OK) << nvrar_last_error();
    EXPECT_TRUE(closes_on_exec(other));
  }
}

TEST(CloseOnExec, SaysThatThereIsNoSuchSocket) {
  const FileDescriptor datagrams = inherited_socket(AF_INET, SOCK_DGRAM);
  const LinkAddress at = bind_to(datagrams, "127.0.0.1");
  EXPECT_EQ(nvrar_close_on_exec(at.port, 0), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(nvrar_last_error(), "this process has no TCP socket that listens at port " + std::to_string(at.port));
  EXPECT_FALSE(closes_on_exec(datagrams));
  const FileDescriptor bound = inherited_socket(AF_INET);
  const uint16_t port = bind_to(bound, "127.0.0.1").port;
  EXPECT_EQ(nvrar_close_on_exec(port, 0), NVRAR_INVALID_ARGUMENT) << "it listens to nothing";
  EXPECT_FALSE(closes_on_exec(bound));
  EXPECT_EQ(nvrar_close_on_exec(at.port, 65535), NVRAR_INVALID_ARGUMENT);
  EXPECT_EQ(nvrar_last_error(),
            "this process has no TCP socket that connects port " + std::to_string(at.port) + " to port 65535");
  for (const auto& [local, remote] : {std::pair{0, 0}, {-1, 0}, {65536, 0}, {1, -1}, {1, 65536}}) {
    EXPECT_EQ(nvrar_close_on_exec(local, remote), NVRAR_INVALID_ARGUMENT);
    EXPECT_EQ(nvrar_last_error(),
              "there is no TCP socket from port " + std::to_string(local) + " to port " + std::to_string(remote));
  }
}

}  // namespace
}  // namespace nvrar::test
