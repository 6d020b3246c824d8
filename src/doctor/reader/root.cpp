// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reading below a root.
#include "doctor/reader/root.hpp"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace gdr::doctor {
namespace {

constexpr int kMostLinks = 40; // as Linux has it
constexpr size_t kMostBytes = 16 << 20;

// All that a file has; of errno, why it cannot be had.
int read_all(int fd, std::string* text)
{
    struct stat status {};
    if (fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode)) {
        return ESPIPE; // who writes to it may wait for something else
    }
    char piece[4096];
    ssize_t length;
    while ((length = ::read(fd, piece, sizeof(piece))) > 0) {
        text->append(piece, static_cast<size_t>(length));
        if (text->size() > kMostBytes) {
            text->clear();
            return EFBIG;
        }
    }
    return length < 0 ? errno : 0;
}

} // namespace

Root::Root(Path directory, Facts facts, std::map<Path, Elf> programs)
    : directory_(std::move(directory)), facts_(std::move(facts)), programs_(std::move(programs))
{
}

Root::Text Root::read(const Path& file) const
{
    const Path place = resolved(file);
    seen_[place].was_read = true;
    Text result{};
    const int fd = open(on_disk(place).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        result.error = errno;
        return result;
    }
    result.error = read_all(fd, &result.text);
    close(fd);
    return result;
}

std::string Root::line(const Path& file) const
{
    const std::string text = read(file).text;
    return text.substr(0, text.find('\n'));
}

std::vector<std::string> Root::list(const Path& directory, const std::string& beginning) const
{
    const Path place = resolved(directory);
    std::vector<std::string> names;
    std::error_code failed;
    std::filesystem::directory_iterator entry(on_disk(place), failed);
    for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
        const std::string name = entry->path().filename();
        if (name.starts_with(beginning)) {
            names.push_back(name);
        }
    }
    std::ranges::sort(names);
    auto& seen = seen_[place].names;
    seen.insert(seen.end(), names.begin(), names.end());
    return names;
}

std::optional<struct stat> Root::status(const Path& file) const
{
    const Path place = resolved(file);
    seen_.try_emplace(place);
    struct stat status {};
    if (stat(on_disk(place).c_str(), &status) != 0) {
        return std::nullopt;
    }
    return status;
}

bool Root::may_use(const Path& file) const
{
    const auto its_status = status(file);
    if (!its_status) {
        return false;
    }
    if (is_this_machine()) {
        return faccessat(AT_FDCWD, resolved(file).c_str(), R_OK | W_OK, AT_EACCESS) == 0;
    }
    mode_t wanted = S_IROTH | S_IWOTH;
    if (facts_.user == 0) {
        return true;
    }
    if (its_status->st_uid == facts_.user) {
        wanted = S_IRUSR | S_IWUSR;
    } else if (std::ranges::find(facts_.groups, its_status->st_gid) != facts_.groups.end()) {
        wanted = S_IRGRP | S_IWGRP;
    }
    return (its_status->st_mode & wanted) == wanted;
}

Path Root::resolved(const Path& file) const
{
    const Path whole = file.is_absolute() ? file : facts_.directory / file;
    std::deque<Path> rest(whole.begin(), whole.end());
    Path result = "/";
    for (int links = 0; !rest.empty();) {
        const Path part = rest.front();
        rest.pop_front();
        if (part.is_absolute()) {
            result = "/";
        } else if (part == "..") {
            result = result.parent_path();
        } else if (!part.empty() && part != ".") {
            const Path next = result / part;
            std::error_code none;
            const Path target = std::filesystem::read_symlink(on_disk(next), none);
            if (none || ++links > kMostLinks) {
                result = next;
            } else {
                links_[next] = target;
                rest.insert(rest.begin(), target.begin(), target.end());
            }
        }
    }
    return result;
}

std::optional<Elf> Root::elf(const Path& file) const
{
    const Path place = resolved(file);
    const auto known = programs_.find(place);
    if (known != programs_.end()) {
        return known->second;
    }
    seen_.try_emplace(place);
    auto elf = read_elf(on_disk(place));
    if (elf) {
        programs_[place] = *elf;
    }
    return elf;
}

} // namespace gdr::doctor
