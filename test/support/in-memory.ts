import { spawnSync } from 'node:child_process'
import { statfsSync } from 'node:fs'
import { freemem } from 'node:os'
import { isThorough } from './thorough.js'

/*
 * The files of tests lie on a disk in memory where that is possible. Tests make and remove hundreds of thousands of
 * small files, and sync many; a real disk takes up to a third of the processor time of a deployment for that, and most
 * of its waits. It is an ext4, as most users have: svc syncs it, which it does not do on a tmpfs.
 *
 * Each process gets its own, which nobody else sees, and which ends with it. With THOROUGH=1 the files lie on the disk
 * of the machine.
 */

/** More than what a whole suite has in memory at its worst moment. */
const neededBytes = 4 * 1024 ** 3

/**
 * Puts a new disk at the first place, for temporary files, and a directory of it at the second one. The file that holds
 * the disk has no name any more: it goes with the last process. If the machine refuses, all stays where it is.
 */
const mountAndBecome = `
image=$(mktemp /dev/shm/svc-disk-XXXXXX)
if truncate -s 16G "$image" && mkfs.ext4 -q -m 0 -E nodiscard "$image" && mount -o loop,noatime "$image" "$1"; then
  chmod 1777 "$1"
  mkdir "$1/fixtures"
  mount --bind "$1/fixtures" "$2"
fi
rm -f "$image"
shift 2
exec "$@"`

/** What fits into memory, and into the files that lie there: a container may have only 64 MB of them. */
function freeBytes(): number {
  try {
    const { bavail, bsize } = statfsSync('/dev/shm')
    return Math.min(bavail * bsize, freemem())
  } catch {
    return 0
  }
}

const isPossible =
  !isThorough &&
  process.getuid?.() === 0 &&
  freeBytes() > neededBytes &&
  spawnSync('unshare', ['--mount', 'true']).status === 0

/** Returns a command that is the same process, with the files at both places in memory if that is possible. */
export function inMemory(
  temporary: string,
  fixtures: string,
  [program, words]: readonly [program: string, words: string[]]
): [program: string, words: string[]] {
  if (!isPossible) return [program, words]
  return ['unshare', ['--mount', 'sh', '-c', mountAndBecome, 'sh', temporary, fixtures, program, ...words]]
}
