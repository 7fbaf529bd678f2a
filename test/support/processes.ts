import { existsSync, readFileSync } from 'node:fs'

/** Whether a process is still running. One that has ended and waits for its parent is not. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch {
    return false
  }
  if (!existsSync('/proc/self/stat')) return true
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch {
    return false
  }
}
