// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Prints the state of a fabric: ports, processes, queue pairs, counters. It reads the files of the
// fabric and of its processes' arenas, and joins nothing, locks nothing and maps nothing. What it
// reads may change meanwhile, or be nonsense: it is printed and never followed.
#include "emu/softhca/clock.hpp"
#include "emu/softhca/fabric_file.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/stat.h>

using namespace softhca;

namespace {

// Objects out of a file; what lies behind its end is zero.
template <class T>
class Copied {
  public:
    Copied(int fd, std::uint64_t offset, std::size_t count)
        : bytes_(static_cast<char*>(operator new (count * sizeof(T), std::align_val_t{alignof(T)})))
    {
        std::memset(bytes_.get(), 0, count * sizeof(T));
        for (std::size_t done = 0; done < count * sizeof(T);) {
            const ssize_t size = pread(fd, bytes_.get() + done, count * sizeof(T) - done,
                                       static_cast<off_t>(offset + done));
            if (size <= 0) {
                break;
            }
            done += static_cast<std::size_t>(size);
        }
    }
    const T& operator[](std::size_t i) const { return reinterpret_cast<const T*>(bytes_.get())[i]; }
    const T* operator->() const { return &(*this)[0]; }

  private:
    struct Free {
        void operator()(char* bytes) const
        {
            operator delete (bytes, std::align_val_t{alignof(T)});
        }
    };
    std::unique_ptr<char, Free> bytes_;
};

struct Head { // of an arena: what comes before its tables
    alignas(Arena) char bytes[offsetof(Arena, qps)];
    const Arena& arena() const { return *reinterpret_cast<const Arena*>(bytes); }
};

struct Member {
    const ProcessSlot* slot;
    int arena_fd; // -1: out of reach
};

std::string command_of(int pid)
{
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::string command;
    return std::getline(file, command) ? command : "?";
}

int open_arena(const ProcessSlot& slot)
{
    const std::string path =
        "/proc/" + std::to_string(slot.pid) + "/fd/" + std::to_string(slot.arena_fd);
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd >= 0 && (fstat(fd, &status) != 0 ||
                    static_cast<std::size_t>(status.st_size) != kArenaSize + kArenaSlack ||
                    Copied<Head>(fd, 0, 1)->arena().token != slot.token.load())) {
        close(fd);
        return -1;
    }
    return fd;
}

const char* state_name(unsigned state)
{
    static constexpr const char* names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return state < std::size(names) ? names[state] : "?";
}

void print_port(const Fabric& fabric, const Arena& arena, unsigned device)
{
    static constexpr std::uint8_t none[16] = {};
    const bool ethernet = arena.port_lid[device] == 0;
    const bool down = fabric.down_until[device].load() > now_ns();
    std::printf("port softhca%u/1 state %s link_layer %s", device, down ? "DOWN" : "ACTIVE",
                ethernet ? "Ethernet" : "InfiniBand");
    if (!ethernet) {
        std::printf(" lid %u", arena.port_lid[device]);
    }
    if (std::strcmp(arena.profiles[device], "softhca") != 0) {
        std::printf(" profile %.63s", arena.profiles[device]);
    }
    for (const auto& gid : arena.gids[device]) {
        char text[INET6_ADDRSTRLEN];
        if (std::memcmp(gid, none, sizeof none) != 0 &&
            inet_ntop(AF_INET6, gid, text, sizeof text) != nullptr) {
            std::printf(" gid %s", text);
        }
    }
    const PortModel& model = arena.ports[device];
    if (model.latency != 0) {
        std::printf(" latency %.3g us", static_cast<double>(model.latency) / 1e3);
    }
    if (model.femtoseconds_per_byte != 0) {
        std::printf(" bandwidth %.4g Gb/s", 8e6 / static_cast<double>(model.femtoseconds_per_byte));
    }
    if (model.gap != 0) {
        std::printf(" rate %.4g/s", 1e9 / static_cast<double>(model.gap));
    }
    std::printf("\n");
}

