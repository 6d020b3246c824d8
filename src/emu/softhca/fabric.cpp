// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Joining a fabric, sweeping what dead processes left in its tables, mapping other processes'
// arenas. The only name in the file system is the fabric's file under /dev/shm: arenas and pipes
// are anonymous and reached through /proc/PID/fd, so that a crash leaves nothing behind.
#include "emu/softhca/fabric.hpp"

#include "emu/softhca/clock.hpp"
#include "emu/softhca/copier.hpp"
#include "emu/softhca/counters.hpp"
#include "emu/softhca/fabric_file.hpp"
#include "emu/softhca/faults.hpp"
#include "emu/softhca/liveness.hpp"
#include "emu/softhca/objects.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <new>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace softhca {
namespace {

constexpr std::size_t kPage = 4096;
// Byte ranges of the fabric's file that are locked: by every member for as long as it lives, and
// by whoever changes the tables. The kernel releases both when a process dies.
constexpr off_t kPresence = 0, kTables = 1;

[[noreturn]] void fail(const char* what)
{
    throw std::system_error(errno, std::generic_category(), what);
}

int lock_range(int fd, short type, off_t start, int command)
{
    struct flock range = {};
    range.l_type = type;
    range.l_whence = SEEK_SET;
    range.l_start = start;
    range.l_len = 1;
    int result;
    do {
        result = fcntl(fd, command, &range);
    } while (result != 0 && errno == EINTR);
    return result;
}

// Whether a path still leads to this file.
bool is_at(int fd, const std::string& path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
           opened.st_ino == named.st_ino;
}

// Fabrics of this user in which nobody is any more, because all were killed.
void remove_left_over()
{
    const std::filesystem::path own = fabric_path();
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(own.parent_path(), none)) {
        const std::string path = entry.path();
        if (!path.starts_with(fabric_prefix()) || entry.path().extension() != own.extension()) {
            continue;
        }
        const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && is_own(fd) && lock_range(fd, F_WRLCK, kTables, F_OFD_SETLK) == 0 &&
            lock_range(fd, F_WRLCK, kPresence, F_OFD_SETLK) == 0 && is_at(fd, path)) {
            unlink(path.c_str()); // who waits for the lock sees that it has gone
        }
        if (fd >= 0) {
            close(fd);
        }
    }
}

// An arena's file; null if there is no room.
Arena* map(int fd)
{
    const std::size_t size = kArenaSize + kArenaSlack;
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (memory == MAP_FAILED) {
        return nullptr;
    }
    madvise(memory, size, MADV_DONTFORK);
    madvise(memory, size, MADV_DONTDUMP);
    return static_cast<Arena*>(memory);
}

// Excludes the other threads and the other processes from the fabric's tables.
class TablesGuard {
  public:
    explicit TablesGuard(int fd) : fd_(fd), threads_(mutex_)
    {
        if (lock_range(fd_, F_WRLCK, kTables, F_OFD_SETLKW) != 0) {
            fail("cannot lock the fabric's tables");
        }
    }
    ~TablesGuard() { lock_range(fd_, F_UNLCK, kTables, F_OFD_SETLK); }

  private:
    static std::mutex mutex_;
    int fd_;
    std::lock_guard<std::mutex> threads_;
};
std::mutex TablesGuard::mutex_;

} // namespace

std::atomic<Process*> Process::current_{nullptr};
Process* Process::parents_ = nullptr;

