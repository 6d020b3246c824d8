// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reading below a root.
#include "doctor/root.hpp"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace gdr::doctor {
namespace {

constexpr int kMostLinks = 40; // as Linux has it

} // namespace

Root::Root(Path directory, Facts facts) : directory_(std::move(directory)), facts_(std::move(facts))
{
}

Root::Text Root::read(const Path& file) const
{
    Text result{};
    const int fd = open(on_disk(file).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        result.error = errno;
        return result;
    }
    char piece[4096];
    ssize_t length;
    while ((length = ::read(fd, piece, sizeof(piece))) > 0) {
        result.text.append(piece, static_cast<size_t>(length));
    }
    result.error = length < 0 ? errno : 0;
    close(fd);
    return result;
}

std::string Root::line(const Path& file) const
{
    const std::string text = read(file).text;
    return text.substr(0, text.find('\n'));
}

std::vector<std::string> Root::list(const Path& directory) const
{
    std::vector<std::string> names;
    std::error_code failed;
    std::filesystem::directory_iterator entry(on_disk(directory), failed);
    for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
        names.push_back(entry->path().filename());
    }
    std::ranges::sort(names);
    return names;
}

std::optional<struct stat> Root::status(const Path& file) const
{
    struct stat status {};
    if (stat(on_disk(file).c_str(), &status) != 0) {
        return std::nullopt;
    }
    return status;
}

bool Root::may_use(const struct stat& status) const
{
    mode_t wanted = S_IROTH | S_IWOTH;
    if (facts_.user == 0) {
        return true;
    }
    if (status.st_uid == facts_.user) {
        wanted = S_IRUSR | S_IWUSR;
    } else if (std::ranges::find(facts_.groups, status.st_gid) != facts_.groups.end()) {
        wanted = S_IRGRP | S_IWGRP;
    }
    return (status.st_mode & wanted) == wanted;
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
            const Path target =
                std::filesystem::read_symlink(directory_.native() + next.native(), none);
            if (none || ++links > kMostLinks) {
                result = next;
            } else {
                rest.insert(rest.begin(), target.begin(), target.end());
            }
        }
    }
    return result;
}

Path Root::on_disk(const Path& file) const
{
    seen_.insert(file);
    return directory_.native() + resolved(file).native();
}

} // namespace gdr::doctor
