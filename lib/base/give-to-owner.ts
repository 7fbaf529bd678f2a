import { fchownSync, statSync } from 'node:fs'

/**
 * Gives an open file to the owner of its directory if root made it: the server, which runs as that user, could not read
 * it otherwise. Does nothing for other users.
 */
export function giveToOwner(fd: number, directory: string): void {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = statSync(directory)
  if (uid !== 0) fchownSync(fd, uid, gid)
}