void SharedLock::lock_contended(Token self)
{
    const Process& process = *Process::current();
    Token holder = 0; // and since when
    std::uint64_t since = 0;
    for (unsigned attempt = 0;; ++attempt) {
        Token owner = owner_.load(std::memory_order_relaxed);
        if (attempt % 256 == 255 && owner != holder) {
            holder = owner;
            since = now_ns();
        }
        if (owner == 0) {
            if (owner_.compare_exchange_weak(owner, self, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
                return;
            }
        } else if (attempt % 256 == 255 &&
                   (!process.alive(owner) || now_ns() - since > kLongestHold)) {
            // The dead holder's changes are partial at worst in counts that only concern itself:
            // every queue publishes an entry by its last store.
            if (owner_.compare_exchange_strong(owner, self, std::memory_order_acquire,
                                               std::memory_order_relaxed)) {
                return;
            }
        }
        if (attempt < 64) {
            __builtin_ia32_pause();
        } else if (attempt < 4096) {
            sched_yield();
        } else {
            const timespec pause = {0, 50'000};
            nanosleep(&pause, nullptr);
        }
    }
}

Process& Process::join()
{
    static std::mutex mutex;
    const std::lock_guard<std::mutex> guard(mutex);
    Process* process = current();
    if (process == nullptr) {
        process = new Process; // lives as long as the OS process: its threads may use it at exit
        current_.store(process, std::memory_order_release);
        begin_faults(*process);
        static const bool registered = [] {
            pthread_atfork(nullptr, nullptr, forget_in_child);
            std::atexit(leave_at_exit);
            if (config().stats) {
                std::atexit(print_counters);
            }
            return true;
        }();
        static_cast<void>(registered);
    }
    return *process;
}

void Process::forget_in_child()
{
    parents_ = current_.exchange(nullptr);
}

// The last member to leave takes the fabric's file along.
void Process::leave_at_exit()
{
    Process* process = current();
    if (process == nullptr) {
        return;
    }
    // If two processes leave at once and both still held their locks, each would take the other for
    // a member that stays, and the file would remain. So each first gives up its own lock.
    const int fd = process->fabric_fd_;
    lock_range(fd, F_UNLCK, kPresence, F_OFD_SETLK);
    const std::string path = fabric_path();
    if (lock_range(fd, F_WRLCK, kPresence, F_OFD_SETLK) == 0 && is_at(fd, path)) {
        unlink(path.c_str());
    }
}

Process::Process()
{
    open_fabric();
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); // let peers of this user move data
    arena_fd_ = memfd_create("softhca", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (arena_fd_ < 0 || ftruncate(arena_fd_, kArenaSize + kArenaSlack) != 0 ||
        fcntl(arena_fd_, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
        fail("cannot create shared memory");
    }
    arena_ = map(arena_fd_);
    if (arena_ == nullptr) {
        fail("cannot map shared memory");
    }
    free_ranges_[sizeof(Arena)] = kArenaSize - sizeof(Arena);
    copier_ = std::make_unique<Copier>(*this);
    claim_slot();
}

void Process::open_fabric()
{
    const std::string path = fabric_path();
    while (!enter_fabric(path)) { // its last member has just removed it
    }
    remove_left_over();
}

bool Process::enter_fabric(const std::string& path)
{
    fabric_fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fabric_fd_ < 0) {
        fail(path.c_str());
    }
    if (!is_own(fabric_fd_)) {
        errno = EPERM;
        fail((path + " belongs to another user: SOFTHCA_FABRIC chooses another name").c_str());
    }
    {
        const TablesGuard guard(fabric_fd_); // nobody else enters
        const bool alone = lock_range(fabric_fd_, F_WRLCK, kPresence, F_OFD_SETLK) == 0;
        if ((alone || lock_range(fabric_fd_, F_RDLCK, kPresence, F_OFD_SETLKW) == 0) &&
            is_at(fabric_fd_, path)) {
            map_fabric(path, alone);
            lock_range(fabric_fd_, F_RDLCK, kPresence, F_OFD_SETLK);
            return true;
        }
    }
    close(fabric_fd_);
    return false;
}

void Process::map_fabric(const std::string& path, bool alone)
{
    if (ftruncate(fabric_fd_, sizeof(Fabric)) != 0) {
        fail(path.c_str());
    }
    void* memory = mmap(nullptr, sizeof(Fabric), PROT_READ | PROT_WRITE, MAP_SHARED, fabric_fd_, 0);
    if (memory == MAP_FAILED) {
        fail(path.c_str());
    }
    madvise(memory, sizeof(Fabric), MADV_DONTFORK);
    fabric_ = static_cast<Fabric*>(memory);
    if (alone) {
        // Whatever the tables say is left over, and may be nonsense.
        if (fabric_->magic.load() != kLayoutMagic) {
            madvise(memory, sizeof(Fabric), MADV_REMOVE); // zero
        }
        fabric_->magic.store(kLayoutMagic);
        for (std::atomic<std::uint64_t>& until : fabric_->down_until) {
            until.store(0);
        }
        for (ProcessSlot& slot : fabric_->processes) {
            if (slot.token.load() != 0) {
                clear_slot(slot);
            }
        }
    }
    if (fabric_->magic.load() != kLayoutMagic) {
        errno = EPROTO;
        fail(path.c_str());
    }
}

void Process::clear_slot(ProcessSlot& slot)
{
    const Token token = slot.token.load();
    for (std::atomic<std::uint64_t>& number : fabric_->qp_numbers) {
        const std::uint64_t entry = number.load();
        if (static_cast<Token>(entry >> 32) == token && (entry & 0xffff) != 0) {
            number.store(entry & 0xff0000); // keep the tag, to use the next one
        }
    }
    slot.token.store(0);
}

void Process::sweep()
{
    for (ProcessSlot& slot : fabric_->processes) {
        if (slot.token.load() != 0 && !holds_mutex(slot)) {
            clear_slot(slot);
        }
    }
}

void Process::claim_slot()
{
    const TablesGuard guard(fabric_fd_);
    sweep();
    for (unsigned index = 0; index < kMaxProcesses; ++index) {
        ProcessSlot& slot = fabric_->processes[index];
        if (slot.token.load() != 0) {
            continue;
        }
        slot.generation = (slot.generation % 0xffffff) + 1;
        slot.pid = getpid();
        slot.arena_fd = arena_fd_;
        token_ = slot.generation << 8 | index;
        arena_->magic = kLayoutMagic;
        arena_->token = token_;
        arena_->pid = getpid();
        agent_ = std::make_unique<Agent>(*this, slot.alive);
        slot.token.store(token_, std::memory_order_release);
        return;
    }
    errno = EMFILE;
    fail(("the fabric has " + std::to_string(kMaxProcesses) +
          " processes, and takes no more: SOFTHCA_FABRIC chooses another")
             .c_str());
}

Arena* Process::map_arena(Token other)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    Peer& peer = peers_[other & 0xff];
    if (peer.token.load() == other) {
        return peer.arena;
    }
    const ProcessSlot& slot = fabric_->processes[other & 0xff];
    if (!alive(other)) {
        return nullptr;
    }
    const std::string path =
        "/proc/" + std::to_string(slot.pid) + "/fd/" + std::to_string(slot.arena_fd);
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return nullptr;
    }
    // One that cannot shrink: what is mapped is there to stay.
    struct stat status;
    Arena* arena = nullptr;
    if ((fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) != 0 && fstat(fd, &status) == 0 &&
        static_cast<std::size_t>(status.st_size) == kArenaSize + kArenaSlack) {
        arena = map(fd);
    }
    close(fd);
    if (arena == nullptr) {
        return nullptr;
    }
    if (arena->magic != kLayoutMagic || arena->token != other) {
        munmap(arena, kArenaSize + kArenaSlack);
        return nullptr;
    }
    if (peer.arena != nullptr) {
        // The slot's former process is dead. Another thread may still look at its arena, so the
        // memory is given back but the addresses are not.
        madvise(peer.arena, kArenaSize, MADV_REMOVE);
    }
    for (auto pipe = pipes_.begin(); pipe != pipes_.end();) {
        if ((pipe->first.first & 0xff) == (other & 0xff)) {
            close(pipe->second.fd);
            pipe = pipes_.erase(pipe);
        } else {
            ++pipe;
        }
    }
    peer.arena = arena;
    peer.token.store(other, std::memory_order_release);
    return arena;
}

