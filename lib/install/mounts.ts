/*
 * The mounted file systems of this machine, as proc(5) lists them in /proc/self/mountinfo:
 *
 *   36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
 *
 * The fifth field is the mount point, with blanks, tabs, newlines and `\` as octal numbers. The first field after `-` is
 * the type. Reading the list asks no file system, so it does not hang with one that does not respond.
 */
import { readFile } from 'node:fs/promises'

/** A mounted file system. */
export interface Mount {
  point: string
  type: string
}

/** Types of file systems that no other machine and no program of a user answers for. */
const localTypes: ReadonlySet<string> = new Set([
  ...['ext2', 'ext3', 'ext4', 'xfs', 'btrfs', 'f2fs', 'zfs', 'bcachefs', 'overlay', 'tmpfs', 'ramfs']
])

/** Returns the mounted file systems, in the order of their mounting; none if the system does not list them. */
export async function listMounts(): Promise<Mount[]> {
  const text = await readFile('/proc/self/mountinfo', 'utf8').catch(() => '')
  return parseMounts(text)
}

/** Parses the list of mounted file systems. */
export function parseMounts(text: string): Mount[] {
  return text.split('\n').flatMap(line => {
    const [before = '', after = ''] = line.split(' - ')
    const point = before.split(' ')[4]
    const type = after.split(' ')[0] ?? ''
    return point === undefined ? [] : [{ point: decode(point), type }]
  })
}

function decode(point: string): string {
  return point.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8)))
}

/** Whether a directory, given by its real path, and all that is below it are on one local file system. */
export function isLocalTree(mounts: readonly Mount[], path: string): boolean {
  const above = mounts.filter(({ point }) => isBelow(path, point))
  const longest = Math.max(0, ...above.map(({ point }) => point.length))
  // Of several file systems at one mount point, the last one is seen.
  const type = above.findLast(({ point }) => point.length === longest)?.type ?? ''
  return localTypes.has(type) && !mounts.some(({ point }) => point !== path && isBelow(point, path))
}

function isBelow(path: string, directory: string): boolean {
  return path === directory || path.startsWith(directory.endsWith('/') ? directory : `${directory}/`)
}
