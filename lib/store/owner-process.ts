import { readFileSync } from 'node:fs'
import { readdir, readlink } from 'node:fs/promises'
import { basename, dirname } from 'node:path'

/**
 * The process that listens at the Unix socket `<path>`, or at one that was announced as `<path>.<random>` and then
 * renamed; null where that cannot be known: not on Linux, or a process of another user. The kernel goes on calling a
 * socket by the name it was bound to, and says nothing of who has it: that is in the open files of each process.
 */
export async function findListener(path: string): Promise<number | null> {
  const inodes = socketsOf(readTable(), path)
  if (inodes.size === 0) return null
  for (const pid of (await readdir('/proc').catch(() => [])).filter(name => /^\d+$/.test(name))) {
    for (const descriptor of await readdir(`/proc/${pid}/fd`).catch(() => [])) {
      const target = await readlink(`/proc/${pid}/fd/${descriptor}`).catch(() => '')
      if (inodes.has(/^socket:\[(\d+)\]$/.exec(target)?.[1] ?? '')) return Number(pid)
    }
  }
  return null
}

/** At once: the promise of Node 18 ends after the first piece of a file whose size is not known. */
function readTable(): string {
  try {
    return readFileSync('/proc/net/unix', 'utf8')
  } catch {
    return ''
  }
}

/** `Num RefCount Protocol Flags Type St Inode Path`; the flag 0x10000 is of those that listen. proc(5) */
function socketsOf(table: string, path: string): Set<string> {
  const inodes = new Set<string>()
  for (const line of table.split('\n').slice(1)) {
    const [, , , flags = '0', , , inode = '', ...words] = line.trim().split(/\s+/)
    const bound = words.join(' ')
    const isListening = (parseInt(flags, 16) & 0x10000) !== 0
    if (isListening && dirname(bound) === dirname(path) && basename(bound).startsWith(basename(path))) inodes.add(inode)
  }
  return inodes
}