void Process::await_peers(Arena& owner)
{
    for (unsigned slot = 0; slot < kMaxProcesses; ++slot) {
        std::atomic<std::uint32_t>& count = owner.in_progress[slot];
        const std::uint64_t limit = now_ns() + kLongestHold;
        // Adding 0 rather than loading: who counts itself in after that sees what was done before.
        for (unsigned attempt = 0; count.fetch_add(0) != 0; ++attempt) {
            if (attempt % 256 == 255) {
                const Token other = fabric_->processes[slot].token.load();
                if (other == 0 || !alive(other)) {
                    count.store(0);
                    break;
                }
                if (now_ns() > limit) {
                    break; // one that is stopped counts itself out when it goes on
                }
            }
            sched_yield();
        }
    }
}

std::uint64_t Process::allocate(std::size_t size)
{
    size = (size + kPage - 1) & ~(kPage - 1);
    const std::lock_guard<std::mutex> guard(heap_mutex_);
    for (auto range = free_ranges_.begin(); range != free_ranges_.end(); ++range) {
        const auto [offset, available] = *range;
        if (available >= size) {
            free_ranges_.erase(range);
            if (available > size) {
                free_ranges_[offset + size] = available - size;
            }
            return offset;
        }
    }
    throw std::bad_alloc();
}

