import { readFileSync, readdirSync, readlinkSync } from 'node:fs'

const listening = '0A'

/** Returns the TCP ports on which a process listens. */
export function listeningPorts(pid: number): number[] {
  const sockets = new Set(
    readdirSync(`/proc/${pid}/fd`).map(fd => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1]
      } catch {
        return undefined
      }
    })
  )
  return ['tcp', 'tcp6'].flatMap(family =>
    readFileSync(`/proc/${pid}/net/${family}`, 'latin1')
      .split('\n')
      .map(line => line.trim().split(/\s+/))
      .filter(([, , , state, , , , , , inode]) => state === listening && sockets.has(inode))
      .map(([, local = '']) => Number.parseInt(local.split(':')[1] ?? '', 16))
  )
}