// Each port once, as the first process has it that opened the device.
void print_ports(const Fabric& fabric, const std::vector<Member>& members)
{
    bool seen[kMaxDevices] = {};
    for (const Member& member : members) {
        if (member.arena_fd < 0) {
            continue;
        }
        const Copied<Head> head(member.arena_fd, 0, 1);
        for (const ContextShared& context : head->arena().contexts) {
            const unsigned end =
                context.events.id == 0 ? 0 : std::min(context.device + context.ports, kMaxDevices);
            for (unsigned device = context.device; device < end; ++device) {
                if (!std::exchange(seen[device], true)) {
                    print_port(fabric, head->arena(), device);
                }
            }
        }
    }
}

void print_qp(const QpShared& qp, const Fabric& fabric, int arena_fd)
{
    std::printf("    qp %u port softhca%u/1 type %s state %s", qp.number.load(),
                unsigned{qp.device},
                qp.type == IBV_QPT_RC   ? "RC"
                : qp.type == IBV_QPT_UC ? "UC"
                : qp.type == IBV_QPT_UD ? "UD"
                : qp.type == kDci       ? "DCI"
                : qp.type == kDct       ? "DCT"
                                        : "?",
                state_name(qp.state.load()));
    const std::uint32_t peer = qp.destination.load();
    if (qp.type != IBV_QPT_UD && peer != 0) {
        const std::uint64_t entry = fabric.qp_numbers[peer & 0xffff].load();
        const ProcessSlot& owner = fabric.processes[(entry >> 32) & 0xff];
        std::printf(" peer %u", peer);
        if ((entry & 0xffff) == 0 || owner.token.load() != entry >> 32 || !holds_mutex(owner)) {
            std::printf(" (gone)");
        } else {
            std::printf(" (pid %d)", owner.pid);
        }
    }
    std::printf(" sq %u/%u", qp.sq_tail - qp.sq_head, qp.max_send_wr);
    if (qp.recv_queue < kMaxRecvQueues) {
        const Copied<RqShared> queue(
            arena_fd, offsetof(Arena, recv_queues) + qp.recv_queue * sizeof(RqShared), 1);
        std::printf(" %s %u/%u", qp.has_srq ? "srq" : "rq", queue->tail - queue->head,
                    queue->max_wr);
    }
    std::printf("\n");
}

void print_process(const Member& member, const Fabric& fabric)
{
    const ProcessSlot& slot = *member.slot;
    const bool alive = holds_mutex(slot);
    std::printf("process %d command %s %s\n", slot.pid, alive ? command_of(slot.pid).c_str() : "?",
                alive ? "alive" : "dead");
    if (member.arena_fd < 0) {
        return;
    }
    const Copied<QpShared> qps(member.arena_fd, offsetof(Arena, qps), kMaxQps);
    std::uint64_t counts[4] = {}, bytes = 0;
    for (unsigned i = 0; i < kMaxQps; ++i) {
        for (unsigned kind = 0; kind < 4; ++kind) {
            counts[kind] += qps[i].counts[kind]; // those of former queue pairs, too
        }
        bytes += qps[i].bytes;
        if (qps[i].number != 0) {
            print_qp(qps[i], fabric, member.arena_fd);
        }
    }
    std::printf("    counters sends %llu writes %llu reads %llu atomics %llu bytes %llu\n",
                static_cast<unsigned long long>(counts[0]),
                static_cast<unsigned long long>(counts[1]),
                static_cast<unsigned long long>(counts[2]),
                static_cast<unsigned long long>(counts[3]), static_cast<unsigned long long>(bytes));
}

} // namespace

int main()
{
    const std::string path = fabric_path();
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        std::fprintf(stderr,
                     "ucx-gdr: no fabric \"%s\": no process of this user uses it (%s: %m)\n",
                     config().fabric.c_str(), path.c_str());
        return 1;
    }
    if (!is_own(fd)) {
        std::fprintf(stderr, "ucx-gdr: %s belongs to another user\n", path.c_str());
        return 1;
    }
    const Copied<Fabric> fabric(fd, 0, 1);
    std::vector<Member> members;
    for (const ProcessSlot& slot : fabric->processes) {
        if (slot.token.load() != 0) {
            members.push_back({&slot, holds_mutex(slot) ? open_arena(slot) : -1});
        }
    }
    std::printf("fabric %s\n", config().fabric.c_str());
    print_ports(fabric[0], members);
    for (const Member& member : members) {
        print_process(member, fabric[0]);
    }
    return 0;
}