void Process::release(std::uint64_t offset, std::size_t size)
{
    size = (size + kPage - 1) & ~(kPage - 1);
    if (size == 0) {
        return;
    }
    madvise(arena_->at<std::uint8_t>(offset), size, MADV_REMOVE); // reads as zero from now on
    const std::lock_guard<std::mutex> guard(heap_mutex_);
    auto next = free_ranges_.upper_bound(offset);
    if (next != free_ranges_.end() && offset + size == next->first) {
        size += next->second;
        next = free_ranges_.erase(next);
    }
    if (next != free_ranges_.begin()) {
        const auto previous = std::prev(next);
        if (previous->first + previous->second == offset) {
            previous->second += size;
            return;
        }
    }
    free_ranges_[offset] = size;
}

std::uint32_t Process::allocate_qp_number(std::uint32_t index)
{
    const TablesGuard guard(fabric_fd_);
    for (unsigned attempt = 0; attempt < kMaxQpNumbers; ++attempt) {
        const std::uint32_t low = fabric_->next_number++ % kMaxQpNumbers;
        std::atomic<std::uint64_t>& number = fabric_->qp_numbers[low];
        const std::uint64_t entry = number.load();
        if (low < 2 || (entry & 0xffff) != 0) { // 0 and 1 are special QPs
            continue;
        }
        const std::uint64_t tag = ((entry >> 16) + 1) & 0xff;
        number.store(std::uint64_t{token_} << 32 | tag << 16 | (index + 1));
        return static_cast<std::uint32_t>(tag << 16 | low);
    }
    return 0;
}

void Process::release_qp_number(std::uint32_t number)
{
    std::atomic<std::uint64_t>& entry = fabric_->qp_numbers[number & 0xffff];
    entry.store(entry.load() & 0xff0000);
}

void Process::write_pipe(Token owner, PipeRef pipe, const void* record, std::size_t size)
{
    if (pipe.id == 0) {
        return;
    }
    if (owner == token_) {
        if (Pipe::is_open(pipe)) {
            static_cast<void>(!write(pipe.fd, record, size));
        }
        return;
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto key = std::make_pair(owner, static_cast<int>(pipe.fd));
    auto open_pipe = pipes_.find(key);
    if (open_pipe != pipes_.end() && open_pipe->second.id != pipe.id) {
        close(open_pipe->second.fd);
        pipes_.erase(open_pipe);
        open_pipe = pipes_.end();
    }
    if (open_pipe == pipes_.end()) {
        const std::string path = "/proc/" + std::to_string(fabric_->processes[owner & 0xff].pid) +
                                 "/fd/" + std::to_string(pipe.fd);
        // To read, too: so there is a reader even when the owner dies, and no SIGPIPE.
        const int fd =
            alive(owner) ? open(path.c_str(), O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
        struct stat status;
        if (fd < 0) {
            return;
        }
        if (fstat(fd, &status) != 0 || !S_ISFIFO(status.st_mode)) {
            close(fd);
            return;
        }
        open_pipe = pipes_.emplace(key, OpenPipe{pipe.id, fd}).first;
    }
    static_cast<void>(!write(open_pipe->second.fd, record, size));
}

} // namespace softhca
