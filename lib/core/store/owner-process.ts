import { readFileSync } from 'node:fs'
import { readdir, readlink } from 'node:fs/promises'
import { basename, dirname } from 'node:path'

/**
 * Returns the id of the process that listens on the Unix socket `<path>`, or on a socket that was bound as
 * `<path>.<random>` and then renamed. Returns null if it cannot be determined: on systems other than Linux, or for a
 * process of another user. The kernel keeps listing a socket under the name it was bound to, without its owner; the
 * owner is found through the open files of each process.
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

/** Read synchronously: in Node 18 the promise version stops after the first piece of a file whose size is unknown. */
function readTable(): string {
  try {
    return readFileSync('/proc/net/unix', 'utf8')
  } catch {
    return ''
  }
}

/**
 * Returns the inodes of the sockets that listen under the path. The columns are `Num RefCount Protocol Flags Type St
 * Inode Path`; the flag 0x10000 marks a listening socket. See proc(5).
 */
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
